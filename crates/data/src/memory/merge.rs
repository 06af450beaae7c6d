//! Samples of the same name become one: lines that different logs wrote about one event.

use super::chunk::Chunk;
use super::columns::Columns;
use super::store::{Builder, Store};
use crate::{Error, INS_ID, Result, Samples, Slot, Values};

/// A number that counts as 0 in a slot, as in Paddle.
const TINY: f32 = 1e-6;

/// What a merge has left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Samples that are in none of the merged ones.
    pub dropped: usize,
    /// The first names whose samples they are, and why.
    pub reasons: Vec<String>,
}

/// Reasons that are kept.
const MAX_REASONS: usize = 8;

/// The slot that has the names.
pub(super) fn name_slot(slots: &[Slot]) -> Result<usize> {
    slots.iter().position(|slot| slot.name == INS_ID).ok_or_else(|| {
        let problem = "samples are merged by their names: read them (`parse_ins_id`)";
        Error::Settings(problem.to_owned())
    })
}

/// Merges samples of the same name.
pub(super) fn merge(
    store: &Store,
    slots: &[Slot],
    name: usize,
    merge_size: usize,
) -> Result<(Store, Merged)> {
    let mut named: Vec<(Vec<u8>, u32)> = store
        .order()
        .into_iter()
        .map(|sample| {
            let (chunk, row) = store.find(sample);
            (chunk.ids(name, row).map(|byte| byte as u8).collect(), sample)
        })
        .collect();
    // Stable: samples of a name stay in the order of the files.
    named.sort_by(|one, other| one.0.cmp(&other.0));
    let mut merged = Merged::default();
    let mut builder = Builder::new(slots);
    let mut one = Samples::of(slots);
    for group in named.chunk_by(|one, other| one.0 == other.0) {
        let rows: Vec<(&Chunk, usize)> = group.iter().map(|(_, at)| store.find(*at)).collect();
        let size_is_wrong = merge_size > 0 && group.len() != merge_size;
        let made = match size_is_wrong {
            true => Err(format!("merge_size={merge_size}")),
            false => merge_rows(&rows, slots, name, &mut one),
        };
        match made {
            Ok(()) => {
                one.end_row();
                builder.push(&Columns::pack(&one, 0..1).into())?;
            }
            Err(why) => {
                merged.dropped += group.len();
                if merged.reasons.len() < MAX_REASONS {
                    let name = String::from_utf8_lossy(&group[0].0);
                    let size = group.len();
                    merged.reasons.push(format!("drop ins {name} size={size}, because {why}"));
                }
            }
        }
        one.clear();
    }
    let mut store = Store::default();
    store.add(builder)?;
    Ok((store, merged))
}

/// Appends the values of one sample, made of some, to every slot; or says why it cannot be made.
fn merge_rows(
    rows: &[(&Chunk, usize)],
    slots: &[Slot],
    name: usize,
    out: &mut Samples,
) -> std::result::Result<(), String> {
    let columns = out.columns_mut().iter_mut().zip(slots).enumerate();
    for (at, (column, slot)) in columns {
        let is_floats = matches!(column.values(), Values::Floats(_));
        let mut some = rows.iter().filter(|(chunk, row)| has_values(chunk, at, *row, is_floats));
        let is_text = at >= name;
        let from = match slot.shape {
            // The first sample's text is that of all.
            None if is_text => None,
            Some(_) => some.next_back(),
            None => {
                let first = some.next();
                if some.next().is_some() {
                    return Err(format!("conflict_slot={}", slot.name));
                }
                first
            }
        };
        let is_padding = from.is_none() && slot.shape.is_none() && !is_text;
        let (chunk, row) = from.unwrap_or(&rows[0]);
        let keep = |value_is_zero: bool| slot.shape.is_some() || is_text || !value_is_zero;
        match column.values_mut() {
            Values::Floats(to) => {
                to.extend(chunk.floats(at, *row).filter(|value| keep(value.abs() < TINY)));
                to.extend(is_padding.then_some(0.0));
            }
            Values::Ids(to) => {
                to.extend(chunk.ids(at, *row).filter(|&id| keep(id == 0)));
                to.extend(is_padding.then_some(0));
            }
        }
    }
    Ok(())
}

/// Whether a row has more than zeros, which stand for nothing.
fn has_values(chunk: &Chunk, slot: usize, row: usize, is_floats: bool) -> bool {
    match is_floats {
        true => chunk.floats(slot, row).any(|value| value.abs() >= TINY),
        false => chunk.ids(slot, row).any(|id| id != 0),
    }
}

#[cfg(test)]
mod tests;
