//! Shared bottom: one layer for all tasks, a tower for each.

use bireme_engine::initializer::Initializer;
use bireme_engine::layers::Act;

use super::census::Census;
use super::perceptron::{activate, linear_with};
use super::{Entry, Hyper, Model, data};
use crate::Result;

pub(super) const ENTRY: Entry = Entry {
    name: "share_bottom",
    area: "multitask",
    summary: "One layer that all tasks share, and a tower for each",
    paper: "Caruana, Multitask Learning (Machine Learning 1997)",
    when: "As the baseline of several tasks, or when they are closely related.",
    labels: &["label_income", "label_marital"],
    sample: &[],
    build,
    generate: data::census::generate,
};

fn build(hyper: &mut Hyper) -> Result<Model> {
    let census = Census::read(hyper)?;
    census.check_tasks(hyper, "task_num")?;
    let bottom = hyper.get_size("bottom_size", 117)?;
    let tower = hyper.get_size("tower_size", 8)?;
    let (weight, bias) = (Initializer::default_weight(), Initializer::Constant(0.0));
    let shared = activate(&linear_with(&census.input, bottom, weight, bias)?, Act::Relu)?;
    census.finish(&[shared.clone(), shared], tower)
}
