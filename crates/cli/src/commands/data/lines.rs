//! `bireme data split` and `bireme data shuffle`: lines go elsewhere as they are, and a first line that
//! names columns stays the first.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use bireme_data::parse::Format;
use bireme_data::source::{Output, expand, open, preview};
use bireme_data::table::{Header, Layout, guess};

use crate::commands::Outcome;
use crate::terminal::say;
use crate::units::{grouped, plural};

/// Cut files into parts, line by line
///
/// Each line goes to one part, drawn by the seed and its number, so that the same arguments give the
/// same parts: `--parts train=0.8,test=0.2 -o data` writes `data/train/FILE` and `data/test/FILE`. A
/// line that names the columns of a csv file stands in each.
#[derive(Debug, clap::Args)]
pub(crate) struct SplitArgs {
    #[command(flatten)]
    from: From,
    /// The parts and their shares
    #[arg(long, value_name = "NAME=SHARE,...", default_value = "train=0.9,test=0.1",
          value_parser = parts)]
    parts: Parts,
    /// The folder to write to
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

/// Write the lines of files in another order
///
/// All files become one. Their lines are held in memory.
#[derive(Debug, clap::Args)]
pub(crate) struct ShuffleArgs {
    #[command(flatten)]
    from: From,
    /// The file to write; compressed where its name ends in `.gz` or `.zst`
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

#[derive(Debug, clap::Args)]
struct From {
    /// Files, folders or patterns; plain or compressed with gzip or zstd
    #[arg(required = true, value_name = "FILES")]
    files: Vec<PathBuf>,
    /// What is drawn
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Whether the first line of a file names its columns [default: whether it looks so]
    #[arg(long)]
    header: Option<bool>,
}

/// A list that clap takes as one value.
#[derive(Clone, Debug)]
struct Parts(Vec<(String, f64)>);

fn parts(text: &str) -> std::result::Result<Parts, String> {
    let mut parts: Vec<(String, f64)> = Vec::new();
    for part in text.split(',') {
        let (name, share) =
            part.split_once('=').ok_or_else(|| format!("`{part}` is not NAME=SHARE"))?;
        let share: Option<f64> = share.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0);
        let share =
            share.ok_or_else(|| format!("the share in `{part}` is not above 0 and up to 1"))?;
        let is_name = !name.is_empty() && !name.contains(['/', '\\']) && !name.starts_with('.');
        if !is_name || parts.iter().any(|(other, _)| other == name) {
            return Err(format!("`{name}` is no name for one more part"));
        }
        parts.push((name.to_owned(), share));
    }
    let all: f64 = parts.iter().map(|(_, share)| share).sum();
    match (all - 1.0).abs() < 1e-6 {
        true => Ok(Parts(parts)),
        false => Err(format!("the shares are {all} together, and must be 1")),
    }
}

impl From {
    /// Hands over the lines of each file with their ends, blank ones left out; first the header, if
    /// there is one.
    fn each(&self, file: &Path, mut to: impl FnMut(&[u8], bool) -> Result<()>) -> Result<()> {
        let failed = || format!("cannot read `{}`", file.display());
        let has_header = match self.header {
            Some(header) => header,
            None => looks_like_header(&preview(file, None)?),
        };
        let mut text = BufReader::with_capacity(1 << 18, open(file).with_context(failed)?);
        let (mut line, mut is_header) = (Vec::new(), has_header);
        loop {
            line.clear();
            if text.read_until(b'\n', &mut line).with_context(failed)? == 0 {
                return Ok(());
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            if !line.ends_with(b"\n") {
                line.push(b'\n');
            }
            to(&line, std::mem::take(&mut is_header))?;
        }
    }
}

/// Whether the first of these lines has names.
fn looks_like_header(text: &[u8]) -> bool {
    if Format::guess(text).is_ok() {
        return false;
    }
    let guessed = guess(text).map(|guessed| guessed.layout);
    matches!(guessed, Ok(Layout::Csv(csv)) if csv.header == Header::Line)
}

/// A number that is drawn: from 0 up to, and without, 1.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    fn below_one(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Runs `bireme data split`.
pub(crate) fn split(args: &SplitArgs) -> Result<Outcome> {
    let files = expand(&args.from.files)?;
    let Parts(parts) = &args.parts;
    let mut counts = vec![0_u64; parts.len()];
    let mut draws = Draws(args.from.seed);
    let mut names: Vec<&std::ffi::OsStr> = Vec::new();
    for file in &files {
        let name = file.file_name().with_context(|| format!("`{}` has no name", file.display()))?;
        ensure!(
            !names.contains(&name),
            "two files have the name `{}`: cut them into folders of their own",
            name.to_string_lossy()
        );
        names.push(name);
        let create = |(part, _): &(String, f64)| {
            let path = args.output.join(part).join(name);
            if path
                .canonicalize()
                .is_ok_and(|path| file.canonicalize().is_ok_and(|own| own == path))
            {
                bail!("`{}` would overwrite itself: choose another folder", file.display());
            }
            Ok(Output::create(&path)?)
        };
        let mut outputs = parts.iter().map(create).collect::<Result<Vec<_>>>()?;
        args.from.each(file, |line, is_header| {
            if is_header {
                return outputs.iter_mut().try_for_each(|output| Ok(output.write(line)?));
            }
            let mut drawn = draws.below_one();
            let mut part = 0;
            while part + 1 < parts.len() && drawn >= parts[part].1 {
                drawn -= parts[part].1;
                part += 1;
            }
            counts[part] += 1;
            Ok(outputs[part].write(line)?)
        })?;
        outputs.into_iter().try_for_each(Output::finish)?;
    }
    for ((name, _), count) in parts.iter().zip(counts) {
        let (lines, files) = (grouped(count), plural(files.len(), "file"));
        say(&format!("{lines} lines in {files} of {}", args.output.join(name).display()));
    }
    Ok(Outcome::Done)
}

/// Runs `bireme data shuffle`.
pub(crate) fn shuffle(args: &ShuffleArgs) -> Result<Outcome> {
    let files = expand(&args.from.files)?;
    let (mut text, mut ends, mut header) = (Vec::new(), vec![0], Vec::new());
    for file in &files {
        args.from.each(file, |line, is_header| {
            if !is_header {
                text.extend_from_slice(line);
                ends.push(text.len());
            } else if header.is_empty() {
                header = line.to_vec();
            } else if header != line {
                bail!("`{}` has other columns than the files before it", file.display());
            }
            Ok(())
        })?;
    }
    let count = ends.len() - 1;
    let mut order: Vec<usize> = (0..count).collect();
    let mut draws = Draws(args.from.seed);
    for at in (1..count).rev() {
        order.swap(at, (draws.below_one() * (at + 1) as f64) as usize);
    }
    let mut output = Output::create(&args.output)?;
    output.write(&header)?;
    for line in order {
        output.write(&text[ends[line]..ends[line + 1]])?;
    }
    output.finish()?;
    say(&format!("{} lines in {}", grouped(count as u64), args.output.display()));
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_names_and_shares() {
        let Parts(found) = parts("train=0.75,test=0.25").unwrap();
        assert_eq!(found, [("train".to_owned(), 0.75), ("test".to_owned(), 0.25)]);
        for wrong in ["", "a", "a=0.5", "a=0.5,a=0.5", "a=2", "a=x", "../a=1", "a=0.5,b=0.6"] {
            assert!(parts(wrong).is_err(), "{wrong}");
        }
    }
}
