//! `bireme data head`: the first samples, slot by slot.

use std::io::{self, Write};

use anyhow::Result;
use bireme_data::source::Reader;
use bireme_data::{Column, Samples, Values};

use super::input::{Data, Input, kind};
use crate::commands::{Outcome, up_to};
use crate::table::{Align, Table};
use crate::units::plural;

/// The widest cell.
const MAX_WIDTH: usize = 28;

/// Show the first samples of files
///
/// Prints a line for each slot and a column for each sample. Of long lists it shows the start and
/// how many values there are.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Samples to show
    #[arg(short = 'n', long, value_name = "SAMPLES", default_value = "5",
          value_parser = up_to::<1000>)]
    samples: usize,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    let data = args.input.find()?;
    let samples = read(&data, args.samples)?;
    data.report_bad_lines();
    let shown = samples.len().min(args.samples);
    let numbers: Vec<String> = (1..=shown).map(|number| number.to_string()).collect();
    let mut columns = vec![("slot", Align::Left), ("type", Align::Left)];
    columns.extend(numbers.iter().map(|number| (number.as_str(), Align::Left)));
    let mut table = Table::new(&columns);
    for (slot, column) in data.slots.iter().zip(samples.columns()) {
        let cells = (0..shown).map(|row| cell(column, row));
        table.cells([slot.name.clone(), kind(slot)].into_iter().chain(cells));
    }
    let mut out = io::stdout().lock();
    let source = &data.source;
    let (files, slots) = (plural(source.files.len(), "file"), plural(data.slots.len(), "slot"));
    writeln!(out, "{files} of {} lines with {slots}\n", source.format)?;
    write!(out, "{table}")?;
    Ok(Outcome::Done)
}

/// The samples of the first files, until there are enough.
fn read(data: &Data, count: usize) -> Result<Samples> {
    let mut samples = Samples::of(&data.slots);
    for file in 0..data.source.files.len() {
        let mut reader = Reader::open(&data.source, file, &data.slots)?;
        while samples.len() < count && reader.read(&mut samples, count)? {}
        if samples.len() >= count {
            break;
        }
    }
    Ok(samples)
}

fn cell(column: &Column, row: usize) -> String {
    let range = column.range(row);
    let count = range.len();
    let values: Vec<String> = match column.values() {
        // More than fit are not looked at.
        Values::Ids(ids) => ids[range].iter().take(MAX_WIDTH).map(u64::to_string).collect(),
        Values::Floats(floats) => {
            floats[range].iter().take(MAX_WIDTH).map(f32::to_string).collect()
        }
    };
    let text = values.join(" ");
    if values.len() == count && (count == 1 || text.len() <= MAX_WIDTH) {
        return text;
    }
    let end = text[..=MAX_WIDTH.min(text.len() - 1)].rfind(' ').unwrap_or(text.len());
    format!("{} … ({count})", &text[..end])
}
