//! `bireme data stat`: what is in files, in figures.

use std::io::{self, Write};

use anyhow::{Result, bail};
use bireme_data::source::Reader;
use bireme_data::{Column, Samples, Slot, Values};

use super::distinct::Distinct;
use super::input::{Data, Input, kind};
use crate::commands::Outcome;
use crate::table::{Align, Table};
use crate::units::{bytes, grouped};

/// Samples that are read at once.
const ROWS: usize = 4096;

/// Count what is in files
///
/// Prints how many samples and bad lines there are, the fraction of positive labels, and for each
/// slot how many values it has, about how many different ids (within a few per cent), and the least,
/// the largest and the mean number.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// The slot that is the label [default: `click` or `label`]
    #[arg(long, value_name = "SLOT")]
    label: Option<String>,
}

/// Figures of one slot.
struct Figures {
    values: u64,
    /// The fewest and the most values of a sample.
    fewest: usize,
    most: usize,
    distinct: Distinct,
    least: f32,
    largest: f32,
    sum: f64,
    /// Values above zero.
    positive: u64,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    let data = args.input.find()?;
    let label = label(&data.slots, args.label.as_deref())?;
    let mut figures: Vec<Figures> = data.slots.iter().map(|_| Figures::new()).collect();
    let count = read(&data, &mut figures)?;
    data.report_bad_lines();
    let size = data.source.files.iter().filter_map(|file| file.metadata().ok());
    let size: u64 = size.map(|metadata| metadata.len()).sum();
    let mut out = io::stdout().lock();
    writeln!(out, "format     {}", data.source.format)?;
    writeln!(out, "files      {}", grouped(data.source.files.len() as u64))?;
    writeln!(out, "size       {}", bytes(size))?;
    writeln!(out, "samples    {}", grouped(count))?;
    writeln!(out, "bad lines  {}", grouped(data.source.bad_lines.count()))?;
    if let Some(label) = label
        && count > 0
    {
        let fraction = figures[label].positive as f64 / count as f64;
        writeln!(out, "positive   {:.4} (slot `{}`)", fraction, data.slots[label].name)?;
    }
    writeln!(out, "\n{}", table(&data.slots, &figures).to_string().trim_end())?;
    Ok(Outcome::Done)
}

/// The index of the label.
fn label(slots: &[Slot], name: Option<&str>) -> Result<Option<usize>> {
    let find = |name: &str| slots.iter().position(|slot| slot.name == name);
    match name {
        None => Ok(find("click").or_else(|| find("label"))),
        Some(name) => match find(name) {
            Some(label) => Ok(Some(label)),
            None => bail!("there is no slot `{name}`"),
        },
    }
}

/// Counts all samples; returns how many there are.
fn read(data: &Data, figures: &mut [Figures]) -> Result<u64> {
    let mut samples = Samples::of(&data.slots);
    let mut count = 0;
    for file in 0..data.source.files.len() {
        let mut reader = Reader::open(&data.source, file, &data.slots)?;
        let mut more = true;
        while more {
            samples.clear();
            more = reader.read(&mut samples, ROWS)?;
            count += samples.len() as u64;
            for (figures, column) in figures.iter_mut().zip(samples.columns()) {
                figures.add(column, samples.len());
            }
        }
    }
    Ok(count)
}

impl Figures {
    fn new() -> Figures {
        Figures {
            values: 0,
            fewest: usize::MAX,
            most: 0,
            distinct: Distinct::default(),
            least: f32::INFINITY,
            largest: f32::NEG_INFINITY,
            sum: 0.0,
            positive: 0,
        }
    }

    fn add(&mut self, column: &Column, rows: usize) {
        for row in 0..rows {
            let count = column.range(row).len();
            (self.fewest, self.most) = (self.fewest.min(count), self.most.max(count));
        }
        self.values += column.values().len() as u64;
        match column.values() {
            Values::Ids(ids) => {
                for &id in ids {
                    self.distinct.add(id);
                    self.positive += u64::from(id as i64 > 0);
                }
            }
            Values::Floats(floats) => {
                for &value in floats {
                    (self.least, self.largest) = (self.least.min(value), self.largest.max(value));
                    self.sum += f64::from(value);
                    self.positive += u64::from(value > 0.0);
                }
            }
        }
    }
}

fn table(slots: &[Slot], figures: &[Figures]) -> Table {
    let right = |name| (name, Align::Right);
    let mut table = Table::new(&[
        ("slot", Align::Left),
        ("type", Align::Left),
        right("values"),
        right("a sample"),
        right("distinct"),
        right("least"),
        right("largest"),
        right("mean"),
    ]);
    for (slot, figures) in slots.iter().zip(figures) {
        let each = match (figures.values, figures.fewest == figures.most) {
            (0, _) => String::new(),
            (_, true) => figures.most.to_string(),
            (_, false) => format!("{}-{}", figures.fewest, figures.most),
        };
        let number = |value: f64| match figures.values {
            0 => String::new(),
            _ => format!("{value:.4}"),
        };
        let [distinct, least, largest, mean] = match slot.kind {
            bireme_data::Kind::Ids => {
                let distinct = figures.distinct.estimate().round() as u64;
                [grouped(distinct), String::new(), String::new(), String::new()]
            }
            bireme_data::Kind::Floats => [
                String::new(),
                number(figures.least.into()),
                number(figures.largest.into()),
                number(figures.sum / figures.values as f64),
            ],
        };
        let values = grouped(figures.values);
        table.row([slot.name.clone(), kind(slot), values, each, distinct, least, largest, mean]);
    }
    table
}
