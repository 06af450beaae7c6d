//! `bireme bench scale`: what more processors are worth.

use std::io::{self, Write};

use anyhow::Result;
use bireme_rec::run::WithServers;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;

use crate::bench::scale::{CASES, Case, Figure, Parts, Run};
use crate::commands::{Host, Outcome, available_cores, up_to};
use crate::units::grouped;

/// Measure how training grows with threads, trainers and servers
///
/// `step_b…` are steps of the demo's CTR-DNN with Adam, split over the threads, with batches that were made beforehand; one
/// thread and many take turns, and the median of their ratios counts. `ceiling` is what the ratio of arithmetic alone is:
/// processors may share a core, and slow down when all have work. Below, where a step's milliseconds go, and which part of
/// the time of shares (forward and backward) threads work on them.
///
/// The other figures are trainings of the demo, as `bireme train` runs it: samples a second by its own event log, from files'
/// worth of samples that are generated on the way, and the AUC on samples that were held out. `local_b…` splits each batch over
/// the threads, `threads_b…` gives each thread batches of its own; `sync`, `async` and `geo` have as many trainers as threads,
/// of one thread and 512 samples a step each, and one server, or two from 8 trainers on, which need processors, too. `ratio` is
/// the speed over that of so many times one thread alone with the same batch, in the same run; `reader` is the part of the time
/// in which training waited for data, and below are the parts of a trainer's time that go to servers. Of two trainings the
/// quicker counts. Measure on an idle machine.
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
    /// Samples of a training; with servers at least so many that each trainer makes 250 steps
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
            "{:<14}  {:>7}  {:>7}  {:>11}  {:>5}  {:>7}  {:>6}  {:>6}",
            "case", "threads", "servers", "samples/s", "ratio", "ceiling", "AUC", "reader"
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
    let mut line = json!({
        "case": format!("{}_t{threads}", case.name),
        "value": figure.samples_per_second,
        "unit": "samples/s",
        "ratio": figure.ratio,
        "threads": threads,
        "servers": figure.servers,
    });
    let more = [("ceiling", figure.ceiling), ("auc", figure.auc), ("reader", figure.reader)];
    for (name, value) in more {
        if let Some(value) = value {
            line[name] = value.into();
        }
    }
    if let Some(Parts { before, shares, at_work, sums, after }) = figure.parts {
        line["parts_ms"] =
            json!({ "before": before, "shares": shares, "sums": sums, "after": after });
        line["at_work"] = at_work.into();
    }
    if let Some(WithServers { pull, push, wait, update }) = figure.with_servers {
        line["with_servers"] =
            json!({ "pull": pull, "push": push, "wait": wait, "update": update });
    }
    line.to_string()
}

fn as_text(case: &Case, threads: usize, figure: &Figure) -> String {
    let Figure { samples_per_second, ratio, ceiling, auc, reader, servers, .. } = *figure;
    let speed = grouped(samples_per_second as u64);
    let cell = |value: Option<f64>, digits: usize| {
        value.map_or(String::new(), |value| format!("{value:.digits$}"))
    };
    let (ceiling, auc, reader) = (cell(ceiling, 2), cell(auc, 4), cell(reader, 2));
    let line = format!(
        "{:<14}  {threads:>7}  {servers:>7}  {speed:>11}  {ratio:>5.2}  {ceiling:>7}  {auc:>6}  {reader:>6}",
        case.name
    );
    let mut text = line.trim_end().to_owned();
    if let Some(Parts { before, shares, at_work, sums, after }) = figure.parts {
        text += &format!(
            "\n    before {before:.2} ms, shares {shares:.2} ms (at work {at_work:.2}), sums {sums:.2} ms, \
             after {after:.2} ms"
        );
    }
    if let Some(WithServers { pull, push, wait, update }) = figure.with_servers {
        text += &format!(
            "\n    of a trainer's time: pull {pull:.2}, push {push:.2}, waiting for trainers {wait:.2}, for updates {update:.2}"
        );
    }
    text
}

/// Parses the name of a case.
fn case() -> impl TypedValueParser<Value = &'static Case> {
    let known = PossibleValuesParser::new(CASES.iter().map(|case| case.name));
    known.map(|name| CASES.iter().find(|case| case.name == name).expect("the name is possible"))
}
