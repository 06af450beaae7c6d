//! Samples become lines again: what is written parses to the same samples.

use std::io::Write;

use super::format::{Format, names};
use crate::{Error, Result, Samples, Slot, Values};

/// Writes samples of given slots as lines of a format.
#[derive(Clone, Debug)]
pub struct LineWriter {
    /// What stands before each value, with its colon; `None` where counts do.
    names: Option<Vec<String>>,
}

impl LineWriter {
    /// A writer of lines that hold these slots.
    ///
    /// # Errors
    /// For Criteo's raw lines: the words cannot be found from their ids. For MultiSlot lines with
    /// names of samples, which samples do not have.
    pub fn new(format: &Format, slots: &[Slot]) -> Result<LineWriter> {
        let names = match format {
            Format::MultiSlot(options) if options.parse_ins_id || options.parse_content => {
                return Err(Error::Settings(
                    "lines with names of samples cannot be written: samples have no names".into(),
                ));
            }
            Format::MultiSlot(_) => None,
            Format::SlotValue(options) => {
                let names = names(&options.tokens, slots)?;
                Some(names.into_iter().map(|name| name + ":").collect())
            }
            Format::Table(_) => {
                return Err(Error::Settings(format!(
                    "samples cannot become lines of {format}: ids are not the words that they stand \
                     for; write `slot_value` or `multislot`"
                )));
            }
            Format::Criteo(_) => {
                return Err(Error::Settings(
                    "samples cannot become Criteo's raw lines: ids are hashes of words, which \
                     cannot be found from them; write `slot_value` or `multislot`"
                        .into(),
                ));
            }
        };
        Ok(LineWriter { names })
    }

    /// Appends the line of a sample, with its line end.
    pub fn write(&self, samples: &Samples, row: usize, out: &mut Vec<u8>) {
        for (at, column) in samples.columns().iter().enumerate() {
            let range = column.range(row);
            let prefix = match &self.names {
                Some(names) => names[at].as_str(),
                None => {
                    put(out, format_args!("{} ", range.len()));
                    ""
                }
            };
            match column.values() {
                Values::Ids(ids) => {
                    ids[range].iter().for_each(|id| put(out, format_args!("{prefix}{id} ")));
                }
                Values::Floats(floats) => {
                    let floats = floats[range].iter();
                    floats.for_each(|float| put(out, format_args!("{prefix}{float} ")));
                }
            }
        }
        // The space behind the last value becomes the line end.
        out.pop();
        out.push(b'\n');
    }
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("memory can be written");
}
