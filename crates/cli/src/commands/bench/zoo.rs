//! Every model of the zoo on its generated data, beside logistic regression on the same.

use std::io::{self, Write};

use anyhow::Result;
use bireme_rec::zoo::{Entry, Outcome, Trial, entries, find};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;

use crate::commands::{Outcome as Ended, positive_real, up_to};
use crate::table::{Align, Table};
use crate::units::grouped;

/// Measure how well and how fast the models of the zoo learn
///
/// Each model is trained with Adam on samples of `bireme data generate MODEL` and tested on others;
/// so is logistic regression (a weight for each id and each number), with the best of three learning
/// rates. `auc` is that of the test, for each thing that the model predicts; `samples/s` are those
/// of training, without parsing. Speed wants an idle machine, the AUC does not mind.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object for each model
    #[arg(long)]
    json: bool,
    /// Only this model; may be given several times [default: all]
    #[arg(long = "model", value_name = "NAME", value_parser = model())]
    models: Vec<&'static Entry>,
    /// Samples to train on; half as many are tested on
    #[arg(long, default_value = "30000", value_parser = up_to::<100_000_000>)]
    rows: usize,
    /// How often each is trained on
    #[arg(long, default_value = "3", value_parser = up_to::<10_000>)]
    epochs: usize,
    /// Samples in a step
    #[arg(long, default_value = "256", value_parser = up_to::<1_000_000>)]
    batch: usize,
    /// Of Adam
    #[arg(long, default_value = "0.002", value_parser = positive_real)]
    learning_rate: f32,
    /// Threads that share a step
    #[arg(long, default_value = "1", value_parser = up_to::<64>)]
    threads: usize,
}

fn model() -> impl TypedValueParser<Value = &'static Entry> {
    let names = PossibleValuesParser::new(entries().iter().map(|entry| entry.name));
    names.map(|name| find(&name).expect("the parser knows the names"))
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<Ended> {
    let trial = Trial {
        rows: args.rows,
        test_rows: (args.rows / 2).max(1),
        epochs: args.epochs,
        batch_size: args.batch,
        learning_rate: args.learning_rate,
        threads: args.threads,
    };
    let all: Vec<&'static Entry> = entries().iter().collect();
    let models = if args.models.is_empty() { &all } else { &args.models };
    let columns = ["model", "metric", "auc", "logistic regression", "samples/s", "parameters"];
    let mut table = Table::new(&columns.map(|name| match name {
        "model" | "metric" => (name, Align::Left),
        _ => (name, Align::Right),
    }));
    let mut out = io::stdout().lock();
    for entry in models {
        let (model, plain) = (trial.of(entry)?, trial.of_baseline(entry)?);
        if args.json {
            writeln!(out, "{}", line(entry, &model, &plain))?;
            out.flush()?;
            continue;
        }
        for ((name, auc), (_, plain)) in model.metrics.iter().zip(&plain.metrics) {
            table.row([
                entry.name.to_owned(),
                name.clone(),
                format!("{auc:.4}"),
                format!("{plain:.4}"),
                grouped(model.samples_per_second as u64),
                grouped(model.parameters as u64),
            ]);
        }
    }
    if !args.json {
        write!(out, "{table}")?;
    }
    Ok(Ended::Done)
}

fn line(entry: &Entry, model: &Outcome, plain: &Outcome) -> serde_json::Value {
    let round = |value: f64| (value * 1e4).round() / 1e4;
    let metrics = |outcome: &Outcome| -> serde_json::Map<String, serde_json::Value> {
        let metrics = outcome.metrics.iter();
        metrics.map(|(name, value)| (name.clone(), json!(round(*value)))).collect()
    };
    json!({
        "model": entry.name,
        "metrics": metrics(model),
        "logistic_regression": metrics(plain),
        "samples_per_second": model.samples_per_second.round(),
        "parameters": model.parameters,
        "loss_first": round(model.losses[0]),
        "loss_last": round(model.losses[1]),
    })
}
