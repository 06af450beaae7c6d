//! The field-aware factorisation machine.

use bireme_engine::layers;

use super::clicks::{Clicks, Sizes, factor_initial};
use super::interaction::factorise_by_field;
use super::{Entry, Hyper, Model, data};
use crate::Result;

pub(super) const ENTRY: Entry = Entry {
    name: "ffm",
    area: "rank",
    summary: "A factorisation machine whose ids have another embedding for every field they meet",
    paper: "Juan et al., Field-aware Factorization Machines for CTR Prediction (RecSys 2016)",
    when: "When a feature means different things beside different fields, and there is memory for \
           `fields` times the embeddings.",
    labels: &["label"],
    sample: &[("sparse_feature_number", 100_001), ("sparse_feature_dim", 4)],
    build,
    generate: data::clicks::generate,
};

fn build(hyper: &mut Hyper) -> Result<Model> {
    let clicks = Clicks::read(hyper, Sizes::default())?;
    let initial = factor_initial(clicks.width);
    let linear = clicks.linear(initial.clone().into(), &initial)?;
    let fields = clicks.fields();
    let embeddings =
        clicks.embed_fields(clicks.width * fields, initial.clone().into(), &initial)?;
    let pairs = factorise_by_field(&embeddings, fields)?;
    let logit = layers::elementwise_add(&linear, &pairs)?;
    let logit = layers::elementwise_add(&logit, &clicks.bias()?)?;
    clicks.finish_logit(&logit)
}
