//! The run that every cluster must equal: one process, whole batches.

use anyhow::Result;
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Place};

use crate::Params;
use crate::models::{Batch, Model};

/// Trains in this process; returns the parameters and the loss of every step.
///
/// # Errors
/// When a step fails.
pub fn train(model: &Model, batches: &[Batch]) -> Result<(Params, Vec<f64>)> {
    let mut executor = Executor::new(Place::Cpu)?;
    executor.run(&model.startup, &[], &[])?;
    let feeds: Vec<&str> = model.feeds.iter().map(String::as_str).collect();
    let mut step = executor.prepare(&model.main, &feeds, &[&model.loss])?;
    let mut losses = Vec::new();
    for batch in batches {
        step.run(&batch.iter().collect::<Vec<&Tensor>>())?;
        losses.push(step.fetched(0).to_f64_vec()[0]);
    }
    let scope = executor.scope();
    let mut params = Params::new();
    let tables = model.tables.iter().map(|(name, _, _)| name);
    for name in model.params.iter().chain(tables) {
        params.insert(name.clone(), scope.get(name)?.as_slice::<f32>()?.to_vec());
    }
    Ok((params, losses))
}
