//! Parsers that split a line and look every token up: slow, and right at a glance.

use super::super::python_hash::Spread;
use crate::{Kind, Slot};

/// A value; floats by their bits, so that they can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Id(u64),
    Float(u32),
}

/// The values of a `slot:value` line, in the order of the slots; `None` for a bad or blank line,
/// or one that names no slot.
pub(super) fn plain_slot_value(line: &[u8], slots: &[Slot]) -> Option<Vec<Vec<Cell>>> {
    let mut row = vec![Vec::new(); slots.len()];
    let tokens = tokens(line);
    for token in &tokens {
        let colon = token.iter().position(|&byte| byte == b':')?;
        let (name, value) = (&token[..colon], &token[colon + 1..]);
        if let Some(at) = slots.iter().position(|slot| slot.name.as_bytes() == name) {
            row[at].push(cell(value, slots[at].kind)?);
        }
    }
    if row.iter().all(Vec::is_empty) {
        return None;
    }
    for (cells, slot) in row.iter_mut().zip(slots) {
        if cells.is_empty() {
            let zero = if slot.kind == Kind::Ids { Cell::Id(0) } else { Cell::Float(0) };
            *cells = vec![zero; slot.width().unwrap_or(1)];
        }
        if slot.width().is_some_and(|width| width != cells.len()) {
            return None;
        }
    }
    Some(row)
}

/// The values of a MultiSlot line; `None` for a bad or blank one.
pub(super) fn plain_multi_slot(line: &[u8], slots: &[Slot]) -> Option<Vec<Vec<Cell>>> {
    let (tokens, mut at) = (tokens(line), 0);
    let mut row = Vec::new();
    for slot in slots {
        let Cell::Id(count @ 1..) = cell(tokens.get(at)?, Kind::Ids)? else { return None };
        let count = usize::try_from(count).ok()?;
        let values = tokens.get(at + 1..(at + 1).checked_add(count)?)?;
        let cells: Option<Vec<Cell>> = values.iter().map(|value| cell(value, slot.kind)).collect();
        if slot.width().is_some_and(|width| width != count) {
            return None;
        }
        row.push(cells?);
        at += 1 + count;
    }
    (at == tokens.len()).then_some(row)
}

/// The values of a raw Criteo line, in the order of `criteo_slots`, after PaddleRec's formulas.
pub(super) fn plain_criteo(line: &str) -> Option<Vec<Vec<Cell>>> {
    let fields: Vec<&str> = line.strip_suffix('\r').unwrap_or(line).split('\t').collect();
    if fields.len() != 40 || !["0", "1"].contains(&fields[0]) {
        return None;
    }
    let mut row = vec![vec![cell(fields[0].as_bytes(), Kind::Ids)?]];
    for (index, word) in fields.iter().enumerate().skip(14) {
        if word.len() > 64 || !word.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        let id = Spread::over(1_000_001).id(format!("{index}{word}").as_bytes());
        row.push(vec![Cell::Id(id)]);
    }
    let least = [0., -3., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0.];
    let span = [20., 603., 100., 50., 64000., 500., 100., 50., 500., 10., 10., 10., 50.];
    let mut numbers = Vec::new();
    for (index, field) in fields[1..14].iter().enumerate() {
        let value = match field.is_empty() {
            true => 0.0,
            false => (field.parse::<f64>().ok()? - least[index]) / span[index],
        };
        numbers.push(Some(value as f32).filter(|value| value.is_finite())?);
    }
    row.push(numbers.iter().map(|number| Cell::Float(number.to_bits())).collect());
    Some(row)
}

fn tokens(line: &[u8]) -> Vec<&[u8]> {
    let parts = line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
    parts.filter(|part| !part.is_empty()).collect()
}

fn cell(value: &[u8], kind: Kind) -> Option<Cell> {
    let value = std::str::from_utf8(value).ok()?;
    match kind {
        Kind::Ids if value.starts_with('+') => None,
        Kind::Ids if value.starts_with('-') => Some(Cell::Id(value.parse::<i64>().ok()? as u64)),
        Kind::Ids => Some(Cell::Id(value.parse().ok()?)),
        Kind::Floats => {
            let value = value.parse::<f32>().ok().filter(|value| value.is_finite())?;
            Some(Cell::Float(value.to_bits()))
        }
    }
}
