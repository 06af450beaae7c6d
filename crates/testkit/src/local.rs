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

/// The loss on a batch with these parameters.
///
/// # Errors
/// When the step fails, or a parameter is none of the model's.
pub fn evaluate(model: &Model, params: &Params, batch: &Batch) -> Result<f64> {
    let mut executor = Executor::new(Place::Cpu)?;
    executor.run(&model.startup, &[], &[])?;
    for (name, values) in params {
        let mut tensor = executor.scope().get(name)?.clone();
        tensor.as_mut_slice::<f32>()?.copy_from_slice(values);
        executor.scope().try_set(name, &tensor)?;
    }
    let feeds: Vec<&str> = model.feeds.iter().map(String::as_str).collect();
    // The loss is computed before the update, which nobody sees.
    let mut step = executor.prepare(&model.main, &feeds, &[&model.loss])?;
    step.run(&batch.iter().collect::<Vec<&Tensor>>())?;
    Ok(step.fetched(0).to_f64_vec()[0])
}
