//! What the models of PaddleRec's census data share: a row of numbers, and two things to predict
//! from it.

use bireme_data::Slot;
use bireme_engine::DType;
use bireme_engine::graph::{Graph, Variable};
use bireme_engine::initializer::{Fan, Initializer};
use bireme_engine::layers::{self, Act};

use super::perceptron::{activate, linear_with};
use super::{Format, Hyper, Model, heads};
use crate::Result;

const INPUT: &str = "input";
/// The labels, as PaddleRec calls them; their metrics are `auc_income` and `auc_marital`.
const LABELS: [&str; 2] = ["label_income", "label_marital"];

/// The inputs.
#[derive(Debug)]
pub(super) struct Census {
    graph: Graph,
    /// `[batch, features]`.
    pub(super) input: Variable,
    labels: [Variable; 2],
}

impl Census {
    /// How many things are predicted.
    pub(super) const TASKS: usize = LABELS.len();

    /// Declares the inputs.
    pub(super) fn read(hyper: &mut Hyper) -> Result<Census> {
        let features = hyper.get_size("feature_size", 499)?;
        let graph = Graph::new();
        let input = layers::data(&graph, INPUT, [features as i64], DType::F32);
        let labels = LABELS.map(|name| layers::data(&graph, name, [1], DType::I64));
        Ok(Census { graph, input, labels })
    }

    /// Refuses a number of tasks that is not the number of labels.
    pub(super) fn check_tasks(&self, hyper: &mut Hyper, key: &str) -> Result<()> {
        if hyper.get_size(key, Census::TASKS)? == Census::TASKS {
            return Ok(());
        }
        Err(hyper.refuse(key, format!("must be {}: the data has so many labels", Census::TASKS)))
    }

    /// The finished model of what each task's tower is given.
    pub(super) fn finish(self, towers: &[Variable], size: usize) -> Result<Model> {
        let (mut predictions, mut losses, mut metrics) = (Vec::new(), Vec::new(), Vec::new());
        for ((tower, label), name) in towers.iter().zip(&self.labels).zip(LABELS) {
            let chance = chance(tower, size)?;
            losses.push(layers::mean(&heads::log_loss(&chance, label)?)?);
            metrics.push(heads::auc(&name.replace("label", "auc"), &chance, label)?);
            predictions.push(chance);
        }
        let slots = LABELS.iter().map(|name| Slot::id(*name));
        let features = self.input.shape()[1] as usize;
        Ok(Model {
            graph: self.graph,
            slots: [Slot::floats(INPUT, features)].into_iter().chain(slots).collect(),
            format: Format::multi_slot(),
            loss: layers::sum(&losses.iter().collect::<Vec<_>>())?,
            metrics,
            prediction: layers::concat(&predictions.iter().collect::<Vec<_>>(), 1)?,
            inference_feeds: vec![INPUT.to_owned()],
        })
    }
}

/// A task's tower: a hidden layer, and the chance of a 1.
fn chance(x: &Variable, size: usize) -> Result<Variable> {
    let logits = layer(&activate(&layer(x, size)?, Act::Relu)?, 2)?;
    let both = layers::clip(&layers::softmax(&logits)?, 1e-15, 1.0 - 1e-15)?;
    Ok(layers::slice(&both, &[1], &[1], &[2])?)
}

/// A linear layer as PaddleRec's models of this data start it.
pub(super) fn layer(x: &Variable, outputs: usize) -> Result<Variable> {
    let initial = Initializer::Xavier(Fan::default());
    linear_with(x, outputs, initial, Initializer::Constant(0.1))
}
