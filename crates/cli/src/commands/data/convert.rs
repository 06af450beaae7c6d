//! `bireme data convert`: files of one format become files of another.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bireme_data::Samples;
use bireme_data::parse::LineWriter;
use bireme_data::source::{Output, Reader};
use indicatif::ProgressBar;

use super::input::{Data, Input, Name};
use crate::commands::Outcome;
use crate::interrupt::Interrupt;
use crate::terminal::say;
use crate::units::{grouped, plural};

/// Samples that are converted at once.
const ROWS: usize = 4096;

/// Convert files to another format
///
/// One file becomes one file; several become files of the same names in the folder `OUTPUT`. An
/// output whose name ends in `.gz` or `.zst` is compressed. Every file is written aside and gets its
/// name when it is whole. The words of raw Criteo lines become ids by the hash that PaddleRec's
/// readers have with `PYTHONHASHSEED=0` on Python 3.11 or later, and their numbers are scaled as
/// there.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// The format to write; `criteo` cannot be written, because ids cannot become words again
    #[arg(long, value_name = "FORMAT")]
    to: Name,
    /// The file to write, or the folder of the files; `-` is standard output
    #[arg(short, long, value_name = "OUTPUT")]
    output: PathBuf,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    let data = args.input.find()?;
    let writer = LineWriter::new(&args.to.format(), &data.slots)?;
    let to_stdout = args.output.as_os_str() == "-";
    let output = if to_stdout { Path::new("/dev/stdout") } else { &args.output };
    let outputs = outputs(&data.source.files, output)?;
    let interrupt = Interrupt::install()?;
    let mut progress = Progress::new(outputs.len());
    for (file, output) in outputs.iter().enumerate() {
        if !convert(&data, file, output, &writer, &interrupt, &mut progress)? {
            progress.bar.finish_and_clear();
            return Ok(Outcome::Interrupted);
        }
    }
    progress.bar.finish_and_clear();
    data.report_bad_lines();
    let (samples, files) = (grouped(progress.samples), plural(outputs.len(), "file"));
    let done = format!("{samples} samples in {files} written to {}", args.output.display());
    match output.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        // Standard output may be where the samples went.
        true => say(&done),
        false => writeln!(std::io::stdout().lock(), "{done}")?,
    }
    Ok(Outcome::Done)
}

/// Where each file goes.
fn outputs(files: &[PathBuf], output: &Path) -> Result<Vec<PathBuf>> {
    let folder = output.is_dir() || output.as_os_str().as_encoded_bytes().ends_with(b"/");
    let outputs = match files {
        [_] if !folder => vec![output.to_owned()],
        _ if output.metadata().is_ok_and(|found| !found.is_dir()) => {
            bail!("{} files cannot become one, `{}`: name a folder", files.len(), output.display())
        }
        _ => {
            let name = |file: &PathBuf| Some(output.join(file.file_name()?));
            files.iter().map(name).collect::<Option<Vec<_>>>().context("a file has no name")?
        }
    };
    let mut seen = BTreeSet::new();
    for (file, output) in files.iter().zip(&outputs) {
        if !seen.insert(output) {
            bail!(
                "two files would become `{}`: convert them into folders of their own",
                output.display()
            );
        }
        if output.exists() && same_file(file, output) {
            bail!("`{}` would overwrite itself: choose another output", file.display());
        }
    }
    Ok(outputs)
}

fn same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Converts one file; returns whether nobody interrupted it.
fn convert(
    data: &Data,
    file: usize,
    output: &Path,
    writer: &LineWriter,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<bool> {
    let mut reader = Reader::open(&data.source, file, &data.slots)?;
    let mut output = Output::create(output)?;
    let (mut samples, mut lines, mut more) = (Samples::of(&data.slots), Vec::new(), true);
    while more {
        if interrupt.is_raised() {
            return Ok(false);
        }
        samples.clear();
        lines.clear();
        more = reader.read(&mut samples, ROWS)?;
        (0..samples.len()).for_each(|row| writer.write(&samples, row, &mut lines));
        output.write(&lines)?;
        progress.add(samples.len() as u64, file);
    }
    output.finish()?;
    Ok(true)
}

/// A line on a terminal; nothing elsewhere.
struct Progress {
    bar: ProgressBar,
    files: usize,
    samples: u64,
}

impl Progress {
    fn new(files: usize) -> Progress {
        let bar = match std::io::stderr().is_terminal() {
            true => ProgressBar::new_spinner(),
            false => ProgressBar::hidden(),
        };
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { bar, files, samples: 0 }
    }

    fn add(&mut self, samples: u64, file: usize) {
        self.samples += samples;
        let samples = grouped(self.samples);
        self.bar.set_message(format!("file {} of {}, {samples} samples", file + 1, self.files));
    }
}
