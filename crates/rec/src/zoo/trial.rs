//! A model on its own generated data, beside logistic regression on the same: does it learn, and
//! how fast?

use std::time::Instant;

use bireme_data::parse::Parser;
use bireme_data::{Batch, Samples};
use bireme_engine::ir::Program;
use bireme_engine::optimizer::{Adam, Optimizer};
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Place};

use super::{Entry, Hyper, Model, Value, baseline};
use crate::{Error, Result};

/// How a model is tried.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// Samples to train on.
    pub rows: usize,
    /// Other samples, to test on.
    pub test_rows: usize,
    /// How often each sample is trained on.
    pub epochs: usize,
    /// Samples in a step.
    pub batch_size: usize,
    /// Of Adam.
    pub learning_rate: f32,
    /// Threads that share a step.
    pub threads: usize,
}

impl Default for Trial {
    fn default() -> Trial {
        let (rows, test_rows) = (30_000, 15_000);
        Trial { rows, test_rows, epochs: 3, batch_size: 256, learning_rate: 0.002, threads: 1 }
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The mean loss of the first tenth of all steps, and of the last.
    pub losses: [f64; 2],
    /// Metrics on the test samples, by name.
    pub metrics: Vec<(String, f64)>,
    /// Samples trained in a second, without parsing.
    pub samples_per_second: f64,
    /// Numbers that are trained.
    pub parameters: usize,
}

impl Outcome {
    /// The sum of the metrics.
    fn score(&self) -> f64 {
        self.metrics.iter().map(|(_, value)| value).sum()
    }
}

impl Trial {
    /// Trains and tests the model.
    ///
    /// # Errors
    /// When the model cannot be built, or a step fails.
    pub fn of(&self, entry: &Entry) -> Result<Outcome> {
        self.train(entry, sample_model(entry)?, self.learning_rate)
    }

    /// Trains and tests logistic regression on the same samples, with the learning rate of this
    /// trial and with longer steps, which weights of single ids may need; the best counts.
    ///
    /// # Errors
    /// As [`Trial::of`].
    pub fn of_baseline(&self, entry: &Entry) -> Result<Outcome> {
        let mut best: Option<Outcome> = None;
        for factor in [1.0, 2.0, 5.0] {
            let model = baseline::build(&sample_model(entry)?, entry.labels)?;
            let outcome = self.train(entry, model, factor * self.learning_rate)?;
            if best.as_ref().is_none_or(|best| outcome.score() > best.score()) {
                best = Some(outcome);
            }
        }
        Ok(best.expect("there are learning rates"))
    }

    fn train(&self, entry: &Entry, model: Model, learning_rate: f32) -> Result<Outcome> {
        let [train, test] = [(self.rows, 1), (self.test_rows, 2)]
            .map(|(rows, seed)| samples(entry, &model, rows, seed));
        let (train, test) = (train?, test?);
        let forward = model.graph.main().clone_for_test();
        model.graph.set_random_seed(7);
        Adam::new(learning_rate).lazy_mode(true).minimize(&model.loss)?;
        let mut executor = Executor::new(Place::Cpu)?.threads(self.threads);
        executor.run(&model.graph.startup(), &[], &[])?;
        let (losses, seconds) = self.steps(&executor, &model, &model.graph.main(), &train)?;
        zero_counts(&executor, &model)?;
        let metrics = self.test(&executor, &model, &forward, &test)?;
        Ok(Outcome {
            losses: ends(&losses),
            metrics,
            samples_per_second: (self.rows * self.epochs) as f64 / seconds,
            parameters: parameters(&model),
        })
    }

    /// Trains; the loss of every step, and the seconds it took.
    fn steps(
        &self,
        executor: &Executor,
        model: &Model,
        program: &Program,
        samples: &Samples,
    ) -> Result<(Vec<f64>, f64)> {
        let mut step = executor.prepare(program, &feeds(model), &[model.loss.name()])?;
        let mut batch = Batch::of(&model.slots);
        let (mut losses, began) = (Vec::new(), Instant::now());
        for _ in 0..self.epochs {
            for first in (0..samples.len()).step_by(self.batch_size) {
                let rows = first..(first + self.batch_size).min(samples.len());
                batch.fill(samples, rows);
                step.run(&batch.tensors())?;
                losses.push(step.fetched(0).to_f64_vec()[0]);
            }
        }
        Ok((losses, began.elapsed().as_secs_f64()))
    }

    fn test(
        &self,
        executor: &Executor,
        model: &Model,
        program: &Program,
        samples: &Samples,
    ) -> Result<Vec<(String, f64)>> {
        let fetches: Vec<&str> = model.metrics.iter().map(|m| m.variable.name()).collect();
        let mut step = executor.prepare(program, &feeds(model), &fetches)?;
        let mut batch = Batch::of(&model.slots);
        for first in (0..samples.len()).step_by(self.batch_size) {
            batch.fill(samples, first..(first + self.batch_size).min(samples.len()));
            step.run(&batch.tensors())?;
        }
        let values = (0..fetches.len()).map(|at| step.fetched(at).to_f64_vec()[0]);
        Ok(model.metrics.iter().map(|metric| metric.name.clone()).zip(values).collect())
    }
}

/// The model in the size that its generated data needs.
pub(super) fn sample_model(entry: &Entry) -> Result<Model> {
    let values = entry.sample.iter().map(|(key, value)| (*key, Value::Int(*value)));
    (entry.build)(&mut Hyper::of(values))
}

/// How many numbers the optimizer changes.
pub(super) fn parameters(model: &Model) -> usize {
    let main = model.graph.main();
    let trained = main.parameters().filter(|var| !var.stop_gradient);
    trained.map(|var| var.shape.iter().product::<i64>() as usize).sum()
}

fn samples(entry: &Entry, model: &Model, rows: usize, seed: u64) -> Result<Samples> {
    let mut text = Vec::new();
    (entry.generate)(&mut text, rows, seed)
        .map_err(|error| Error::Settings(format!("cannot generate samples: {error}")))?;
    let mut parser = Parser::new(&model.format, &model.slots)?;
    let mut samples = Samples::of(&model.slots);
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let parsed = parser.line(line, &mut samples);
        parsed.map_err(|problem| Error::Settings(format!("a generated sample: {problem}")))?;
    }
    Ok(samples)
}

fn feeds(model: &Model) -> Vec<&str> {
    model.slots.iter().map(|slot| slot.name.as_str()).collect()
}

/// Forgets what metrics have counted, so that they are of what comes next.
fn zero_counts(executor: &Executor, model: &Model) -> Result<()> {
    for counts in model.metrics.iter().flat_map(|metric| &metric.counts) {
        let tensor = executor.scope().get(counts.name())?;
        let zeros = Tensor::zeros(tensor.dtype(), tensor.dims());
        executor.scope().try_set(counts.name(), &zeros)?;
    }
    Ok(())
}

fn ends(losses: &[f64]) -> [f64; 2] {
    let tenth = (losses.len() / 10).max(1);
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    [mean(&losses[..tenth]), mean(&losses[losses.len() - tenth..])]
}
