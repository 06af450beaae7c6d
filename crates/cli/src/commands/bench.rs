//! `bireme bench`: measurements that can be repeated.

mod gpu;
mod scale;
mod zoo;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;

use super::{Host, Outcome, positive_real};
use crate::bench::{
    CASES, Case, Eager as EagerFigures, Measured, Shape, Speeds, measure_add, peak_mib,
};
use crate::bench::{collective, data, launch, ps};
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
    Gpu(gpu::Args),
    Ps(Ps),
    Collective(Collective),
    Launch(Launch),
    Scale(scale::Args),
    Zoo(zoo::Args),
    Data(Data),
    #[command(hide = true)]
    CollectiveRank(collective::RankArgs),
}

/// Measure training steps against the floor of their matrix products
///
/// The floor of a step is the time of its matrix products alone, in the same process on buffers of
/// the same sizes. Steps and floor alternate in rounds, and the best round of each counts; `ratio`
/// is floor time over step time. The peak is what a loop of multiply-adds in the widest vectors reaches
/// on all threads of the case (`peak_gflops`); `products_peak_ratio` is the part of it that the products
/// alone run at, and `peak_ratio` what the whole step does. `…_shared` is a step that shares its parameters with other training
/// threads, without locks; its floor is the same step alone. `…_bf16` is a step whose products round their factors to
/// bfloat16; its floor is the same step in 32 bits, so that `ratio` is how much faster it is (its
/// `peak_ratio` is to that of 32 bits, too). `peak_mib`, with `--json`, is the most
/// memory that the process has held up to the end of the case: measure one case at a time to compare
/// it. Measure on an idle machine.
///
/// `--case products` shows the products of these steps one by one, on one thread: forward, of the
/// weight's gradient and of the input's, by rows x columns x terms. The kernel that is used, every
/// kernel that this processor has and the matrix library take turns; `ratio` is ours over the
/// library's, `peak_ratio` the part of the peak. The time is that for all of them together.
#[derive(Debug, clap::Args)]
struct Engine {
    /// Print one JSON object for each case
    #[arg(long)]
    json: bool,
    /// Measure only this case; may be given several times [default: all steps]
    #[arg(long = "case", value_name = "NAME", value_parser = case())]
    cases: Vec<EngineCase>,
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

/// Measure requests to a parameter server, and its tables
///
/// `pull_KEYSxWIDTH_uds` and `push_…` are requests of distinct keys to a real server over a Unix
/// socket, `…_tcp` over TCP. The server is a thread of this process and holds a keyed table of 1
/// million rows with Adagrad. The value is the processor time of a request on both sides together,
/// in microseconds, until the rows lie in the caller's memory or the push is applied; `ratio` is
/// that time over the time of the same call of a table in this process, without a server. Both
/// alternate in rounds, and the best round of each counts.
///
/// `table_pull_10m_…` and `table_push_adagrad_10m_…` are rows a second of a table of 10 million
/// rows of 9 columns, alone, by one thread, in batches of 13,312 keys: `uniform` ones or by a power
/// law (`zipf`); a tenth of the batches were faster.
///
/// The others: `table_adam_10m_resident` is the memory that this process holds while a table of 10
/// million rows with Adam's state is in it. `table_growth_10m_longest_pull` is the longest pull of
/// 13,312 rows while pulls make a table grow from nothing to 10 million rows, `…_beside` that of
/// another thread, which pulls rows that are there. Time in which a thread waits for a processor
/// that others have does not count, and of five tables the best one does.
/// `table_adagrad_10m_bytes_per_row` is what a row of 9 columns with Adagrad's state takes.
/// Measure on an idle machine.
#[derive(Debug, clap::Args)]
struct Ps {
    /// Print one JSON object for each case
    #[arg(long)]
    json: bool,
    /// Measure only this case; may be given several times [default: all]
    #[arg(long = "case", value_name = "NAME", value_parser = ps_case())]
    cases: Vec<&'static ps::Case>,
    /// Time to measure each case for
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = seconds)]
    seconds: f32,
}

/// Measure all-reduce among processes of this host, beside Gloo and Open MPI
///
/// `allreduce_SIZE_rRANKS` is the time of one all-reduce of floats in place, in microseconds, on the
/// slowest rank; ranks are processes with one thread each, bound to no processor. The contenders
/// take turns and the best turn of each counts; `ratio` is the time of the faster peer over ours. A
/// peer that is not installed is left out. `wire_…` are the bytes that all ranks together write for
/// one all-reduce over TCP, in megabytes; `ratio` is that over the least that is possible,
/// 2(n-1) times the size. Measure on an idle machine.
#[derive(Debug, clap::Args)]
struct Collective {
    /// Print one JSON object for each case
    #[arg(long)]
    json: bool,
    /// Measure only this case; may be given several times [default: all]
    #[arg(long = "case", value_name = "NAME", value_parser = collective_case())]
    cases: Vec<&'static collective::Case>,
    /// Time to measure each case for
    #[arg(long, value_name = "SECONDS", default_value = "6", value_parser = seconds)]
    seconds: f32,
    /// Folder with `torch/bin/python`, for Gloo [default: ~/.cache/bireme-peers]
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
    /// Measure without peers
    #[arg(long)]
    alone: bool,
}

/// Measure how long jobs take to start and to end
///
/// `start_rust_1s4w` is the time from the start of a job of one server and four workers, which all
/// run `bireme train`, to the first step of the last worker; `start_python_1s4w` the same for a
/// Python script. Of five starts the median counts. `kill_to_end` is the time from the death of one
/// process by SIGKILL to the end of all: of a hundred jobs the longest counts. Measure on an idle machine.
#[derive(Debug, clap::Args)]
struct Launch {
    /// Print one JSON object for each case
    #[arg(long)]
    json: bool,
    /// Measure only this case; may be given several times [default: all]
    #[arg(long = "case", value_name = "NAME", value_parser = launch_case())]
    cases: Vec<&'static launch::Case>,
    /// The interpreter of the Python job, which can import Bireme
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: OsString,
}

/// Measure the parsers of training data
///
/// The value is how much text one core parses into samples, in gigabytes a second, every value
/// checked: PaddleRec's `slot:value` text, Paddle's MultiSlot lines, and raw Criteo lines with
/// PaddleRec's conversion, all made up in memory. It is timed in blocks, and the best time of each
/// block counts; `ratio` is the time to find the line ends of the same text over that to parse it.
#[derive(Debug, clap::Args)]
struct Data {
    /// Print one JSON object for each case
    #[arg(long)]
    json: bool,
    /// Measure only this case; may be given several times [default: all]
    #[arg(long = "case", value_name = "NAME", value_parser = data_case())]
    cases: Vec<&'static data::Case>,
    /// Time to measure each case for
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = seconds)]
    seconds: f32,
}

/// The name of [`EngineCase::Products`].
const PRODUCTS: &str = "products";

/// What `bench engine` measures.
#[derive(Clone, Copy, Debug)]
enum EngineCase {
    /// A step.
    Step(&'static Case),
    /// The products of steps, one by one.
    Products,
}

/// Runs the command.
pub(crate) fn run(args: &Args, host: &Host) -> Result<Outcome> {
    match &args.what {
        What::Engine(args) => run_engine(args),
        What::Eager(args) => run_eager(args),
        What::Gpu(args) => gpu::run(args),
        What::Ps(args) => run_ps(args),
        What::Collective(args) => run_collective(args),
        What::Launch(args) => run_launch(args, host),
        What::Scale(args) => scale::run(args, host),
        What::Zoo(args) => zoo::run(args),
        What::Data(args) => run_data(args),
        What::CollectiveRank(args) => collective::serve(args).map(|()| Outcome::Done),
    }
}

fn run_launch(args: &Launch, host: &Host) -> Result<Outcome> {
    let cases = match args.cases.as_slice() {
        [] => launch::CASES.iter().collect(),
        chosen => chosen.to_vec(),
    };
    let programs = launch::Programs { bireme: host.command()?, python: args.python.clone() };
    let mut out = io::stdout().lock();
    for case in cases {
        let value = case.measure(&programs)?;
        let name = case.name;
        if args.json {
            writeln!(out, "{}", json!({ "case": name, "value": value, "unit": "ms" }))?;
        } else {
            writeln!(out, "{name:<18}  {value:>7.0} ms")?;
        }
        out.flush()?;
    }
    Ok(Outcome::Done)
}

fn run_data(args: &Data) -> Result<Outcome> {
    let cases = match args.cases.as_slice() {
        [] => data::CASES.iter().collect(),
        chosen => chosen.to_vec(),
    };
    let mut out = io::stdout().lock();
    if !args.json {
        writeln!(out, "{:<16}  {:>8}  {:>11}  {:>5}", "case", "GB/s", "M samples/s", "ratio")?;
    }
    for case in cases {
        let found = case.measure(args.seconds.into())?;
        let (name, value, ratio) = (case.name, found.value(), found.ratio());
        if args.json {
            let line = json!({ "case": name, "value": value, "unit": "GB/s", "ratio": ratio,
                "million_samples_per_s": found.samples() });
            writeln!(out, "{line}")?;
        } else {
            let samples = found.samples();
            writeln!(out, "{name:<16}  {value:>8.2}  {samples:>11.2}  {ratio:>5.2}")?;
        }
        out.flush()?;
    }
    Ok(Outcome::Done)
}

fn run_ps(args: &Ps) -> Result<Outcome> {
    let cases = match args.cases.as_slice() {
        [] => ps::CASES.iter().collect(),
        chosen => chosen.to_vec(),
    };
    let widest = ps::CASES.iter().map(|case| case.name.len()).max().unwrap_or(0);
    let (mut run, mut out) = (ps::Run::default(), io::stdout().lock());
    if !args.json {
        writeln!(out, "{:<widest$}  {:>11} {:<6}  {:>5}", "case", "value", "", "ratio")?;
        out.flush()?;
    }
    for case in cases {
        let ps::Figure { value, unit, ratio } = run.measure(case, args.seconds.into())?;
        let name = case.name;
        if args.json {
            let mut line = json!({ "case": name, "value": value, "unit": unit });
            if let Some(ratio) = ratio {
                line["ratio"] = ratio.into();
            }
            writeln!(out, "{line}")?;
        } else {
            let value = figure(value);
            let ratio = ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
            writeln!(
                out,
                "{}",
                format!("{name:<widest$}  {value:>11} {unit:<6}  {ratio:>5}").trim_end()
            )?;
        }
        out.flush()?;
    }
    Ok(Outcome::Done)
}

fn run_collective(args: &Collective) -> Result<Outcome> {
    let cases = match args.cases.as_slice() {
        [] => collective::CASES.iter().collect(),
        chosen => chosen.to_vec(),
    };
    let widest = collective::CASES.iter().map(|case| case.name.len()).max().unwrap_or(0);
    let peers = collective::Peers { none: args.alone, folder: args.peers.clone() };
    let (mut run, mut out) = (collective::Run::new(peers), io::stdout().lock());
    if !args.json {
        writeln!(out, "{:<widest$}  {:>11} {:<6}  {:>5}  peers", "case", "value", "", "ratio")?;
        out.flush()?;
    }
    for case in cases {
        let found = run.measure(case, args.seconds.into())?;
        let collective::Figure { value, unit, ratio, peers } = found;
        let name = case.name;
        if args.json {
            let mut line = json!({ "case": name, "value": value, "unit": unit });
            if let Some(ratio) = ratio {
                line["ratio"] = ratio.into();
            }
            for (peer, value) in peers {
                line[peer] = value.into();
            }
            writeln!(out, "{line}")?;
        } else {
            let peers = peers.iter().map(|(peer, value)| format!("{peer} {}", figure(*value)));
            let peers = peers.collect::<Vec<_>>().join(", ");
            let ratio = ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
            let value = figure(value);
            let line = format!("{name:<widest$}  {value:>11} {unit:<6}  {ratio:>5}  {peers}");
            writeln!(out, "{}", line.trim_end())?;
        }
        out.flush()?;
    }
    Ok(Outcome::Done)
}

/// A figure as the tables show it.
fn figure(value: f64) -> String {
    match value {
        1000.0.. => grouped(value.round() as u64),
        _ => format!("{value:.1}"),
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
    let cases = match args.cases.as_slice() {
        [] => CASES.iter().map(EngineCase::Step).collect(),
        chosen => chosen.to_vec(),
    };
    let mut out = io::stdout().lock();
    let mut has_heading = args.json;
    for case in cases {
        let EngineCase::Step(case) = case else {
            show_products(&mut out, args)?;
            has_heading = args.json;
            continue;
        };
        if !std::mem::replace(&mut has_heading, true) {
            line(&mut out, HEADING.map(str::to_owned))?;
        }
        let measured = case.measure(args.seconds.into())?;
        if args.json {
            writeln!(out, "{}", to_json(case, &measured))?;
            out.flush()?;
            continue;
        }
        let part = |part: f64| format!("{part:.3}");
        let cells = [
            case.name.to_owned(),
            grouped(measured.samples_per_second(case) as u64),
            format!("{:.3}", measured.step_s * 1e3),
            format!("{:.3}", measured.floor_s * 1e3),
            part(measured.ratio()),
            format!("{:.0}", measured.peak_gflops()),
            measured.products_peak_ratio().map_or(String::new(), part),
            part(measured.peak_ratio()),
        ];
        line(&mut out, cells)?;
    }
    Ok(Outcome::Done)
}

const HEADING: [&str; 8] = [
    "case",
    "samples/s",
    "step ms",
    "floor ms",
    "ratio",
    "peak GFLOP/s",
    "products of peak",
    "step of peak",
];

/// Prints one line of the table at once: a case takes long enough to wonder about the others.
fn line(out: &mut impl Write, cells: [String; 8]) -> io::Result<()> {
    let widest = CASES.iter().map(|case| case.name.len()).max().unwrap_or(0);
    let [case, speed, step, floor, ratio, peak, products, part] = cells;
    write!(out, "{case:<widest$}  {speed:>11}  {step:>9}  {floor:>9}  {ratio:>6}")?;
    writeln!(out, "  {peak:>12}  {products:>16}  {part:>12}")?;
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
        "peak_gflops": measured.peak_gflops(),
        "products_peak_ratio": measured.products_peak_ratio(),
        "peak_ratio": measured.peak_ratio(),
        "peak_mib": peak_mib(),
    })
}

/// Measures and prints the products of steps.
fn show_products(out: &mut impl Write, args: &Engine) -> Result<()> {
    let shapes = Shape::all();
    let seconds = f64::from(args.seconds) / shapes.len() as f64;
    let widest = shapes.iter().map(|shape| shape.name().len()).max().unwrap_or(0);
    if !args.json {
        let heading = ["GFLOP/s", "of peak", "library", "ratio"];
        let [speed, part, library, ratio] = heading;
        writeln!(
            out,
            "{:<widest$}  {speed:>8}  {part:>7}  {library:>8}  {ratio:>5}  kernels",
            "product"
        )?;
    }
    for shape in shapes {
        let name = shape.name();
        let Speeds { ours, library, peak, kernels } = shape.measure(seconds)?;
        let (part, ratio) = (ours / peak, ours / library);
        if args.json {
            let mut line = json!({ "case": name, "value": ours / 1e9, "unit": "GFLOP/s", "ratio": ratio,
                "library": library / 1e9, "peak_gflops": peak / 1e9, "peak_ratio": part });
            for (kernel, speed) in kernels {
                line[kernel] = (speed / 1e9).into();
            }
            writeln!(out, "{line}")?;
        } else {
            let kernels: Vec<String> =
                kernels.iter().map(|(name, speed)| format!("{name} {:.1}", speed / 1e9)).collect();
            let (ours, library, kernels) = (ours / 1e9, library / 1e9, kernels.join(", "));
            writeln!(
                out,
                "{name:<widest$}  {ours:>8.1}  {part:>7.2}  {library:>8.1}  {ratio:>5.2}  {kernels}"
            )?;
        }
        out.flush()?;
    }
    Ok(())
}

/// Parses the name of a case.
fn case() -> impl TypedValueParser<Value = EngineCase> {
    let names = CASES.iter().map(|case| case.name).chain([PRODUCTS]);
    let known = PossibleValuesParser::new(names);
    known.map(|name| match CASES.iter().find(|case| case.name == name) {
        Some(case) => EngineCase::Step(case),
        None => EngineCase::Products,
    })
}

/// Parses the name of a case of the parsers.
fn data_case() -> impl TypedValueParser<Value = &'static data::Case> {
    let known = PossibleValuesParser::new(data::CASES.iter().map(|case| case.name));
    known.map(|name| {
        data::CASES.iter().find(|case| case.name == name).expect("the name is possible")
    })
}

/// Parses the name of a case of the parameter servers.
fn ps_case() -> impl TypedValueParser<Value = &'static ps::Case> {
    let known = PossibleValuesParser::new(ps::CASES.iter().map(|case| case.name));
    known.map(|name| ps::CASES.iter().find(|case| case.name == name).expect("the name is possible"))
}

/// Parses the name of a case of collective calls.
fn collective_case() -> impl TypedValueParser<Value = &'static collective::Case> {
    let known = PossibleValuesParser::new(collective::CASES.iter().map(|case| case.name));
    let case = |name: &String| collective::CASES.iter().find(|case| case.name == *name);
    known.map(move |name| case(&name).expect("the name is possible"))
}

/// Parses the name of a case of jobs.
fn launch_case() -> impl TypedValueParser<Value = &'static launch::Case> {
    let known = PossibleValuesParser::new(launch::CASES.iter().map(|case| case.name));
    let find = |name| launch::CASES.iter().find(|case| case.name == name);
    known.map(move |name| find(name).expect("the name is possible"))
}

/// Parses a time; more than a day is a slip of the hand.
fn seconds(text: &str) -> Result<f32, String> {
    const DAY: f32 = 86_400.0;
    positive_real(text).and_then(|seconds| match seconds <= DAY {
        true => Ok(seconds),
        false => Err(format!("must be at most {DAY}")),
    })
}
