//! Which slots the lines of `slot:value` files name, and what to say where they name none.
//!
//! A slot that a line leaves out is padded, so a slot whose name is written differently in the data
//! than in the model would be zeros in every sample; [`Named`] finds out.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bireme_engine::ir::nearest;

use super::{number, plain};
use crate::Slot;

/// How many names of no slot are remembered.
pub(super) const MAX_STRANGERS: usize = 16;
/// How many names a message lists.
const LISTED: usize = 6;

/// The names in some lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Met {
    /// Whether a line had the name of each slot.
    pub(super) slots: Vec<bool>,
    /// The first few names that no slot has.
    pub(super) strangers: Vec<String>,
}

/// Which slots the lines of a dataset have named so far, over all its files. Readers share it.
#[derive(Debug, Default)]
pub struct Named {
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    met: Met,
    /// The first file and the last, and how many were begun.
    first: PathBuf,
    last: PathBuf,
    files: usize,
}

impl Met {
    /// The names of all slots.
    #[cfg(feature = "parquet")]
    pub(crate) fn all(slots: usize) -> Met {
        Met { slots: vec![true; slots], strangers: Vec::new() }
    }
}

impl Named {
    /// Adds what the lines of a file named; a file may be added again when more of it was read.
    pub(crate) fn add(&self, file: &Path, met: &Met) {
        let mut found = self.found();
        if found.last != file {
            if found.files == 0 {
                found.first = file.to_owned();
            }
            found.last = file.to_owned();
            found.files += 1;
        }
        found.met.slots.resize(met.slots.len(), false);
        for (all, here) in found.met.slots.iter_mut().zip(&met.slots) {
            *all |= here;
        }
        for name in &met.strangers {
            if found.met.strangers.len() < MAX_STRANGERS && !found.met.strangers.contains(name) {
                found.met.strangers.push(name.clone());
            }
        }
    }

    /// Whether lines named each slot; none where no file has been read, or files have no names.
    pub fn slots(&self) -> Vec<bool> {
        self.found().met.slots.clone()
    }

    /// Whether lines have names of no slot: then a slot that none names is most likely one of them,
    /// written differently. Without them, the data just has nothing for it.
    pub fn has_unknown_names(&self) -> bool {
        !self.found().met.strangers.is_empty()
    }

    /// What is wrong if lines named these of the slots, which they call `tokens`, and no others;
    /// none if that are all.
    pub fn problem(&self, named: &[bool], slots: &[Slot], tokens: &[String]) -> Option<String> {
        let missing: Vec<usize> =
            (0..slots.len().min(named.len())).filter(|&at| !named[at]).collect();
        let &first = missing.first()?;
        let found = self.found();
        let files = match found.files {
            1 => format!("`{}`", found.first.display()),
            _ => format!("the files, the first of them `{}`,", found.first.display()),
        };
        let names = missing.iter().map(|&at| match tokens[at] == slots[at].name {
            true => format!("`{}`", slots[at].name),
            false => format!("`{}` (`{}:` in the data)", slots[at].name, tokens[at]),
        });
        let slot = if missing.len() == 1 { "slot" } else { "slots" };
        let mut problem = format!(
            "no line of {files} names {slot} {}, so every sample would have zeros there",
            listed(names.collect())
        );
        let strangers = &found.met.strangers;
        if let Some(name) = strangers.iter().find(|name| **name == slots[first].name) {
            problem += &format!(": lines say `{name}:` where they must say `{}:`", tokens[first]);
        } else if !strangers.is_empty() {
            let near = nearest(&tokens[first], strangers.iter().map(String::as_str));
            problem += &match near.first() {
                Some(near) => format!(": they name `{near}:`, did you mean that?"),
                None => format!(": {}", unknown(strangers.clone())),
            };
        }
        Some(problem)
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        // Each change is whole by itself.
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// That a line lacks a slot which every line must have.
pub(super) fn missing_label(
    slot: &str,
    token: &str,
    line: &[u8],
    names: &[(Box<[u8]>, usize)],
) -> String {
    let problem = match slot == token {
        true => format!("there is no `{token}:`, which every line must have"),
        false => format!("there is no `{token}:`, which every line must have (slot `{slot}`)"),
    };
    let strangers = strangers(line, names);
    if strangers.iter().any(|name| name == slot) {
        return format!("{problem}: write `{token}:` for `{slot}:`");
    }
    match nearest(token, strangers.iter().map(String::as_str)).first() {
        Some(near) => format!("{problem}: write `{token}:` for `{near}:`"),
        None if strangers.is_empty() => problem,
        None => format!("{problem}: {}", unknown(strangers)),
    }
}

/// That a line has the name of no slot.
pub(super) fn no_slot(line: &[u8], names: &[(Box<[u8]>, usize)]) -> String {
    let mut known: Vec<_> = names.iter().collect();
    known.sort_unstable_by_key(|(_, slot)| *slot);
    let known = known.into_iter().map(|(name, _)| format!("`{}:`", plain(name))).collect();
    let strangers = strangers(line, names).iter().map(|name| format!("`{name}:`")).collect();
    format!(
        "the line has {}, and the name of no slot: slots are {}",
        listed(strangers),
        listed(known)
    )
}

/// What stands before colons in a line and is the name of no slot.
fn strangers(line: &[u8], names: &[(Box<[u8]>, usize)]) -> Vec<String> {
    let tokens = line.split(|&byte| number::is_space(byte));
    let mut found: Vec<String> = Vec::new();
    for token in tokens {
        let Some(colon) = token.iter().position(|&byte| byte == b':') else { continue };
        let is_known = names.binary_search_by(|(name, _)| (**name).cmp(&token[..colon])).is_ok();
        let name = plain(&token[..colon]);
        if !is_known && found.len() < MAX_STRANGERS && !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

fn unknown(strangers: Vec<String>) -> String {
    let names = strangers.iter().map(|name| format!("`{name}:`")).collect();
    format!("there is {} instead, which is the name of no slot", listed(names))
}

/// The first of some names.
fn listed(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    match more {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
