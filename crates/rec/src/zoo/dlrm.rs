//! DLRM: products of every two embeddings, one of which comes from the dense features.

use bireme_engine::layers::{self, Auc, ParamAttr};

use super::clicks::{Clicks, Sizes, factor_initial};
use super::interaction::products;
use super::perceptron::{Hidden, linear};
use super::{Entry, Hyper, Model, data, heads};
use crate::Result;

pub(super) const ENTRY: Entry = Entry {
    name: "dlrm",
    area: "rank",
    summary: "Products of every two embeddings, one of them made of the dense features",
    paper: "Naumov et al., Deep Learning Recommendation Model (2019)",
    when: "When there are many slots with large tables: most of its work is lookups.",
    labels: &["label"],
    sample: &[("sparse_feature_number", 100_001)],
    build,
    generate: data::clicks::generate,
};

fn build(hyper: &mut Hyper) -> Result<Model> {
    let sizes = Sizes { width: ("sparse_feature_dim", 16), ..Sizes::default() };
    let clicks = Clicks::read(hyper, sizes)?;
    clicks.check_fields(hyper, clicks.slots())?;
    let bottom = hyper.get_sizes("bot_layer_sizes", &[512, 256, 64, 16])?;
    let top = hyper.get_sizes("top_layer_sizes", &[512, 256, 2])?;
    let batch_norm = hyper.get_bool("use_bn", true)?;
    if bottom.last() != Some(&clicks.width) {
        let problem = format!("must end with `sparse_feature_dim`, {}", clicks.width);
        return Err(hyper.refuse("bot_layer_sizes", problem));
    }
    let Some((2, top)) = top.split_last() else {
        return Err(hyper.refuse("top_layer_sizes", "must end with 2: no click and click"));
    };
    let table = ParamAttr::named("SparseFeatFactors").init(factor_initial(clicks.width));
    let slots = clicks.embed(clicks.width, table)?;
    let inputs = match &clicks.dense {
        Some(dense) => {
            let dense = Hidden::new(&bottom).batch_norm(batch_norm).apply(dense)?;
            let fields = layers::concat(&[&slots, &layers::unsqueeze(&dense, &[1])?], 1)?;
            layers::concat(&[&dense, &products(&fields)?], 1)?
        }
        None if clicks.slots() < 2 => {
            let problem = "leaves one slot and no dense features: there are no products of two";
            return Err(hyper.refuse("sparse_inputs_slots", problem));
        }
        None => products(&slots)?,
    };
    let logits = linear(&Hidden::new(top).batch_norm(batch_norm).apply(&inputs)?, 2)?;
    let options = Auc { slide_steps: 0, ..Auc::default() };
    let head = heads::classes(&logits, &clicks.label, &options)?;
    let loss = clicks.mean(&head.losses)?;
    Ok(clicks.finish(loss, head.prediction, head.auc))
}
