//! What a saved model is, in a file beside it: for those who load it into a program of their own,
//! and for `bireme predict`, which reads the lines that it was trained on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use bireme_data::parse::{CriteoOptions, Format, MultiSlotOptions, SlotValueOptions, TableOptions};
use bireme_data::table::{Learned, Table};
use bireme_data::{Kind, Slot};
use bireme_engine::io;
use bireme_engine::ir::Program;
use serde::{Deserialize, Serialize};

use super::columns;
use crate::zoo::{Hyper, Model};
use crate::{Error, Result};

/// The file, in the folder of an epoch.
const NAME: &str = "model.json";
/// Differences that a message names; a model of another shape has many.
const NAMED: usize = 4;

/// What a saved model is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The model of the zoo.
    pub model: String,
    /// The hyper parameters that it asks for.
    pub hyper_parameters: BTreeMap<String, String>,
    /// Type and shape of each parameter, by name.
    pub parameters: BTreeMap<String, String>,
    /// How the lines were written that it was trained on.
    pub lines: Lines,
}

/// How lines are written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    /// `multislot`, `slot_value` or `criteo`, or how files of columns are written, which `data.json`
    /// beside this file describes.
    pub format: String,
    /// What they hold, in this order.
    pub slots: Vec<LineSlot>,
    /// What a slot gets that a `slot_value` line does not name.
    #[serde(default)]
    pub padding: u32,
    /// How many ids the words of `criteo` lines are spread over; 0 in other formats.
    #[serde(default)]
    pub hash_space: u64,
    /// Whether `multislot` lines begin with the name of the sample.
    #[serde(default)]
    pub parse_ins_id: bool,
    /// Whether `multislot` lines say something about the sample.
    #[serde(default)]
    pub parse_content: bool,
}

/// One slot of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineSlot {
    /// The variable that it feeds.
    pub name: String,
    /// What lines call it, where they have names.
    pub token: String,
    /// Whether its values are whole numbers of 64 bits.
    pub ids: bool,
    /// The shape of a sample; none for any number of values.
    pub shape: Option<Vec<usize>>,
}

impl Description {
    /// A model that was built with these hyper parameters; its lines are to be added.
    pub(super) fn of(name: &str, hyper: &Hyper, model: &Model) -> Description {
        Description {
            model: name.to_owned(),
            hyper_parameters: hyper.in_use(),
            parameters: shapes(&model.graph.main()),
            lines: Lines::default(),
        }
    }

    /// The description beside a model; none where another program or an older version saved it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(folder: &Path) -> Result<Option<Description>> {
        let path = folder.join(NAME);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::file(path, error)),
        };
        let read = serde_json::from_slice(&text);
        read.map(Some).map_err(|error| Error::file(path, format!("it is damaged: {error}")))
    }

    /// Writes it into the folder of a model.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let path = folder.join(NAME);
        let text = serde_json::to_vec_pretty(self).map_err(|error| Error::file(&path, error))?;
        Ok(io::write_file(path, |out| out.write_all(&text))?)
    }

    /// Refuses a saved model, `self`, that is not the one of a configuration.
    ///
    /// # Errors
    /// When its name is another, or a parameter is missing or has another shape. Returns the hyper
    /// parameters and slots that differ all the same, in words.
    pub(super) fn check_fits(&self, here: &Description, folder: &Path) -> Result<Option<String>> {
        let mut hyper =
            differences("hyper parameter", &self.hyper_parameters, &here.hyper_parameters);
        hyper.extend(self.lines.differences(&here.lines));
        let mut all = Vec::new();
        if self.model != here.model {
            all.push(format!("model {} there, {} here", self.model, here.model));
        }
        all.extend(differences("parameter", &self.parameters, &here.parameters));
        if all.is_empty() {
            return Ok((!hyper.is_empty()).then(|| listed(hyper)));
        }
        all.extend(hyper);
        Err(Error::file(
            folder,
            format!(
                "cannot load the model: it is not the one that the configuration describes ({}): \
                 set them alike",
                listed(all)
            ),
        ))
    }
}

impl Lines {
    /// Lines of a format with these slots.
    ///
    /// # Errors
    /// When the format has names for some slots only.
    pub(super) fn of(format: &Format, slots: &[Slot]) -> Result<Lines> {
        let tokens = format.names(slots)?;
        let slot = |(slot, token): (&Slot, String)| LineSlot {
            name: slot.name.clone(),
            token,
            ids: slot.kind == Kind::Ids,
            shape: slot.shape.clone(),
        };
        let slots = slots.iter().zip(tokens).map(slot).collect();
        let mut lines = Lines { format: format.to_string(), slots, ..Lines::default() };
        match format {
            Format::MultiSlot(options) => {
                (lines.parse_ins_id, lines.parse_content) =
                    (options.parse_ins_id, options.parse_content);
            }
            Format::SlotValue(options) => lines.padding = options.padding,
            Format::Criteo(options) => lines.hash_space = options.hash_space,
            // What its columns become is in a file of its own.
            Format::Table(_) => {}
        }
        Ok(lines)
    }

    /// Slots that lines of the same format call otherwise, in words: the model would be fed what it was
    /// not trained on.
    fn differences(&self, here: &Lines) -> Vec<String> {
        if self.format != here.format {
            return Vec::new();
        }
        let tokens = |lines: &Lines| -> BTreeMap<String, String> {
            let token = |slot: &LineSlot| (slot.name.clone(), slot.token.clone());
            lines.slots.iter().map(token).collect()
        };
        differences("slot", &tokens(self), &tokens(here))
    }

    /// The slots that lines hold; of those with names only the ones that `wanted` names, so that
    /// lines need no labels.
    pub fn slots(&self, format: &Format, wanted: &[String]) -> Vec<Slot> {
        let kept = self.kept(format, wanted);
        let slot = |slot: &LineSlot| Slot {
            name: slot.name.clone(),
            kind: if slot.ids { Kind::Ids } else { Kind::Floats },
            shape: slot.shape.clone(),
            batched: false,
        };
        kept.map(slot).collect()
    }

    /// A format for lines like `text`, with the names of these slots.
    ///
    /// # Errors
    /// What is odd about the text.
    pub fn format(&self, text: &[u8], wanted: &[String]) -> std::result::Result<Format, String> {
        let tokens = |format: &Format| -> Vec<String> {
            self.kept(format, wanted).map(|slot| slot.token.clone()).collect()
        };
        Ok(match Format::guess(text)? {
            Format::MultiSlot(_) => Format::MultiSlot(MultiSlotOptions {
                parse_ins_id: self.parse_ins_id,
                parse_content: self.parse_content,
            }),
            format @ Format::SlotValue(_) => Format::SlotValue(SlotValueOptions {
                tokens: tokens(&format),
                padding: self.padding,
                required: Vec::new(),
            }),
            format @ Format::Criteo(_) => {
                let hash_space = match self.hash_space {
                    0 => CriteoOptions::default().hash_space,
                    space => space,
                };
                Format::Criteo(CriteoOptions { tokens: tokens(&format), hash_space })
            }
            // Never guessed: `Lines::table` is asked first.
            format @ Format::Table(_) => format,
        })
    }

    /// The format of files of columns that a model in this folder was trained on; none where it was
    /// trained on other lines.
    ///
    /// # Errors
    /// When what the training wrote there cannot be read.
    pub fn table(&self, folder: &Path, wanted: &[String]) -> Result<Option<Format>> {
        if !["csv", "libsvm", "libffm"].contains(&self.format.as_str()) {
            return Ok(None);
        }
        let table = Arc::new(Table::new(Learned::read(&folder.join(columns::NAME))?)?);
        let tokens = self.slots.iter().filter(|slot| wanted.contains(&slot.name));
        let tokens = tokens.map(|slot| slot.token.clone()).collect();
        Ok(Some(Format::Table(TableOptions { table, tokens })))
    }

    fn kept(&self, format: &Format, wanted: &[String]) -> impl Iterator<Item = &LineSlot> {
        // The place of a value in a MultiSlot line says what it is: all of them must be there.
        let all = matches!(format, Format::MultiSlot(_));
        self.slots.iter().filter(move |slot| all || wanted.contains(&slot.name))
    }
}

/// Type and shape of each parameter of a program, by name.
pub(super) fn shapes(program: &Program) -> BTreeMap<String, String> {
    let parameters = program.persistables().filter(|var| var.is_parameter());
    parameters.map(|var| (var.name.clone(), format!("{} {:?}", var.dtype, var.shape))).collect()
}

/// What differs between the values of names, in words.
pub(super) fn differences(
    what: &str,
    then: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
) -> Vec<String> {
    let names: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    let differs = names.into_iter().filter(|name| then.get(*name) != now.get(*name));
    let value = |of: &BTreeMap<String, String>, name: &String| {
        of.get(name).cloned().unwrap_or_else(|| "nothing".to_owned())
    };
    let words = |name: &String| {
        format!("{what} `{name}` {} there, {} here", value(then, name), value(now, name))
    };
    differs.map(words).collect()
}

/// The first of some differences.
pub(super) fn listed(mut all: Vec<String>) -> String {
    let more = match all.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    all.truncate(NAMED);
    all.join("; ") + &more
}
