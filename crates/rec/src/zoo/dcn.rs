//! Deep & Cross: explicit crosses of bounded degree beside a perceptron.

use bireme_engine::layers;

use super::clicks::{Clicks, Sizes, factor_initial};
use super::interaction::cross;
use super::perceptron::{Hidden, linear};
use super::{Entry, Hyper, Model, data};
use crate::Result;

pub(super) const ENTRY: Entry = Entry {
    name: "dcn",
    area: "rank",
    summary: "Crosses of the inputs with themselves, layer by layer, beside a perceptron",
    paper: "Wang et al., Deep & Cross Network for Ad Click Predictions (ADKDD 2017)",
    when: "When crosses of a known degree matter and parameters are to be few.",
    labels: &["label"],
    sample: &[("sparse_feature_number", 100_001)],
    build,
    generate: data::clicks::generate,
};

fn build(hyper: &mut Hyper) -> Result<Model> {
    let clicks = Clicks::read(hyper, Sizes::default())?.padded();
    let sizes = hyper.get_sizes("fc_sizes", &[512, 256, 128])?;
    let crosses = hyper.get_size("cross_num", 2)?;
    let l2 = hyper.get_f32("l2_reg_cross", 5e-5)?;
    let hidden = Hidden::read(&sizes, hyper, "dnn_use_bn", 0.0)?;
    let initial = factor_initial(clicks.width);
    let slots = clicks.embed(clicks.width, initial.clone().into())?;
    let slots = layers::reshape(&slots, &[-1, (clicks.slots() * clicks.width) as i32])?;
    let inputs = clicks.with_dense(vec![slots])?;
    let mut crossed = inputs.clone();
    for _ in 0..crosses {
        crossed = cross(&inputs, &crossed, &initial, l2)?;
    }
    let deep = hidden.apply(&inputs)?;
    let logit = linear(&layers::concat(&[&deep, &crossed], 1)?, 1)?;
    clicks.finish_logit(&logit)
}
