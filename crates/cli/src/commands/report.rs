//! `bireme report`: the curves of a run as a page.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use bireme_engine::io::write_file;
use bireme_rec::report;

use super::Outcome;

/// Write a page with the curves of a run: loss, AUC, samples a second
///
/// The page is one file that needs no network.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder of the run, or of its models: what `bireme train -m` prints at its end
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// The page [default: report.html in that folder]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    let page = report::page(&report::read(&args.run)?);
    let path = args.output.clone().unwrap_or_else(|| args.run.join("report.html"));
    write_file(&path, |out| out.write_all(page.as_bytes()))?;
    writeln!(std::io::stdout().lock(), "{}", path.display())?;
    Ok(Outcome::Done)
}
