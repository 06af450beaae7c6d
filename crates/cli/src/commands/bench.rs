//! `bireme bench`: measurements that can be repeated.

use std::io::{self, Write};

use anyhow::Result;
use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;

use super::{Outcome, positive_real};
use crate::bench::{CASES, Case, Eager as EagerFigures, Measured, measure_add, peak_mib};
use crate::units::grouped;

/// Measure the speed of this machine and build
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Engine(Engine),
    Eager(Eager),
}

/// Measure training steps against the floor of their matrix products
///
/// The floor of a step is the time of its matrix products alone, in the same process on buffers of
/// the same sizes. Steps and floor alternate in rounds, and the best round of each counts; `ratio`
/// is floor time over step time. `peak_mib`, with `--json`, is the most memory that the process has
/// held up to the end of the case: measure one case at a time to compare it. Measure on an idle
/// machine.
#[derive(Debug, clap::Args)]
struct Engine {
    /// Print one JSON object for each case
    #[arg(long)]
    json: bool,
    /// Measure only this case; may be given several times [default: all]
    #[arg(long = "case", value_name = "NAME", value_parser = case())]
    cases: Vec<&'static Case>,
    /// Time to measure each case for
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    seconds: f32,
}

/// Measure what one eager op costs: the addition of two tensors of two elements
///
/// The kernel alone on values that exist, then a whole call (a new tensor, but no Python), then one
/// that is also put on the tape. They alternate in rounds, and the best round of each counts.
#[derive(Debug, clap::Args)]
struct Eager {
    /// Print one JSON object for each figure
    #[arg(long)]
    json: bool,
    /// Time to measure for
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = seconds)]
    seconds: f32,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    match &args.what {
        What::Engine(args) => run_engine(args),
        What::Eager(args) => run_eager(args),
    }
}

fn run_eager(args: &Eager) -> Result<Outcome> {
    let EagerFigures { kernel_s, call_s, recorded_s } = measure_add(args.seconds.into())?;
    let mut out = io::stdout().lock();
    for (case, seconds) in
        [("add_2_kernel", kernel_s), ("add_2_call", call_s), ("add_2_recorded", recorded_s)]
    {
        let (value, ratio) = (seconds * 1e9, kernel_s / seconds);
        if args.json {
            let line = json!({ "case": case, "value": value, "unit": "ns", "ratio": ratio });
            writeln!(out, "{line}")?;
        } else {
            writeln!(out, "{case:<14}  {value:>7.1} ns  {ratio:>6.3}")?;
        }
    }
    Ok(Outcome::Done)
}

fn run_engine(args: &Engine) -> Result<Outcome> {
    let cases = if args.cases.is_empty() { CASES.iter().collect() } else { args.cases.clone() };
    let mut out = io::stdout().lock();
    if !args.json {
        line(&mut out, ["case", "samples/s", "step ms", "floor ms", "ratio"].map(str::to_owned))?;
    }
    for case in cases {
        let measured = case.measure(args.seconds.into())?;
        if args.json {
            writeln!(out, "{}", to_json(case, &measured))?;
            out.flush()?;
            continue;
        }
        let cells = [
            case.name.to_owned(),
            grouped(measured.samples_per_second(case) as u64),
            format!("{:.3}", measured.step_s * 1e3),
            format!("{:.3}", measured.floor_s * 1e3),
            format!("{:.3}", measured.ratio()),
        ];
        line(&mut out, cells)?;
    }
    Ok(Outcome::Done)
}

/// Prints one line of the table at once: a case takes long enough to wonder about the others.
fn line(out: &mut impl Write, [case, speed, step, floor, ratio]: [String; 5]) -> io::Result<()> {
    let widest = CASES.iter().map(|case| case.name.len()).max().unwrap_or(0);
    writeln!(out, "{case:<widest$}  {speed:>11}  {step:>9}  {floor:>9}  {ratio:>6}")?;
    out.flush()
}

fn to_json(case: &Case, measured: &Measured) -> serde_json::Value {
    json!({
        "case": case.name,
        "value": measured.samples_per_second(case),
        "unit": "samples/s",
        "ratio": measured.ratio(),
        "step_ms": measured.step_s * 1e3,
        "floor_ms": measured.floor_s * 1e3,
        "peak_mib": peak_mib(),
    })
}

/// Parses the name of a case.
fn case() -> impl TypedValueParser<Value = &'static Case> {
    let known = PossibleValuesParser::new(CASES.iter().map(|case| case.name));
    known.map(|name| CASES.iter().find(|case| case.name == name).expect("the name is possible"))
}

/// Parses a time; more than a day is a slip of the hand.
fn seconds(text: &str) -> Result<f32, String> {
    const DAY: f32 = 86_400.0;
    positive_real(text).and_then(|seconds| match seconds <= DAY {
        true => Ok(seconds),
        false => Err(format!("must be at most {DAY}")),
    })
}
