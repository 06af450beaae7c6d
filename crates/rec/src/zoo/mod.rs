//! The model zoo: models by name, one file each, usable from YAML and from Rust.
//!
//! A model ends with its loss; the optimizer and how it is distributed are a run's business.

mod autoint;
mod baseline;
mod census;
mod clicks;
mod data;
mod dcn;
mod dcn_v2;
mod deepfm;
mod din;
mod dlrm;
mod dnn;
mod dssm;
mod esmm;
mod ffm;
mod fm;
mod heads;
mod interaction;
mod logistic_regression;
mod mmoe;
mod ncf;
#[cfg(test)]
mod page;
mod perceptron;
mod share_bottom;
#[cfg(test)]
mod tests;
mod trial;
mod wide_deep;
mod word2vec;
mod xdeepfm;

use std::io::{self, Write};

use bireme_data::Slot;
use bireme_engine::graph::{Graph, Variable};

pub use crate::config::{Hyper, Value};
use crate::{Error, Result};
pub use bireme_data::parse::Format;
pub use data::criteo;
pub use trial::{Outcome, Trial};

/// A model up to its loss, and what a run has to know about it.
#[derive(Debug)]
pub struct Model {
    /// What it was built in.
    pub graph: Graph,
    /// What it is fed, in this order.
    pub slots: Vec<Slot>,
    /// How its data files are written.
    pub format: Format,
    /// The mean loss of a batch.
    pub loss: Variable,
    /// What is shown during training, beside the loss.
    pub metrics: Vec<Metric>,
    /// What the model says about a sample.
    pub prediction: Variable,
    /// What it must be fed for a prediction: all but labels.
    pub inference_feeds: Vec<String>,
}

/// A number that says how good a model is.
#[derive(Clone, Debug)]
pub struct Metric {
    /// As in log lines: `auc`.
    pub name: String,
    /// Its value since the counts were last zeroed.
    pub variable: Variable,
    /// What it is computed from: persistable counts that are kept over steps (for `auc` the four
    /// of [`bireme_engine::layers::AucResult::stats`]). Empty for a metric of one batch.
    pub counts: Vec<Variable>,
}

/// A model of the zoo.
#[derive(Debug)]
pub struct Entry {
    /// The name in YAML: `model: dnn`, and the name of its folder.
    pub name: &'static str,
    /// The folder of its folder, as in PaddleRec: `rank`, `recall`, `match` or `multitask`.
    pub area: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// When to use it: a sentence.
    pub when: &'static str,
    /// The slots to predict, one for each metric; none where slots are matched with each other.
    pub labels: &'static [&'static str],
    /// Hyper parameters that suit the generated data, which is smaller than what defaults are for.
    pub sample: &'static [(&'static str, i64)],
    /// Builds it.
    pub build: fn(&mut Hyper) -> Result<Model>,
    /// Writes so many generated samples in the model's format, which it can learn from. Seeds draw
    /// different samples from the same world: those of one are a test set for those of another.
    pub generate: fn(&mut dyn Write, rows: usize, seed: u64) -> io::Result<()>,
}

/// All models.
static ENTRIES: &[Entry] = &[
    autoint::ENTRY,
    dcn::ENTRY,
    dcn_v2::ENTRY,
    deepfm::ENTRY,
    din::ENTRY,
    dlrm::ENTRY,
    dnn::ENTRY,
    dssm::ENTRY,
    esmm::ENTRY,
    ffm::ENTRY,
    fm::ENTRY,
    logistic_regression::ENTRY,
    mmoe::ENTRY,
    ncf::ENTRY,
    share_bottom::ENTRY,
    wide_deep::ENTRY,
    word2vec::ENTRY,
    xdeepfm::ENTRY,
];

/// All models, sorted by name.
pub fn entries() -> &'static [Entry] {
    ENTRIES
}

/// The model of a name that is known to exist.
///
/// # Errors
/// When it does not.
pub(crate) fn named(name: &str) -> Result<&'static Entry> {
    find(name).ok_or_else(|| {
        let names: Vec<&str> = entries().iter().map(|entry| entry.name).collect();
        Error::Settings(format!(
            "there is no model `{name}`: set `model` to one of {}",
            names.join(", ")
        ))
    })
}

/// The model of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}
