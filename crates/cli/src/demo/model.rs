//! The CTR-DNN: 26 slots through one embedding table, 13 dense features, a perceptron on top.
//!
//! Shape and names are those of PaddleRec's `models/rank/dnn`.

use bireme_engine::graph::{Graph, Variable};
use bireme_engine::initializer::Initializer;
use bireme_engine::layers::{Act, Auc, Embedding, Fc, Label, ParamAttr};
use bireme_engine::optimizer::{Adam, Optimizer};
use bireme_engine::{Result, layers};
use bireme_ir::{DType, Program};

use super::batch::{DENSE_FEED, LABEL_FEED, feed_names};
use super::data::{DENSE, SLOTS};

/// Numbers in the embedding of one id.
pub const EMBEDDING: usize = 9;
/// Widths of the perceptron's layers, from the embeddings and dense features to the two classes.
pub const WIDTHS: [usize; 6] = [SLOTS * EMBEDDING + DENSE, 512, 256, 128, 32, 2];
/// The table of embeddings.
pub const TABLE: &str = "SparseFeatFactors";

/// What can be chosen about the model.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Rows of the embedding table.
    pub rows: usize,
    /// Of Adam.
    pub learning_rate: f32,
    /// Of the initial values.
    pub seed: u64,
}

/// The CTR-DNN as programs, and the names to feed and fetch.
#[derive(Clone, Debug)]
pub struct CtrDnn {
    /// Gives every persistable variable its first value.
    pub startup: Program,
    /// One training step.
    pub main: Program,
    /// Everything that training feeds: the label, the slots, the dense features.
    pub feeds: Vec<String>,
    /// The mean loss of a batch.
    pub loss: String,
    /// The AUC since the start of training.
    pub auc: String,
    /// What the AUC is computed from: counts that each training thread keeps for itself.
    pub auc_counts: Vec<String>,
    /// The probabilities of no click and click.
    pub prediction: String,
}

impl CtrDnn {
    /// Builds the model and appends the training step.
    ///
    /// # Errors
    /// When the layers do not fit, for a table too large to declare.
    pub fn build(config: Config) -> Result<CtrDnn> {
        let forward = Forward::build(config)?;
        optimizer(config).minimize(&forward.loss)?;
        Ok(forward.into_model())
    }

    /// What prediction feeds: all but the label.
    pub fn prediction_feeds(&self) -> Vec<&str> {
        self.feeds.iter().map(String::as_str).filter(|name| *name != LABEL_FEED).collect()
    }
}

/// What the model is trained with.
pub fn optimizer(config: Config) -> Adam {
    Adam::new(config.learning_rate).lazy_mode(true)
}

/// The CTR-DNN up to its loss, before anything is said about training.
pub struct Forward {
    /// What it was built in.
    pub graph: Graph,
    /// The mean loss of a batch.
    pub loss: Variable,
    auc: layers::AucResult,
    prediction: Variable,
}

impl Forward {
    /// Builds the model.
    ///
    /// # Errors
    /// As [`CtrDnn::build`].
    pub fn build(config: Config) -> Result<Forward> {
        let graph = Graph::new();
        graph.set_random_seed(config.seed);
        let label = layers::data(&graph, LABEL_FEED, [1], DType::I64);
        let table = Embedding::new([config.rows as i64, EMBEDDING as i64])
            .sparse(true)
            .param_attr(ParamAttr::named(TABLE).init(Initializer::uniform(-0.05, 0.05)));
        let mut inputs = Vec::with_capacity(SLOTS + 1);
        for slot in 1..=SLOTS {
            let ids = layers::data(&graph, &slot.to_string(), [1], DType::I64);
            inputs.push(layers::reshape(&table.apply(&ids)?, &[-1, EMBEDDING as i32])?);
        }
        inputs.push(layers::data(&graph, DENSE_FEED, [DENSE as i64], DType::F32));
        let inputs: Vec<&Variable> = inputs.iter().collect();
        let logits = perceptron(layers::concat(&inputs, 1)?, &WIDTHS)?;
        let prediction = layers::softmax(&logits)?;
        let auc = Auc { num_thresholds: 4096, slide_steps: 20, ..Auc::default() };
        let auc = layers::auc(&prediction, &label, &auc)?;
        let (losses, _) = layers::softmax_with_cross_entropy(&logits, &label, Label::Hard)?;
        let loss = layers::mean(&losses)?;
        Ok(Forward { graph, loss, auc, prediction })
    }

    /// The programs as they are in the graph now, and the names.
    pub fn into_model(self) -> CtrDnn {
        let Forward { graph, loss, auc, prediction } = self;
        CtrDnn {
            startup: graph.startup(),
            main: graph.main(),
            feeds: feed_names(),
            loss: loss.name().to_owned(),
            auc: auc.auc.name().to_owned(),
            auc_counts: auc.stats.iter().map(|counts| counts.name().to_owned()).collect(),
            prediction: prediction.name().to_owned(),
        }
    }
}

/// Fully connected layers of these widths, with a relu after all but the last.
pub fn perceptron(input: Variable, widths: &[usize]) -> Result<Variable> {
    let mut hidden = input;
    for (index, pair) in widths.windows(2).enumerate() {
        let initial = Initializer::normal(0.0, 1.0 / (pair[0] as f32).sqrt());
        let act = if index + 2 < widths.len() { Act::Relu } else { Act::None };
        hidden = Fc::new(pair[1] as i64).act(act).param_attr(initial).apply(&hidden)?;
    }
    Ok(hidden)
}
