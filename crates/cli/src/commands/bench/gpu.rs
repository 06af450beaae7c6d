//! `bireme bench gpu`: training steps, kernels and tables on a card.

use std::io::{self, Write};

use anyhow::{Result, ensure};
use serde_json::json;

use super::seconds;
use crate::bench::gpu::{CASES, Case, Figure, Precision, Run, Scale};
use crate::commands::Outcome;

/// Measure training steps, kernels and tables on a GPU
///
/// `ctr_b…` is a step of the CTR-DNN: 26 ids of a table of 10 million rows of 16 columns, 13 dense features, layers of
/// 512, 256, 128, 32 and 1, Adagrad. `mnist_b64` is a step of the MNIST perceptron. `tf32` lets products round their
/// factors to 10 bits of fraction; `bf16` and `fp16` train with mixed precision. Batches lie on the card; with `fed`
/// each comes from the host's memory in its step. The value is in million samples a second; `loss` is that of a batch
/// that was not trained on. Of five rounds the best counts.
///
/// `parts_…` is the same step by part, each piece of it timed alone: microseconds, and the part of all.
///
/// `kernel_…` are kernels on 256 MB, in gigabytes a second of what they must read and write; `ratio` is to a copy on
/// the card in the same run. `sort` and `row_update` are the halves of an update of 1.7 million rows.
///
/// `table_…` are hash tables of 10 million rows of 8 or 16 floats (`d8`, `d16`), half of their slots in use, in thousand
/// million keys a second: `find` copies rows, `rows` gives their numbers, `insert` makes rows of new keys and copies
/// them. `ratio` is to random rows of 64 bytes that are read by number in the same run.
///
/// `box_…` trains the CTR-DNN in GPUBox: passes of 50 million samples over 10.5 million keys, of which one in 20 is new
/// in each pass and comes from a table in this process while the pass before is trained. `samples` feeds the keys of
/// shuffled samples in the host's memory, assembled ahead in page-locked memory, as passes are trained that come once;
/// `rows` their row numbers, which are looked up once, as in further epochs; `keys` a few batches from ordinary memory
/// again and again. `ratio` is to `ctr_…` of the same batch and precision in the same run; seconds are those of a pass,
/// `flush_s` that of giving all records back once.
///
/// `auc_…` trains the CTR-DNN on samples of a hidden model, on the card and with 32 bits on the host, and compares.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object for each line
    #[arg(long)]
    json: bool,
    /// Name the cases, and measure nothing
    #[arg(long)]
    list: bool,
    /// Measure only cases whose names begin so; may be given several times [default: all]
    #[arg(long = "case", value_name = "NAME", value_parser = case)]
    cases: Vec<String>,
    /// Measure only trainings of this precision
    #[arg(long, value_name = "NAME")]
    precision: Option<Precision>,
    /// Time to measure each case for
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    seconds: f32,
    /// The card, by its number
    #[arg(long, value_name = "NUMBER", default_value = "0")]
    card: u32,
    /// How large everything is; `small` shows that the cases run, and nothing of their speed
    #[arg(long, value_name = "SCALE", default_value = "full")]
    scale: Scale,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    let is_named = |case: &&Case| {
        args.cases.is_empty() || args.cases.iter().any(|beginning| case.name.starts_with(beginning))
    };
    let is_precise = |case: &&Case| args.precision.is_none() || case.precision() == args.precision;
    let cases: Vec<&Case> = CASES.iter().filter(is_named).filter(is_precise).collect();
    ensure!(!cases.is_empty(), "none of the cases has that precision");
    let mut out = io::stdout().lock();
    if args.list {
        cases.iter().try_for_each(|case| writeln!(out, "{}", case.name))?;
        return Ok(Outcome::Done);
    }
    let mut run = Run::new(args.card, args.seconds.into(), args.scale)?;
    if !args.json {
        writeln!(out, "{:<34}  {:>11}  {:<11}  {:>6}", "case", "value", "unit", "ratio")?;
        out.flush()?;
    }
    for case in cases {
        for figure in run.measure(case)? {
            let line = if args.json { as_json(case, &figure) } else { as_text(case, &figure) };
            writeln!(out, "{line}")?;
        }
        out.flush()?;
    }
    Ok(Outcome::Done)
}

/// The name of a line.
fn name_of(case: &Case, figure: &Figure) -> String {
    match figure.part {
        Some(part) => format!("{}/{part}", case.name),
        None => case.name.to_owned(),
    }
}

fn as_json(case: &Case, figure: &Figure) -> String {
    let name = name_of(case, figure);
    let mut line = json!({ "case": name, "value": figure.value, "unit": figure.unit });
    if let Some(ratio) = figure.ratio {
        line["ratio"] = ratio.into();
    }
    for (name, value) in &figure.more {
        line[*name] = (*value).into();
    }
    line.to_string()
}

fn as_text(case: &Case, figure: &Figure) -> String {
    let (name, Figure { value, unit, more, .. }) = (name_of(case, figure), figure);
    let ratio = figure.ratio.map_or(String::new(), |ratio| format!("{ratio:.3}"));
    let more: Vec<String> = more.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
    let line = format!("{name:<34}  {value:>11.3}  {unit:<11}  {ratio:>6}  {}", more.join(", "));
    line.trim_end().to_owned()
}

/// The beginning of the name of at least one case.
fn case(text: &str) -> Result<String, String> {
    match CASES.iter().any(|case| case.name.starts_with(text)) {
        true => Ok(text.to_owned()),
        false => Err("no case begins so: `--list` names them".to_owned()),
    }
}
