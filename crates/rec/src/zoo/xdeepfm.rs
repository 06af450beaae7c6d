//! xDeepFM: a compressed interaction network, a perceptron and a linear part.

use bireme_engine::layers;

use super::clicks::{Clicks, Sizes, factor_initial};
use super::interaction::compressed;
use super::perceptron::{BATCH_NORM, Hidden, linear};
use super::{Entry, Hyper, Model, data};
use crate::Result;

pub(super) const ENTRY: Entry = Entry {
    name: "xdeepfm",
    area: "rank",
    summary: "Vector-wise interactions of bounded degree, a perceptron and a linear part",
    paper: "Lian et al., xDeepFM (KDD 2018)",
    when: "When explicit interactions of higher order pay for several times the computation.",
    labels: &["label"],
    sample: &[("sparse_feature_number", 100_001)],
    build,
    generate: data::clicks::generate,
};

fn build(hyper: &mut Hyper) -> Result<Model> {
    let clicks = Clicks::read(hyper, Sizes::default())?.padded();
    let sizes = hyper.get_sizes("layer_sizes_dnn", &[512, 256, 128])?;
    let hidden = Hidden::read(&sizes, hyper, BATCH_NORM, 0.0)?;
    let vectors = hyper.get_sizes("layer_sizes_cin", &[128, 32])?;
    let initial = factor_initial(clicks.width);
    let weights = clicks.linear(initial.clone().into(), &initial)?;
    let weights = layers::elementwise_add(&weights, &clicks.bias()?)?;
    let fields = clicks.embed_fields(clicks.width, initial.clone().into(), &initial)?;
    let explicit = linear(&compressed(&fields, &vectors)?, 1)?;
    let flat = (clicks.fields() * clicks.width) as i32;
    let deep = hidden.then_linear(&layers::reshape(&fields, &[-1, flat])?, 1)?;
    clicks.finish_logit(&layers::sum(&[&weights, &explicit, &deep])?)
}
