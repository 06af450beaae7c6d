//! A search for the best values of some keys: the ranges that a configuration gives them, the values
//! of each trial, and what came out. Who runs the trials is the command's business.
//!
//! Values of trial `n` depend on the seed and `n` alone, so that a search which goes on has the same
//! trials as one that was not stopped, whatever ran beside each other.

mod page;
mod record;
mod space;

pub use page::page;
pub use record::{Ended, Records, Search};
pub use space::Space;

use crate::config::Config;
use crate::run::{Description, metric_of_search};
use crate::{Error, Log, Result};

const PREFIX: &str = "tune.";

/// The metric of the validation that a search is about, and whether more of it is better.
///
/// # Errors
/// When the configuration has no validation data, or the metric is not computed in it.
pub fn metric(config: &Config) -> Result<(String, bool)> {
    if !config.has("runner.valid_data_dir") {
        return Err(Error::Settings(format!(
            "{}: `runner.valid_data_dir` is missing: trials are compared on data that none of them is \
             trained on",
            config.path().display()
        )));
    }
    metric_of_search(config)
}

/// Builds the model of a configuration and its optimizer, so that what is wrong with either is said
/// before the first trial.
///
/// # Errors
/// When one of them cannot be built.
pub fn check(config: &Config) -> Result<Description> {
    crate::run::check_optimizer(config)?;
    Ok(crate::run::build(config, &Log::silent())?.1)
}
