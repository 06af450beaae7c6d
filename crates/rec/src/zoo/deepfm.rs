//! DeepFM: a factorisation machine and a perceptron over the same embeddings.

use bireme_engine::layers;

use super::clicks::{Clicks, Sizes, factor_initial};
use super::interaction::factorise;
use super::perceptron::{BATCH_NORM, Hidden};
use super::{Entry, Hyper, Model, data};
use crate::Result;

pub(super) const ENTRY: Entry = Entry {
    name: "deepfm",
    area: "rank",
    summary: "A factorisation machine and a perceptron over the same embeddings",
    paper: "Guo et al., DeepFM (IJCAI 2017)",
    when: "When both pairs of features and higher orders matter; a strong default.",
    labels: &["label"],
    sample: &[("sparse_feature_number", 100_001)],
    build,
    generate: data::clicks::generate,
};

fn build(hyper: &mut Hyper) -> Result<Model> {
    let clicks = Clicks::read(hyper, Sizes::default())?;
    let sizes = hyper.get_sizes("fc_sizes", &[512, 256, 128, 32])?;
    let hidden = Hidden::read(&sizes, hyper, BATCH_NORM, 0.0)?;
    let initial = factor_initial(clicks.width);
    let linear = clicks.linear(initial.clone().into(), &initial)?;
    let fields = clicks.embed_fields(clicks.width, initial.clone().into(), &initial)?;
    let flat = (clicks.fields() * clicks.width) as i32;
    let deep = hidden.then_linear(&layers::reshape(&fields, &[-1, flat])?, 1)?;
    let logit = layers::sum(&[&linear, &factorise(&fields)?, &deep])?;
    let logit = layers::elementwise_add(&logit, &clicks.bias()?)?;
    clicks.finish_logit(&logit)
}
