//! Wide & Deep: a linear model of the dense features beside a perceptron of everything.

use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{self, ParamAttr};

use super::clicks::{Clicks, Sizes};
use super::perceptron::{BATCH_NORM, Hidden, linear_with};
use super::{Entry, Hyper, Model, data};
use crate::Result;

pub(super) const ENTRY: Entry = Entry {
    name: "wide_deep",
    area: "rank",
    summary: "A linear model of the dense features beside a perceptron of everything",
    paper: "Cheng et al., Wide & Deep Learning for Recommender Systems (DLRS 2016)",
    when: "When some features are known to act by themselves and others together.",
    labels: &["label"],
    sample: &[("sparse_feature_number", 100_001)],
    build,
    generate: data::clicks::generate,
};

fn build(hyper: &mut Hyper) -> Result<Model> {
    let clicks = Clicks::read(hyper, Sizes::default())?;
    let sizes = hyper.get_sizes("fc_sizes", &[512, 256, 128, 32])?;
    let hidden = Hidden::read(&sizes, hyper, BATCH_NORM, 0.0)?;
    let zero = Initializer::Constant(0.0);
    let wide = match &clicks.dense {
        Some(dense) => {
            let spread = 1.0 / (clicks.dense_width() as f32).sqrt();
            linear_with(dense, 1, Initializer::truncated_normal(0.0, spread), zero)?
        }
        // Without dense features the linear part is that of the ids, as in the paper.
        None => clicks.linear(zero.clone().into(), &zero)?,
    };
    let table = ParamAttr::named("SparseFeatFactors").init(Initializer::uniform(-0.05, 0.05));
    let inputs = clicks.with_dense(clicks.embed_each(table)?)?;
    let deep = hidden.then_linear(&inputs, 1)?;
    clicks.finish_logit(&layers::elementwise_add(&wide, &deep)?)
}
