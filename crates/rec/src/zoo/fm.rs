//! The factorisation machine.

use bireme_engine::initializer::Initializer;
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
    build,
    generate: data::clicks::generate,
};

fn build(hyper: &mut Hyper) -> Result<Model> {
    let clicks = Clicks::read(hyper, Sizes::default())?;
    let (initial, one) = (factor_initial(clicks.width), Initializer::Constant(1.0));
    let linear = clicks.linear(initial.clone().into(), &one)?;
    let pairs = factorise(&clicks.embed_fields(clicks.width, initial.into(), &one)?)?;
    let logit = layers::elementwise_add(&linear, &pairs)?;
    let logit = layers::elementwise_add(&logit, &clicks.bias()?)?;
    clicks.finish_logit(&logit)
}
