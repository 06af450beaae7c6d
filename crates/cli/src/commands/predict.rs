//! `bireme predict`: rows in on stdin, predictions out on stdout.

use std::collections::HashSet;
use std::io::{self, BufRead, BufWriter, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use bireme_engine::io::load_inference_model;
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Place, Scope, Step};
use bireme_ir::{DType, Program};

use super::{Outcome, available_cores, positive};
use crate::rows::{Format, Rows};

/// Run a saved model on rows from stdin
///
/// Reads one row a line and writes one JSON object a line, with the values of every output. A line
/// that cannot be used ends the command with its number and the reason; predictions of the lines
/// before it have been written by then.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A folder with `__model__`, or the path of a `.pdmodel` file with or without its ending
    model: PathBuf,
    /// How lines are written [default: what the first line looks like]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Rows to compute at once; a model that takes a fixed number gets that
    #[arg(long, value_name = "N", default_value = "512", value_parser = positive)]
    batch_size: usize,
    /// Threads to compute with [default: all processors]
    #[arg(long, value_name = "N", value_parser = positive)]
    threads: Option<usize>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    let scope = Scope::new();
    let model = load_inference_model(&args.model, &scope)?;
    let mut rows = Rows::new(&model.program, &model.feeds)?;
    let batch_size = rows.fixed().unwrap_or(args.batch_size);
    let threads = args.threads.unwrap_or_else(available_cores);
    let executor = Executor::new(Place::Cpu)?.with_scope(scope).threads(threads);
    let step =
        executor.prepare(&model.program, &as_strs(&model.feeds), &as_strs(&model.fetches))?;
    let out = BufWriter::new(io::stdout().lock());
    let named = model.fetches.iter().map(|name| before_scale(&model.program, name));
    let mut fetches: Vec<String> = named.collect();
    // A model may give out one variable twice; then only the copies' names tell them apart.
    if fetches.iter().collect::<HashSet<_>>().len() < fetches.len() {
        fetches = model.fetches;
    }
    let mut predictor = Predictor { step, fetches, out };

    let mut format = args.format;
    let mut number = 0;
    for line in io::stdin().lock().lines() {
        number += 1;
        let line = line.with_context(|| format!("stdin, line {number}"))?;
        let format = *format.get_or_insert_with(|| Format::guess(&line));
        if let Err(error) = rows.push(&line, format) {
            predictor.predict(&rows, number - 1)?;
            return Err(error.context(format!("stdin, line {number}")));
        }
        if rows.len() == batch_size {
            predictor.predict(&rows, number)?;
            rows.clear();
        }
    }
    predictor.predict(&rows, number)?;
    Ok(Outcome::Done)
}

fn as_strs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// The name that the model's author gave to an output. A `.pdmodel` file copies each output to a
/// variable with a name of its own (`save_infer_model/scale_0.tmp_0`), which tells nobody anything.
fn before_scale(program: &Program, fetch: &str) -> String {
    let copies = fetch.starts_with("save_infer_model/");
    let ops = program.global().ops.iter().filter(|op| copies && op.kind == "scale");
    let mut writers = ops.filter(|op| op.outputs_of("Out") == [fetch]);
    let source = writers.next().and_then(|op| op.inputs_of("X").first());
    source.map_or_else(|| fetch.to_owned(), Clone::clone)
}

struct Predictor<W> {
    step: Step,
    fetches: Vec<String>,
    out: W,
}

impl<W: Write> Predictor<W> {
    /// Predicts `rows`, the last of which came from line `last`.
    fn predict(&mut self, rows: &Rows, last: usize) -> Result<()> {
        if rows.len() == 0 {
            return Ok(());
        }
        let first = last + 1 - rows.len();
        self.run(rows).with_context(|| format!("stdin, lines {first} to {last}"))?;
        for row in 0..rows.len() {
            for (index, name) in self.fetches.iter().enumerate() {
                let open = if index == 0 { "{" } else { "," };
                let values = row_text(self.step.fetched(index), row)?;
                write!(self.out, "{open}{}:{values}", serde_json::to_string(name)?)?;
            }
            writeln!(self.out, "}}")?;
        }
        // A batch is complete for whoever reads our output, even if the next one takes its time.
        Ok(self.out.flush()?)
    }

    fn run(&mut self, rows: &Rows) -> Result<()> {
        let tensors = rows.tensors()?;
        self.step.run(&tensors.iter().collect::<Vec<_>>())?;
        let expected = rows.fixed().unwrap_or(rows.len());
        for (index, name) in self.fetches.iter().enumerate() {
            let fetched = self.step.fetched(index);
            ensure!(
                fetched.rows() == expected,
                "output `{name}` has shape {}, not one row for each of {expected} lines",
                fetched.dims()
            );
        }
        Ok(())
    }
}

/// One row of `tensor` as a JSON list.
fn row_text(tensor: &Tensor, row: usize) -> Result<String> {
    let width = tensor.numel() / tensor.rows();
    let range = row * width..(row + 1) * width;
    let texts: Vec<String> = match tensor.dtype() {
        // The shortest text that reads back as the same number; JSON has no NaN.
        DType::F32 => {
            let number = |x: &f32| if x.is_finite() { x.to_string() } else { "null".to_owned() };
            tensor.as_slice::<f32>()?[range].iter().map(number).collect()
        }
        DType::I64 => tensor.as_slice::<i64>()?[range].iter().map(ToString::to_string).collect(),
        _ => {
            let number = |x: &f64| if x.is_finite() { x.to_string() } else { "null".to_owned() };
            tensor.to_f64_vec()[range].iter().map(number).collect()
        }
    };
    Ok(format!("[{}]", texts.join(",")))
}
