//! `bireme predict`: rows in from files or stdin, predictions out on stdout.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use bireme_data::source::open;
use bireme_engine::io::load_inference_model;
use bireme_engine::tensor::Tensor;
use bireme_engine::{Scope, Step};
use bireme_ir::{DType, Program};
use bireme_rec::run::Description;

use super::{MAX_THREADS, Outcome, available_cores, models, up_to};
use crate::device::{self, Choice};
use crate::rows::{Format, Id, MAX_ROWS, Rows, Trained};
use crate::terminal;

/// The longest line. What is longer is no row.
const MAX_LINE: u64 = 1 << 26;
/// How some editors of Windows begin a file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Run a saved model on rows from files or stdin
///
/// Reads one row a line and writes one JSON object a line, with the values of every output. A model
/// that `bireme train -m` saved takes the lines that it was trained on, with labels or, where slots
/// or columns have names, without; every model takes JSON objects. Blank lines are skipped. A line that cannot be used ends the command with its number and the reason; predictions of the lines
/// before it have been written by then.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A folder of a model, of which the one of the best epoch, else of the last, is taken where
    /// there are several, or the path of a `.pdmodel` file with or without its ending
    model: PathBuf,
    /// Files of rows, plain or compressed with gzip or zstd [default: stdin]
    #[arg(value_name = "FILES")]
    files: Vec<PathBuf>,
    /// What names a row, to be printed in front of its prediction: a column, a slot or a field
    #[arg(long, value_name = "NAME")]
    id: Option<String>,
    /// Print JSON objects, which is the default
    #[arg(long, conflicts_with = "tsv")]
    json: bool,
    /// Print values with tabs between them, and no names
    #[arg(long)]
    tsv: bool,
    /// How lines are written [default: what the first line looks like]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Rows to compute at once; a model that takes a fixed number gets that
    #[arg(long, value_name = "N", default_value = "512", value_parser = up_to::<MAX_ROWS>)]
    batch_size: usize,
    /// Threads to compute with [default: all processors]
    #[arg(long, value_name = "N", value_parser = up_to::<MAX_THREADS>)]
    threads: Option<usize>,
    /// Where to compute: `cpu`, `gpu`, or `gpu:1` for another than the first card [default: cpu]
    #[arg(long, value_name = "DEVICE", value_parser = device::parse)]
    device: Option<Choice>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    let scope = Scope::new();
    let path = models::newest(&args.model);
    if path != args.model {
        terminal::say(&format!("the model is {}", path.display()));
    }
    let files = models::find(&path)?;
    let model = load_inference_model(&path, &scope)?;
    let folder = files.program.parent().unwrap_or(Path::new("")).to_owned();
    let description = Description::read(&folder)?.map(|description| (description, folder));
    let rows = Rows::new(&model.program, &model.feeds)?;
    let batch_size = rows.fixed().unwrap_or(args.batch_size);
    let threads = args.threads.unwrap_or_else(available_cores);
    let executor = device::executor(args.device)?.with_scope(scope).threads(threads);
    let step =
        executor.prepare(&model.program, &as_strs(&model.feeds), &as_strs(&model.fetches))?;
    let out = BufWriter::new(io::stdout().lock());
    let named = model.fetches.iter().map(|name| before_scale(&model.program, name));
    let mut fetches: Vec<String> = named.collect();
    // A model may give out one variable twice; then only the copies' names tell them apart.
    if fetches.iter().collect::<HashSet<_>>().len() < fetches.len() {
        fetches = model.fetches;
    }
    let fields = args.id.clone().map(Id::Field);
    let id = args.id.clone();
    let waiting = Waiting { rows, trained: None, description, feeds: model.feeds, id, fields };
    let (lines, ids, file) = (Vec::new(), Vec::new(), String::new());
    let has_names = args.json || !args.tsv;
    let mut predictor =
        Predictor { step, fetches, waiting, lines, ids, file, has_names, batch_size, out };
    let mut read = || -> Result<()> {
        let mut format = args.format;
        if args.files.is_empty() {
            return read_lines("stdin", io::stdin().lock(), &mut format, &mut predictor);
        }
        for path in &args.files {
            let name = path.display().to_string();
            let input = open(path).with_context(|| format!("cannot read `{name}`"))?;
            read_lines(&name, BufReader::new(input), &mut format, &mut predictor)?;
        }
        Ok(())
    };
    let read = read();
    // Whatever ended the input, the rows before it are good; should one of them fail, its line
    // comes first.
    predictor.finish()?;
    read.map(|()| Outcome::Done)
}

/// Hands over every line that is not blank.
fn read_lines<W: Write>(
    file: &str,
    mut input: impl BufRead,
    format: &mut Option<Format>,
    predictor: &mut Predictor<W>,
) -> Result<()> {
    predictor.begin_file(file)?;
    let mut bytes = Vec::new();
    for number in 1.. {
        let place = || format!("{file}, line {number}");
        bytes.clear();
        // Not more than that: a file without lines would fill the memory.
        let read = input.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes);
        match read.with_context(place)? as u64 {
            0 => break,
            MAX_LINE if !bytes.ends_with(b"\n") => {
                bail!("{}: longer than {} MiB: is it text?", place(), MAX_LINE >> 20)
            }
            _ => {}
        }
        let line = match number {
            1 => bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes),
            _ => &bytes,
        };
        let line = without_ends(line);
        if line.trim_ascii().is_empty() {
            continue;
        }
        let format = *format.get_or_insert_with(|| Format::guess(line));
        let Some(id) = predictor.waiting.push(line, format).with_context(place)? else { continue };
        predictor.lines.push(number);
        predictor.ids.push(id);
        if predictor.waiting.len() == predictor.batch_size {
            predictor.finish()?;
        }
    }
    Ok(())
}

/// A line without its end and without spaces around it. A tab at an end of a line of Criteo's is a word
/// that is missing.
fn without_ends(mut line: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' ' | b'\r' | b'\n'] = line {
        line = rest;
    }
    line
}

fn as_strs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// The name that the model's author gave to an output. A `.pdmodel` file copies each output to a
/// variable with a name of its own (`save_infer_model/scale_0.tmp_0`), which tells nobody anything.
fn before_scale(program: &Program, fetch: &str) -> String {
    let copies = fetch.starts_with("save_infer_model/");
    let ops = program.global().ops.iter().filter(|op| copies && op.kind == "scale");
    let mut writers = ops.filter(|op| op.outputs_of("Out") == [fetch]);
    let source = writers.next().and_then(|op| op.inputs_of("X").first());
    source.map_or_else(|| fetch.to_owned(), Clone::clone)
}

/// Rows that wait for a batch to be full.
struct Waiting {
    /// Of JSON objects, and of slot text by the names of feeds.
    rows: Rows,
    /// Of the lines that the model was trained on, once there was one.
    trained: Option<Trained>,
    /// What the model was trained on, and where it lies.
    description: Option<(Description, PathBuf)>,
    feeds: Vec<String>,
    /// What names a row, and the same as a field of JSON objects.
    id: Option<String>,
    fields: Option<Id>,
}

impl Waiting {
    /// Adds the row of a line; returns its name, if it is asked for. `None` for a line without a row.
    fn push(&mut self, line: &[u8], format: Format) -> Result<Option<Option<String>>> {
        let trained = match (&mut self.trained, format, &self.description) {
            (Some(trained), ..) => trained,
            (none, Format::Slot, Some((description, folder))) => {
                let lines = (&description.lines, folder.as_path());
                none.insert(Trained::new(lines, line, &self.feeds, self.id.as_deref())?)
            }
            _ => return self.push_fed(line, format).map(Some),
        };
        if trained.skips(line)? {
            return Ok(None);
        }
        let id = trained.id(line)?;
        trained.push(line)?;
        Ok(Some(id))
    }

    /// Adds the row of a line that names the feeds of the model.
    fn push_fed(&mut self, line: &[u8], format: Format) -> Result<Option<String>> {
        let line = std::str::from_utf8(line).context("not UTF-8 text")?;
        match (&mut self.fields, format) {
            (Some(id), Format::Json) => {
                let name = id.of(line.as_bytes())?;
                self.rows.push(&id.without(line)?, format)?;
                Ok(Some(name))
            }
            (Some(_), Format::Slot) => {
                bail!("this model was not trained from YAML: `--id` names a field of JSON objects")
            }
            (None, _) => self.rows.push(line, format).map(|()| None),
        }
    }

    fn len(&self) -> usize {
        self.trained.as_ref().map_or(self.rows.len(), Trained::len)
    }

    fn clear(&mut self) {
        self.rows.clear();
        if let Some(trained) = &mut self.trained {
            trained.clear();
        }
    }

    /// Runs the model on all rows, or on one of them.
    fn run(&mut self, step: &mut Step, only: Option<usize>) -> Result<()> {
        if let Some(trained) = &mut self.trained {
            return trained.run(step, only);
        }
        let tensors = match only {
            Some(row) => self.rows.single(row).tensors()?,
            None => self.rows.tensors()?,
        };
        Ok(step.run(&tensors.iter().collect::<Vec<_>>())?)
    }
}

struct Predictor<W> {
    step: Step,
    fetches: Vec<String>,
    waiting: Waiting,
    /// The line that each of them came from, and what names it.
    lines: Vec<usize>,
    ids: Vec<Option<String>>,
    /// The file that they are from.
    file: String,
    /// Whether what is printed has names: JSON objects.
    has_names: bool,
    batch_size: usize,
    out: W,
}

impl<W: Write> Predictor<W> {
    /// Begins with another file.
    fn begin_file(&mut self, file: &str) -> Result<()> {
        self.finish()?;
        file.clone_into(&mut self.file);
        if let Some(trained) = &mut self.waiting.trained {
            trained.begin_file();
        }
        Ok(())
    }

    /// Predicts the rows that wait; none are left, even after an error.
    fn finish(&mut self) -> Result<()> {
        let (lines, ids) = (std::mem::take(&mut self.lines), std::mem::take(&mut self.ids));
        let predicted = self.predict(&lines, &ids);
        self.waiting.clear();
        // A batch is complete for whoever reads our output, even if the next one takes its time.
        let flushed = self.out.flush();
        predicted?;
        Ok(flushed?)
    }

    fn predict(&mut self, lines: &[usize], ids: &[Option<String>]) -> Result<()> {
        let (&[first, ..], &[.., last]) = (lines, lines) else { return Ok(()) };
        if self.waiting.run(&mut self.step, None).is_ok() {
            let place = || format!("{}, lines {first} to {last}", self.file);
            self.check_outputs(lines.len()).with_context(place)?;
            return self.write(ids);
        }
        // One row spoils a whole batch: alone, the others still give their predictions, and the
        // error is about the right line.
        for (row, line) in lines.iter().enumerate() {
            let alone = self.waiting.run(&mut self.step, Some(row));
            let checked = alone.and_then(|()| self.check_outputs(1));
            checked.with_context(|| format!("{}, line {line}", self.file))?;
            self.write(&ids[row..=row])?;
        }
        Ok(())
    }

    fn check_outputs(&self, rows: usize) -> Result<()> {
        let expected = self.waiting.rows.fixed().unwrap_or(rows);
        for (index, name) in self.fetches.iter().enumerate() {
            let fetched = self.step.fetched(index);
            ensure!(
                fetched.rows() == expected,
                "output `{name}` has shape {}, not one row for each of {expected} lines",
                fetched.dims()
            );
        }
        Ok(())
    }

    /// Writes the first rows of what was computed, which have these names.
    fn write(&mut self, ids: &[Option<String>]) -> Result<()> {
        for (row, id) in ids.iter().enumerate() {
            let values = (0..self.fetches.len()).map(|at| row_texts(self.step.fetched(at), row));
            let values = values.collect::<Result<Vec<_>>>()?;
            if !self.has_names {
                let id = id.iter().map(|id| id.replace(['\t', '\n'], " "));
                let cells: Vec<String> = id.chain(values.into_iter().flatten()).collect();
                writeln!(self.out, "{}", cells.join("\t"))?;
                continue;
            }
            let id = id.as_ref().map(serde_json::to_string).transpose()?;
            let mut open = "{";
            if let Some(id) = id {
                write!(self.out, "{{\"id\":{id}")?;
                open = ",";
            }
            for (name, values) in self.fetches.iter().zip(values) {
                let name = serde_json::to_string(name)?;
                write!(self.out, "{open}{name}:[{}]", values.join(","))?;
                open = ",";
            }
            writeln!(self.out, "}}")?;
        }
        Ok(())
    }
}

/// One row of `tensor`, as JSON writes its values.
fn row_texts(tensor: &Tensor, row: usize) -> Result<Vec<String>> {
    let width = tensor.numel() / tensor.rows();
    let range = row * width..(row + 1) * width;
    let texts: Vec<String> = match tensor.dtype() {
        // The shortest text that reads back as the same number; JSON has no NaN.
        DType::F32 => {
            let number = |x: &f32| if x.is_finite() { x.to_string() } else { "null".to_owned() };
            tensor.as_slice::<f32>()?[range].iter().map(number).collect()
        }
        DType::I64 => tensor.as_slice::<i64>()?[range].iter().map(ToString::to_string).collect(),
        _ => {
            let number = |x: &f64| if x.is_finite() { x.to_string() } else { "null".to_owned() };
            tensor.to_f64_vec()[range].iter().map(number).collect()
        }
    };
    Ok(texts)
}
