//! The CTR-DNN of PaddleRec's `models/rank/dnn`: slots through one embedding table, dense features,
//! a perceptron on top.

use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{Auc, ParamAttr};

use super::clicks::{Clicks, Sizes};
use super::perceptron::{BATCH_NORM, Hidden};
use super::{Entry, Hyper, Model, data, heads};
use crate::Result;

pub(super) const ENTRY: Entry = Entry {
    name: "dnn",
    area: "rank",
    summary: "Embeddings of all slots and dense features through a perceptron",
    paper: "Covington et al., Deep Neural Networks for YouTube Recommendations (RecSys 2016)",
    when: "As the first deep model: it is the one that PaddleRec's distributed examples train.",
    labels: &["label"],
    sample: &[("sparse_feature_number", 100_001)],
    build,
    generate: data::clicks::generate,
};

fn build(hyper: &mut Hyper) -> Result<Model> {
    let clicks = Clicks::named(hyper, Sizes::default(), "")?;
    let sizes = hyper.get_sizes("fc_sizes", &[512, 256, 128, 32])?;
    let hidden = Hidden::read(&sizes, hyper, BATCH_NORM, 0.0)?;
    let table = ParamAttr::named("SparseFeatFactors").init(Initializer::uniform(-0.05, 0.05));
    let inputs = clicks.with_dense(clicks.embed_each(table)?)?;
    let logits = hidden.then_linear(&inputs, 2)?;
    let options = Auc { num_thresholds: 4096, slide_steps: 20, ..Auc::default() };
    let head = heads::classes(&logits, &clicks.label, &options)?;
    let loss = clicks.mean(&head.losses)?;
    Ok(clicks.finish(loss, head.prediction, head.auc))
}
