//! The factorisation machine.

use bireme_engine::layers;

use super::clicks::{Clicks, Sizes, factor_initial};
use super::interaction::factorise;
use super::{Entry, Hyper, Model, data};
use crate::Result;

pub(super) const ENTRY: Entry = Entry {
    name: "fm",
    area: "rank",
    summary: "Logistic regression and the products of the embeddings of every two fields",
    paper: "Rendle, Factorization Machines (ICDM 2010)",
    when: "When pairs of features matter and the model must stay small and fast.",
    labels: &["label"],
    sample: &[("sparse_feature_number", 100_001)],
    build,
    generate: data::clicks::generate,
};

fn build(hyper: &mut Hyper) -> Result<Model> {
    let clicks = Clicks::read(hyper, Sizes::default())?;
    let initial = factor_initial(clicks.width);
    let linear = clicks.linear(initial.clone().into(), &initial)?;
    let pairs = factorise(&clicks.embed_fields(clicks.width, initial.clone().into(), &initial)?)?;
    let logit = layers::elementwise_add(&linear, &pairs)?;
    let logit = layers::elementwise_add(&logit, &clicks.bias()?)?;
    clicks.finish_logit(&logit)
}
