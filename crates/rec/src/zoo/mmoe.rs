//! Multi-gate mixture of experts: each task mixes shared experts by a gate of its own.

use bireme_engine::initializer::{Fan, Initializer};
use bireme_engine::layers::{self, Act};

use super::census::{self, Census};
use super::perceptron::{activate, linear_with};
use super::{Entry, Hyper, Model, data};
use crate::Result;

pub(super) const ENTRY: Entry = Entry {
    name: "mmoe",
    area: "multitask",
    summary: "Tasks that mix shared experts, each by a gate of its own",
    paper: "Ma et al., Modeling Task Relationships in Multi-task Learning (KDD 2018)",
    when: "When tasks are related, but not so closely that one bottom suits all.",
    labels: &["label_income", "label_marital"],
    sample: &[],
    build,
    generate: data::census::generate,
};

fn build(hyper: &mut Hyper) -> Result<Model> {
    let census = Census::read(hyper)?;
    census.check_tasks(hyper, "gate_num")?;
    let experts = hyper.get_size("expert_num", 8)?;
    let size = hyper.get_size("expert_size", 16)?;
    let tower = hyper.get_size("tower_size", 8)?;
    // All experts as one layer, which starts as if each were a layer of its own.
    let fan = Fan { fan_out: Some(size as f64), ..Fan::default() };
    let (initial, bias) = (Initializer::Xavier(fan), Initializer::Constant(0.1));
    let all = linear_with(&census.input, experts * size, initial, bias)?;
    let all = activate(&all, Act::Relu)?;
    let all = layers::reshape(&all, &[-1, experts as i32, size as i32])?;
    let mut mixed = Vec::with_capacity(Census::TASKS);
    for _ in 0..Census::TASKS {
        let gate = layers::softmax(&census::layer(&census.input, experts)?)?;
        let mixture = layers::matmul(&layers::unsqueeze(&gate, &[1])?, &all)?;
        mixed.push(layers::reshape(&mixture, &[-1, size as i32])?);
    }
    census.finish(&mixed, tower)
}
