//! AutoInt: self-attention between the fields.

use bireme_engine::initializer::Initializer;
use bireme_engine::layers;

use super::clicks::{Clicks, Sizes};
use super::interaction::Attention;
use super::perceptron::{BATCH_NORM, Hidden, linear};
use super::{Entry, Hyper, Model, data};
use crate::Result;

pub(super) const ENTRY: Entry = Entry {
    name: "autoint",
    area: "rank",
    summary: "Self-attention between the embeddings of all fields",
    paper: "Song et al., AutoInt (CIKM 2019)",
    when: "When which features belong together is not known and may differ from sample to sample.",
    labels: &["label"],
    sample: &[("feature_number", 100_001)],
    build,
    generate: data::clicks::generate,
};

fn build(hyper: &mut Hyper) -> Result<Model> {
    let sizes = Sizes { rows: ("feature_number", 1_000_001), width: ("embedding_dim", 16) };
    let clicks = Clicks::read(hyper, sizes)?;
    clicks.check_fields(hyper, clicks.fields())?;
    let sizes_of_hidden = hyper.get_sizes("fc_sizes", &[])?;
    let hidden = Hidden::read(&sizes_of_hidden, hyper, BATCH_NORM, 0.0)?;
    if sizes_of_hidden.is_empty() && hidden.is_regularised() {
        let problem = "is empty, and `use_bn` and `dropout_rate` are about these layers";
        return Err(hyper.refuse("fc_sizes", problem));
    }
    let wide = hyper.get_bool("use_wide", true)?;
    let attention = hyper.get_sizes("attn_layer_sizes", &[64, 64, 64])?;
    let heads = hyper.get_size("head_num", 2)?;
    let (residual, scaling) =
        (hyper.get_bool("use_residual", true)?, hyper.get_bool("scaling", true)?);
    if attention.iter().any(|size| size % heads != 0) {
        let problem = format!("must be multiples of `head_num`, {heads}");
        return Err(hyper.refuse("attn_layer_sizes", problem));
    }

    let initial = Initializer::normal(0.0, 0.01);
    let fields = clicks.embed_fields(clicks.width, initial.clone().into(), &initial)?;
    let mut attended = fields.clone();
    for size in attention {
        attended = Attention { size, heads, residual, scaling }.apply(&attended)?;
    }
    let mut logit = linear(&layers::flatten(&attended, 1, 2)?, 1)?;
    if wide {
        let weights = clicks.linear(Initializer::normal(0.0, 0.001).into(), &initial)?;
        logit = layers::elementwise_add(&logit, &weights)?;
    }
    if !sizes_of_hidden.is_empty() {
        let deep = hidden.then_linear(&layers::flatten(&fields, 1, 2)?, 1)?;
        logit = layers::elementwise_add(&logit, &deep)?;
    }
    clicks.finish_logit(&logit)
}
