//! Files of columns: what the group `data:` says of them, what is learned of them before training,
//! and what follows for a model.
//!
//! The first process of a job that comes learns and writes `data.json` beside the models; the others
//! wait for it and read that. Inference, prediction and `--resume` read it, so that a cell always
//! means the same.

mod settings;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bireme_data::parse::{Format, TableOptions};
use bireme_data::table::{
    Becomes, DENSE, FileMark, IDS, LABEL, Learned, Rule, Settings, Table, WEIGHT, learn,
};
use bireme_data::{Kind, Slot};

use super::data::{self, Purpose};
use super::{Options, save};
use crate::config::{Config, Hyper};
use crate::zoo::{self, Model};
use crate::{Error, Log, Result};

/// The file, in the folder of the models and in that of each epoch.
pub const NAME: &str = "data.json";
/// Who holds it learns.
const LOCK: &str = ".data.lock";
/// How often the pass over the data says how far it is.
const EVERY: Duration = Duration::from_secs(5);

/// The columns of a configuration, without a look at files: none if it has no such group.
///
/// # Errors
/// When the group says what cannot be.
pub fn settings(config: &Config) -> Result<Option<Settings>> {
    settings::of(config)
}

/// What a training makes of its columns. All processes of a job call it; one learns.
///
/// # Errors
/// When the group says what cannot be, files cannot be read, or training goes on with other columns.
pub(super) fn for_training(
    config: &Config,
    options: &Options,
    goes_on: bool,
) -> Result<Option<Arc<Table>>> {
    let Some(settings) = settings::of(config)? else { return Ok(None) };
    if options.input.is_some() {
        return Err(Error::Settings(
            "`data` describes files, and the samples of this training are given".into(),
        ));
    }
    let folder = PathBuf::from(config.text("runner.model_save_path"));
    std::fs::create_dir_all(&folder).map_err(|error| Error::file(&folder, error))?;
    let path = folder.join(NAME);
    let lock = File::create(folder.join(LOCK)).map_err(|error| Error::file(&folder, error))?;
    match lock.lock() {
        // A file system without locks has them all learn, and get the same.
        Err(error) if error.kind() != std::io::ErrorKind::Unsupported => {
            return Err(Error::file(folder.join(LOCK), error));
        }
        _ => {}
    }
    let learned = match save::warm_start(config)?.map(|folder| folder.join(NAME)) {
        Some(of_model) if of_model.is_file() => Some(checked(&of_model, &settings)?),
        _ => earlier(config, &path, &settings, goes_on)?,
    };
    let learned = match learned {
        Some(learned) => learned,
        None => {
            if path.is_file() && goes_on {
                options.log.warn("columns are learned anew");
            }
            let learned = fresh(config, options, settings)?;
            say(&learned, &path, &options.log);
            learned
        }
    };
    if !path.is_file() || Learned::read(&path)? != learned {
        learned.write(&path)?;
    }
    Ok(Some(Arc::new(Table::new(learned)?)))
}

/// What a configuration makes of its columns: as its training learned it, else as these files say.
///
/// # Errors
/// When the group says what cannot be, or files cannot be read.
pub fn table(config: &Config, files: &[PathBuf], log: &Log) -> Result<Option<Arc<Table>>> {
    let Some(settings) = settings::of(config)? else { return Ok(None) };
    let path = PathBuf::from(config.text("runner.model_save_path")).join(NAME);
    let of_training = Learned::read(&path).ok().filter(|learned| learned.settings == settings);
    let learned = match of_training {
        Some(learned) => {
            log.info(&format!("columns become what {} says", path.display()));
            learned
        }
        None if settings.must_learn() => {
            let tolerated = config.count("runner.skip_bad_lines") as u64;
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            learn(&settings, files, tolerated, threads, &|_| true)?
        }
        None => Learned::without_data(settings),
    };
    Ok(Some(Arc::new(Table::new(learned)?)))
}

/// The slots of a table by the names that click models have in `slot:value` lines, and the format that
/// reads them.
pub fn slots(table: &Arc<Table>) -> (Vec<Slot>, Format) {
    let settings = &table.learned().settings;
    let (mut slots, mut tokens) = (vec![Slot::id("click")], vec![LABEL.to_owned()]);
    for (at, (_, feature)) in settings.sparse().enumerate() {
        let name = (at + 1).to_string();
        slots.push(match feature.rule {
            Rule::List(..) => Slot::ids(name),
            _ => Slot::id(name),
        });
        tokens.push(format!("{IDS}{at}"));
    }
    if settings.dense() > 0 {
        slots.push(Slot::floats("dense_feature", settings.dense()));
        tokens.push(DENSE.to_owned());
    }
    if settings.weight.is_some() {
        slots.push(Slot::floats("sample_weight", 1));
        tokens.push(WEIGHT.to_owned());
    }
    (slots, Format::Table(TableOptions { table: Arc::clone(table), tokens }))
}

/// What is known of the columns of the models that a configuration evaluates.
///
/// # Errors
/// When there is none, or it is of other columns.
pub(super) fn for_infer(config: &Config) -> Result<Option<Arc<Table>>> {
    let Some(settings) = settings::of(config)? else { return Ok(None) };
    let models = data::existing(config, &config.text("runner.infer_load_path"));
    let epoch = models.join(config.count("runner.infer_start_epoch").to_string());
    let found = [epoch.join(NAME), models.join(NAME)].into_iter().find(|path| path.is_file());
    let Some(path) = found else {
        let problem =
            format!("is a folder without `{NAME}`, which training with `data` writes there");
        return Err(config.refuse("runner.infer_load_path", problem));
    };
    Ok(Some(Arc::new(Table::new(checked(&path, &settings)?)?)))
}

/// What a file says, if it is of these columns.
fn checked(path: &Path, settings: &Settings) -> Result<Learned> {
    let learned = Learned::read(path)?;
    match differs(&learned.settings, settings) {
        None => Ok(learned),
        Some(what) => Err(Error::file(
            path,
            format!(
                "it was learned with another group `data` ({what}): set it as it was, or train anew"
            ),
        )),
    }
}

/// What was learned before: by another process of this job or by a training before it, of the same
/// columns and, unless training goes on, of the same files.
fn earlier(
    config: &Config,
    path: &Path,
    settings: &Settings,
    goes_on: bool,
) -> Result<Option<Learned>> {
    if !path.is_file() {
        return Ok(None);
    }
    if goes_on {
        return checked(path, settings).map(Some);
    }
    // A file that an older version wrote is written anew.
    let Ok(learned) = Learned::read(path) else { return Ok(None) };
    if learned.settings != *settings {
        return Ok(None);
    }
    if !settings.must_learn() {
        return Ok(Some(learned));
    }
    let files = data::files(config, Purpose::Train)?;
    let marks = files.iter().map(|file| FileMark::of(file));
    let marks = marks.collect::<bireme_data::Result<Vec<_>>>()?;
    Ok((marks == learned.files).then_some(learned))
}

/// What the training files say.
fn fresh(config: &Config, options: &Options, settings: Settings) -> Result<Learned> {
    if !settings.must_learn() {
        return Ok(Learned::without_data(settings));
    }
    let files = data::files(config, Purpose::Train)?;
    let tolerated = options.skip_bad_lines.unwrap_or(config.count("runner.skip_bad_lines") as u64);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (count, log) = (files.len(), &options.log);
    log.info(&format!("learns the columns of {count} files, before training"));
    let said = Mutex::new(Instant::now());
    let on_samples = |samples: u64| {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.elapsed() >= EVERY {
            *said = Instant::now();
            log.info(&format!("learns the columns: {samples} samples"));
        }
        !options.interrupt.as_ref().is_some_and(|asked| asked())
    };
    Ok(learn(&settings, &files, tolerated, threads, &on_samples)?)
}

/// The first thing that two settings have different.
fn differs(then: &Settings, now: &Settings) -> Option<String> {
    if then == now {
        return None;
    }
    let columns = |settings: &Settings, is_sparse: bool| {
        let own = settings.features.iter().filter(|f| f.rule.is_sparse() == is_sparse);
        own.map(|feature| feature.column.clone()).collect::<Vec<_>>().join(", ")
    };
    for (what, is_sparse) in [("columns of ids", true), ("columns of numbers", false)] {
        let (then, now) = (columns(then, is_sparse), columns(now, is_sparse));
        if then != now {
            return Some(format!("{what}: {then} there, {now} here"));
        }
    }
    let mut features = then.features.iter().zip(&now.features);
    Some(match features.find(|(then, now)| then != now) {
        Some((feature, _)) => format!("what becomes of column {}", feature.column),
        None if then.label != now.label => "the label".to_owned(),
        None if then.layout != now.layout => "how a line is written".to_owned(),
        None => "weight, missing values or hash buckets".to_owned(),
    })
}

/// Says what was learned, in a line.
fn say(learned: &Learned, path: &Path, log: &Log) {
    let mut words = 0;
    for facts in &learned.columns {
        if let Becomes::Vocabulary { words: own, rare, .. } = &facts.becomes {
            words += own.len();
            if own.is_empty() && *rare > 0 {
                log.warn(&format!(
                    "no word of column `{}` is there `data.min_count` times: all have one id",
                    facts.column
                ));
            }
        }
    }
    let (sparse, dense) = (learned.settings.sparse().count(), learned.settings.dense());
    let samples = match learned.samples {
        0 => String::new(),
        samples => format!(
            ", learned from {samples} samples ({:.2}% positive)",
            100.0 * learned.positive as f64 / samples as f64
        ),
    };
    let words = if words > 0 { format!(" ({words} words)") } else { String::new() };
    log.info(&format!(
        "{sparse} columns of ids{words} and {dense} of numbers make {} rows of a table{samples}: {}",
        learned.rows(),
        path.display()
    ));
}

/// Tells hyper parameters what follows from the columns.
///
/// # Errors
/// When the configuration says something else.
pub(super) fn follow(table: &Table, hyper: &mut Hyper) -> Result<()> {
    let learned = table.learned();
    let settings = &learned.settings;
    let sparse: Vec<_> = settings.sparse().collect();
    let count = |count: usize| count as i64;
    hyper.follow("sparse_inputs_slots", count(sparse.len() + 1))?;
    hyper.follow("dense_input_dim", count(settings.dense()))?;
    for key in ["sparse_feature_number", "feature_number"] {
        hyper.follow_at_least(key, i64::try_from(learned.rows()).unwrap_or(i64::MAX))?;
    }
    let lists = sparse.iter().enumerate();
    let lists = lists.filter(|(_, (_, feature))| matches!(feature.rule, Rule::List(..)));
    let lists: Vec<i64> = lists.map(|(slot, _)| count(slot + 1)).collect();
    if !lists.is_empty() {
        hyper.follow_list("multi_slots", &lists)?;
    }
    if settings.weight.is_some() {
        hyper.follow_switch("sample_weight", true)?;
    }
    Ok(())
}

/// The format of a model that is fed by a table.
///
/// # Errors
/// When the model takes other slots.
pub(super) fn format(
    table: &Arc<Table>,
    hyper: &Hyper,
    name: &str,
    model: &Model,
) -> Result<Format> {
    if !hyper.asked().any(|key| key == "sparse_inputs_slots") {
        let takes = |entry: &&zoo::Entry| {
            let mut hyper = Hyper::default();
            (entry.build)(&mut hyper).is_ok()
                && hyper.asked().any(|key| key == "sparse_inputs_slots")
        };
        let names: Vec<&str> = zoo::entries().iter().filter(takes).map(|e| e.name).collect();
        return Err(Error::Settings(format!(
            "model `{name}` has slots of its own, and `data` describes columns of ids, numbers and \
             one label: use {}",
            names.join(", ")
        )));
    }
    let mut ids = 0;
    let token = |slot: &Slot| {
        let is_fed = model.inference_feeds.contains(&slot.name);
        match (is_fed, slot.kind) {
            (false, Kind::Ids) => LABEL.to_owned(),
            (false, Kind::Floats) => WEIGHT.to_owned(),
            (true, Kind::Floats) => DENSE.to_owned(),
            (true, Kind::Ids) => {
                ids += 1;
                format!("{IDS}{}", ids - 1)
            }
        }
    };
    let tokens = model.slots.iter().map(token).collect();
    Ok(Format::Table(TableOptions { table: Arc::clone(table), tokens }))
}

/// Writes what was learned into the folder of a saved model.
///
/// # Errors
/// When it cannot be written.
pub(super) fn write(format: &Format, folder: &Path) -> Result<()> {
    match format {
        Format::Table(options) => Ok(options.table.learned().write(&folder.join(NAME))?),
        _ => Ok(()),
    }
}
