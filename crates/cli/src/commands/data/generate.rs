//! `bireme data generate`: samples that a model of the zoo can learn from.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bireme_rec::zoo::{Entry, entries, find};
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::commands::{Outcome, up_to};
use crate::terminal::say;
use crate::units::plural;

/// Write generated samples that a model can learn from
///
/// What there is to learn never changes: files of two seeds are a training set and a test set. The
/// same arguments give the same files. Without `--out`, samples go to standard output.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The model whose data to write
    #[arg(value_name = "MODEL", value_parser = model())]
    model: &'static Entry,
    /// Samples in each file
    #[arg(long, visible_alias = "samples", value_name = "SAMPLES", default_value = "1000",
          value_parser = up_to::<1_000_000_000>)]
    rows: usize,
    /// Which samples are drawn
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Folder to write to; made if it does not exist
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Files to write, `part-0` and so on, each with samples of its own
    #[arg(long, default_value = "1", requires = "out", value_parser = up_to::<10_000>)]
    files: usize,
}

fn model() -> impl TypedValueParser<Value = &'static Entry> {
    let names = PossibleValuesParser::new(entries().iter().map(|entry| entry.name));
    names.map(|name| find(&name).expect("the parser knows the names"))
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    let Some(folder) = &args.out else {
        let mut out = BufWriter::new(io::stdout().lock());
        (args.model.generate)(&mut out, args.rows, args.seed)?;
        out.flush()?;
        return Ok(Outcome::Done);
    };
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for part in 0..args.files {
        let path = folder.join(format!("part-{part}"));
        write(args, part, &path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let (files, samples) = (plural(args.files, "file"), plural(args.rows, "sample"));
    say(&format!("{files} of {samples} for {} in {}", args.model.name, folder.display()));
    Ok(Outcome::Done)
}

fn write(args: &Args, part: usize, path: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    // The parts of one seed have nothing in common with those of the seeds next to it.
    let seed = args.seed.wrapping_mul(10_000).wrapping_add(part as u64);
    (args.model.generate)(&mut out, args.rows, seed)?;
    out.flush()
}
