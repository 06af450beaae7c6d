//! `bireme bench`: measurements that can be repeated.

use std::io::{self, Write};

use anyhow::{Result, bail};
use clap::Subcommand;
use serde_json::json;

use super::{Outcome, positive_real};
use crate::bench::{CASES, Case, Measured};
use crate::table::{Align, Table};
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
}

/// Measure training steps against the floor of their matrix products
///
/// The floor of a step is the time of its matrix products alone, in the same process on buffers of
/// the same sizes. Steps and floor alternate in rounds, and the best round of each counts; `ratio`
/// is floor time over step time. Measure on an idle machine.
#[derive(Debug, clap::Args)]
struct Engine {
    /// Print one JSON object for each case
    #[arg(long)]
    json: bool,
    /// Measure only this case; may be given several times [default: all]
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Time to measure each case for
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = positive_real)]
    seconds: f32,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    let What::Engine(args) = &args.what;
    let cases = choose(&args.cases)?;
    let mut out = io::stdout().lock();
    let mut table = Table::new(&[
        ("case", Align::Left),
        ("samples/s", Align::Right),
        ("step ms", Align::Right),
        ("floor ms", Align::Right),
        ("ratio", Align::Right),
    ]);
    for case in cases {
        let measured = case.measure(args.seconds.into())?;
        if args.json {
            writeln!(out, "{}", to_json(case, &measured))?;
            out.flush()?;
        } else {
            table.row([
                case.name.to_owned(),
                grouped(measured.samples_per_second(case) as u64),
                format!("{:.3}", measured.step_s * 1e3),
                format!("{:.3}", measured.floor_s * 1e3),
                format!("{:.3}", measured.ratio()),
            ]);
        }
    }
    if !args.json {
        write!(out, "{table}")?;
    }
    Ok(Outcome::Done)
}

fn to_json(case: &Case, measured: &Measured) -> serde_json::Value {
    json!({
        "case": case.name,
        "value": measured.samples_per_second(case),
        "unit": "samples/s",
        "ratio": measured.ratio(),
        "step_ms": measured.step_s * 1e3,
        "floor_ms": measured.floor_s * 1e3,
    })
}

fn choose(names: &[String]) -> Result<Vec<&'static Case>> {
    if names.is_empty() {
        return Ok(CASES.iter().collect());
    }
    let find = |name: &String| match CASES.iter().find(|case| case.name == name) {
        Some(case) => Ok(case),
        None => {
            let known: Vec<&str> = CASES.iter().map(|case| case.name).collect();
            bail!("there is no case `{name}`: choose from {}", known.join(", "))
        }
    };
    names.iter().map(find).collect()
}
