//! How lines are written, from a look at some of them.

use super::{Format, number, shown};
use crate::{Kind, Slot};

/// Fields that only a raw Criteo line has so many of.
const CRITEO_TABS: usize = 30;

/// The slots of Criteo's data by PaddleRec's names: `click`, `1` to `26` and `dense_feature`.
pub fn criteo_slots() -> Vec<Slot> {
    let words = (1..=26).map(|word| Slot::id(word.to_string()));
    let dense = Slot::floats("dense_feature", 13);
    [Slot::id("click")].into_iter().chain(words).chain([dense]).collect()
}

impl Format {
    /// The format that lines look like.
    ///
    /// # Errors
    /// When there is no line, or it looks like none.
    pub fn guess(text: &[u8]) -> std::result::Result<Format, String> {
        let line = lines(text).next().ok_or("there is no line")?;
        if memchr::memchr_iter(b'\t', line).count() >= CRITEO_TABS {
            return Ok(Format::criteo());
        }
        let mut tokens = tokens(line);
        if tokens.all(|token| token.contains(&b':')) {
            return Ok(Format::slot_value());
        }
        match multi_slot(line) {
            Some(_) => Ok(Format::multi_slot()),
            None => Err(format!(
                "{} looks neither like MultiSlot nor like `slot:value` nor like Criteo's raw lines",
                shown(line)
            )),
        }
    }

    /// The slots that lines of this format seem to hold, in their order; those of MultiSlot lines
    /// get the names `slot0`, `slot1`, and so on.
    ///
    /// A slot holds numbers if one of them is not whole, and has a shape if all lines that have it
    /// hold as many values.
    ///
    /// # Errors
    /// When no line is right.
    pub fn guess_slots(&self, text: &[u8]) -> std::result::Result<Vec<Slot>, String> {
        let mut seen: Vec<Seen> = Vec::new();
        for line in lines(text) {
            match self {
                Format::Criteo(_) => return Ok(criteo_slots()),
                Format::SlotValue(_) => slot_value(line, &mut seen),
                Format::Table(_) => return Err("a table has columns, not slots".to_owned()),
                Format::MultiSlot(_) => {
                    let slots = multi_slot(line).unwrap_or_default().into_iter().enumerate();
                    slots.for_each(|(at, values)| see(&mut seen, &format!("slot{at}"), &values));
                }
            }
        }
        match seen.is_empty() {
            true => Err(format!("no line looks like {self}")),
            false => Ok(seen.into_iter().map(Seen::slot).collect()),
        }
    }
}

/// What lines had for a slot.
struct Seen {
    name: String,
    kind: Kind,
    fewest: usize,
    most: usize,
}

impl Seen {
    fn slot(self) -> Slot {
        let shape = (self.fewest == self.most).then(|| vec![self.most]);
        Slot { name: self.name, kind: self.kind, shape, batched: false }
    }
}

fn slot_value(line: &[u8], seen: &mut Vec<Seen>) {
    let mut slots: Vec<(&[u8], Vec<&[u8]>)> = Vec::new();
    for token in tokens(line) {
        let Some(colon) = token.iter().position(|&byte| byte == b':') else { continue };
        let (name, value) = (&token[..colon], &token[colon + 1..]);
        match slots.iter_mut().find(|(other, _)| *other == name) {
            Some((_, values)) => values.push(value),
            None => slots.push((name, vec![value])),
        }
    }
    for (name, values) in slots {
        if let Some(name) = std::str::from_utf8(name).ok().filter(|name| !name.is_empty()) {
            see(seen, name, &values);
        }
    }
}

/// The values of each slot of a line; `None` if it is no MultiSlot line.
fn multi_slot(line: &[u8]) -> Option<Vec<Vec<&[u8]>>> {
    let (mut tokens, mut slots) = (tokens(line), Vec::new());
    while let Some(token) = tokens.next() {
        let (count @ 1.., _) = number::id(token, 0)? else { return None };
        let count = usize::try_from(count).ok().filter(|&count| count <= line.len())?;
        let values: Vec<&[u8]> = tokens.by_ref().take(count).collect();
        let right = |value: &&[u8]| number::float(value, 0).is_some();
        if values.len() != count || !values.iter().all(right) {
            return None;
        }
        slots.push(values);
    }
    Some(slots)
}

fn see(seen: &mut Vec<Seen>, name: &str, values: &[&[u8]]) {
    let whole = values.iter().all(|value| number::id(value, 0).is_some());
    let kind = if whole { Kind::Ids } else { Kind::Floats };
    let count = values.len();
    match seen.iter_mut().find(|slot| slot.name == name) {
        None => seen.push(Seen { name: name.to_owned(), kind, fewest: count, most: count }),
        Some(slot) => {
            (slot.fewest, slot.most) = (slot.fewest.min(count), slot.most.max(count));
            if kind == Kind::Floats {
                slot.kind = kind;
            }
        }
    }
}

/// Lines that are not blank.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty())
}

fn tokens(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| number::is_space(byte)).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_and_slots_are_found() {
        let text = b"\nclick:1 d:0 d:1 q:7\nq:1 q:2 click:0 d:0.5 d:1\n";
        let format = Format::guess(text).unwrap();
        assert_eq!(format, Format::slot_value());
        let slots = [Slot::id("click"), Slot::floats("d", 2), Slot::ids("q")];
        assert_eq!(format.guess_slots(text).unwrap(), slots);

        let text = b"1 1 2 3 0.5\n1 0 2 3 5\n";
        let format = Format::guess(text).unwrap();
        assert_eq!(format, Format::multi_slot());
        assert_eq!(
            format.guess_slots(text).unwrap(),
            [Slot::id("slot0"), Slot::floats("slot1", 2)]
        );

        let raw = format!("1{}\n", "\t".repeat(39));
        assert_eq!(Format::guess(raw.as_bytes()), Ok(Format::criteo()));
        assert_eq!(Format::criteo().guess_slots(raw.as_bytes()).unwrap().len(), 28);
        assert!(Format::guess(b"age,job\n").unwrap_err().contains("`age,job` looks neither"));
        assert_eq!(Format::guess(b" \n"), Err("there is no line".into()));
    }
}
