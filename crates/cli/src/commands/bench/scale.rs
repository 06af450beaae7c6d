//! `bireme bench scale`: what more processors are worth.

use std::io::{self, Write};

use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;

use crate::bench::scale::{CASES, Case, Figure, Run};
use crate::commands::{Host, Outcome, available_cores, up_to};
use crate::units::grouped;

/// Measure how training grows with threads, trainers and servers
///
/// Every figure is a training of the demo (a CTR-DNN with Adam), as `bireme train` runs it: samples a second by its own
/// event log, from files' worth of samples that are generated on the way, and the AUC on samples that were held out.
/// `local_b…` splits each batch over the threads, `threads_b…` gives each thread batches of its own; `sync`, `async` and
/// `geo` have as many trainers as threads, of one thread and 512 samples a step each, and one server, or two from 8 trainers
/// on, which need processors, too. `ratio` is the speed over that of so many times one thread alone with the same batch, in
/// the same run; `reader` is the part of the time in which training waited for data. Of two trainings the quicker counts.
/// Measure on an idle machine.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object for each line
    #[arg(long)]
    json: bool,
    /// Measure only this case; may be given several times [default: all]
    #[arg(long = "case", value_name = "NAME", value_parser = case())]
    cases: Vec<&'static Case>,
    /// Numbers of threads, or trainers [default: 1, 2, 4 and so on up to all processors]
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', value_parser = up_to::<256>)]
    threads: Vec<usize>,
    /// Samples of a training
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = up_to::<1_000_000_000>)]
    samples: usize,
}

/// Runs the command.
pub(crate) fn run(args: &Args, host: &Host) -> Result<Outcome> {
    let cases = if args.cases.is_empty() { CASES.iter().collect() } else { args.cases.clone() };
    let threads = if args.threads.is_empty() { doublings() } else { args.threads.clone() };
    let mut run = Run::new(host.command()?, args.samples);
    let mut out = io::stdout().lock();
    if !args.json {
        writeln!(
            out,
            "{:<14}  {:>7}  {:>7}  {:>11}  {:>5}  {:>6}  {:>6}",
            "case", "threads", "servers", "samples/s", "ratio", "AUC", "reader"
        )?;
        out.flush()?;
    }
    for case in cases {
        for threads in &threads {
            let figure = run.measure(case, *threads)?;
            let line = match args.json {
                true => as_json(case, *threads, &figure),
                false => as_text(case, *threads, &figure),
            };
            writeln!(out, "{line}")?;
            out.flush()?;
        }
    }
    Ok(Outcome::Done)
}

/// 1, 2, 4 and so on, and all processors.
fn doublings() -> Vec<usize> {
    let all = available_cores();
    let mut threads: Vec<usize> = std::iter::successors(Some(1), |threads| Some(threads * 2))
        .take_while(|t| *t < all)
        .collect();
    threads.push(all);
    threads
}

fn as_json(case: &Case, threads: usize, figure: &Figure) -> String {
    json!({
        "case": format!("{}_t{threads}", case.name),
        "value": figure.samples_per_second,
        "unit": "samples/s",
        "ratio": figure.ratio,
        "auc": figure.auc,
        "reader": figure.reader,
        "threads": threads,
        "servers": figure.servers,
    })
    .to_string()
}

fn as_text(case: &Case, threads: usize, figure: &Figure) -> String {
    let Figure { samples_per_second, ratio, auc, reader, servers } = *figure;
    let speed = grouped(samples_per_second as u64);
    format!(
        "{:<14}  {threads:>7}  {servers:>7}  {speed:>11}  {ratio:>5.2}  {auc:>6.4}  {reader:>6.2}",
        case.name
    )
}

/// Parses the name of a case.
fn case() -> impl TypedValueParser<Value = &'static Case> {
    let known = PossibleValuesParser::new(CASES.iter().map(|case| case.name));
    known.map(|name| CASES.iter().find(|case| case.name == name).expect("the name is possible"))
}
