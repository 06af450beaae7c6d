//! Logistic regression: a weight for each id and each dense feature.

use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{self, ParamAttr};

use super::clicks::{Clicks, Sizes};
use super::{Entry, Hyper, Model, data, heads};
use crate::Result;

pub(super) const ENTRY: Entry = Entry {
    name: "logistic_regression",
    area: "rank",
    summary: "A weight for each id and each dense feature, and nothing between them",
    paper: "Richardson et al., Predicting Clicks (WWW 2007)",
    when: "As the baseline that anything else has to beat, or when a weight must be explained.",
    labels: &["label"],
    sample: &[("sparse_feature_number", 100_001)],
    build,
    generate: data::clicks::generate,
};

fn build(hyper: &mut Hyper) -> Result<Model> {
    let sizes = Sizes { rows: ("sparse_feature_number", 1_086_460), width: ("", 1) };
    let clicks = Clicks::read(hyper, sizes)?.padded();
    clicks.check_fields(hyper, clicks.fields())?;
    let penalty = hyper.get_f32("reg", 1e-4)?;
    // PaddleRec starts with random weights of 0.1. There is nothing here whose symmetry had to be
    // broken, and the weight of an id that is seen rarely would stay what chance made it.
    let zero = Initializer::Constant(0.0);
    let weights = clicks.embed(1, ParamAttr::from(zero.clone()))?;
    let ids = layers::reduce_sum(&weights, &[1], false)?;
    let logit = clicks.add_dense_linear(&ids, &zero)?;
    let logit = layers::elementwise_add(&logit, &clicks.bias()?)?;
    let head = heads::click(&logit, &clicks.label)?;
    // PaddleRec sums the losses of a batch. The penalty is L1 on the weights that the batch looked
    // up: on all of them, every step would touch the whole table.
    let loss = layers::reduce_sum(&clicks.weighted(&head.losses)?, &[], false)?;
    let size = layers::reduce_sum(&layers::abs(&weights)?, &[], false)?;
    let loss = layers::elementwise_add(&loss, &layers::scale(&size, penalty, 0.0)?)?;
    Ok(clicks.finish(loss, head.prediction, head.auc))
}
