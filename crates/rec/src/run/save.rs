//! Models on disk: saved after each epoch, and read again for a warm start and for inference.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bireme_engine::Scope;
use bireme_engine::io::{self, FileSet};
use bireme_engine::ir::{Program, Var, VarKind};
use bireme_engine::tensor::Tensor;
use bireme_fleet::{Fleet, SaveMode};

use super::description::{self, Description};
use crate::config::Config;
use crate::zoo::Model;
use crate::{Error, Log, Result, pickle};

/// The name of a model for prediction in the folder of its epoch.
const INFERENCE: &str = "rec_inference";
/// The name of parameters and optimizer state there, as `static_trainer.py` writes them.
const STATIC: &str = "rec_static";
/// What servers wrote, in the folder of an epoch.
const PERSISTABLES: &str = "persistables";

/// What a model for prediction is fed and computes.
pub(super) struct Names {
    feeds: Vec<String>,
    fetches: Vec<String>,
}

impl Names {
    /// Those of the configuration, or of the model where it has no such variables.
    pub(super) fn of(config: &Config, model: &Model, log: &Log) -> Names {
        let program = model.graph.main();
        let pick = |key: &str, own: Vec<String>| {
            let names = config.texts(key);
            let missing = names.iter().find(|name| program.global().var(name).is_none());
            match missing {
                _ if names.is_empty() => own,
                None => names,
                Some(missing) => {
                    let place = config.node(key).map(|node| node.place.to_string());
                    log.warn(&format!(
                        "{}: `{key}`: the model has no variable `{missing}`: {} are used instead",
                        place.unwrap_or_default(),
                        own.join(", ")
                    ));
                    own
                }
            }
        };
        Names {
            feeds: pick("runner.save_inference_feed_varnames", model.inference_feeds.clone()),
            fetches: pick(
                "runner.save_inference_fetch_varnames",
                vec![model.prediction.name().to_owned()],
            ),
        }
    }
}

/// Saves the model of an epoch: for prediction and, with `whole`, for training to begin from. All
/// trainers call it together. Returns the folder.
///
/// # Errors
/// When it cannot be written, or a server is lost.
pub(super) fn model(
    fleet: &Fleet,
    scope: &Scope,
    names: &Names,
    config: &Config,
    epoch: u64,
    whole: bool,
) -> Result<PathBuf> {
    let folder = PathBuf::from(config.text("runner.model_save_path")).join(epoch.to_string());
    fn texts(names: &[String]) -> Vec<&str> {
        names.iter().map(String::as_str).collect()
    }
    let (feeds, fetches) = (texts(&names.feeds), texts(&names.fetches));
    fleet.save_inference_model(&folder.join(INFERENCE), &feeds, &fetches, scope)?;
    if !whole {
        return Ok(folder);
    }
    if fleet.server_num() > 0 {
        // A server starts from these, with the state of the optimizer.
        fleet.save_persistables(&folder.join(PERSISTABLES), scope, SaveMode::Full)?;
    } else if fleet.is_first_worker() {
        save_static(&folder, fleet.original_program()?, scope)?;
    }
    Ok(folder)
}

/// Writes parameters, optimizer state and program as Paddle's `static.save` does.
fn save_static(folder: &Path, program: &Program, scope: &Scope) -> Result<()> {
    let mut files = FileSet::begin(folder)?;
    for (extension, parameters) in [("pdparams", true), ("pdopt", false)] {
        let vars = persistables(program).filter(|var| var.is_parameter() == parameters);
        let names = vars.map(|var| var.name.as_str()).filter(|name| scope.contains(name));
        let get = |name: &str| scope.get(name).map_err(std::io::Error::other);
        let name = format!("{STATIC}.{extension}");
        files.write(name, |out| pickle::write(out, names, get))?;
    }
    let name = format!("{STATIC}.pdmodel");
    files.write(name, |out| out.write_all(&program.to_bytes()))?;
    Ok(files.commit()?)
}

fn persistables(program: &Program) -> impl Iterator<Item = &Var> {
    program.persistables().filter(|var| var.kind == VarKind::LodTensor)
}

/// The folder of a model that training begins with, if one is named.
///
/// # Errors
/// When it does not exist.
pub(super) fn warm_start(config: &Config) -> Result<Option<PathBuf>> {
    let named = |key: &'static str| (key, config.text(key));
    let keys = [named("runner.warmup_model_path"), named("runner.model_init_path")];
    let Some((key, path)) = keys.into_iter().find(|(_, path)| !path.is_empty()) else {
        return Ok(None);
    };
    let folder = super::data::existing(config, &path);
    match folder.is_dir() {
        true => Ok(Some(folder)),
        false => Err(config.refuse(key, format!("is `{path}`, which is no folder of a model"))),
    }
}

/// Gives a server the values of a saved model: with the state of the optimizer what servers wrote,
/// and what a training without servers wrote.
///
/// # Errors
/// When there is no model, or it is another one.
pub(super) fn init_server(
    fleet: &mut Fleet,
    folder: &Path,
    description: &Description,
    log: &Log,
) -> Result<()> {
    check_fits(folder, description, log)?;
    log.info(&format!("start load model from {}", folder.display()));
    let of_servers = folder.join(PERSISTABLES);
    if of_servers.is_dir() {
        return Ok(fleet.init_server(Some(&of_servers))?);
    }
    let values = match read_static(folder)? {
        Some(values) => values,
        None if inference_prefix(folder).is_some() => {
            let scope = Scope::new();
            load_inference(folder, &scope)?;
            let value = |name: String| Ok((name.clone(), scope.get(&name)?));
            scope.names().into_iter().map(value).collect::<Result<_>>()?
        }
        // What servers wrote itself, in one of their layouts.
        None => return Ok(fleet.init_server(Some(folder))?),
    };
    let wrong = |error| Error::file(folder, format!("cannot start from this model: {error}"));
    fleet.init_server_from(&values).map_err(wrong)
}

/// Refuses a saved model that is another than `here`, where its folder says what it is.
///
/// # Errors
/// When its name or a parameter differs.
pub(super) fn check_fits(folder: &Path, here: &Description, log: &Log) -> Result<()> {
    let Some(saved) = Description::read(folder)? else { return Ok(()) };
    if let Some(differences) = saved.check_fits(here, folder)? {
        log.warn(&format!("`{}`: the saved model differs: {differences}", folder.display()));
    }
    Ok(())
}

/// Brings the variables of a program to what they were when a model was saved: parameters, and the
/// state of the optimizer where that was saved too. The learning rate stays the configuration's.
///
/// # Errors
/// When there is no model, or it is another one.
pub(super) fn load(folder: &Path, program: &Program, scope: &Scope, log: &Log) -> Result<()> {
    log.info(&format!("start load model from {}", folder.display()));
    let Some(mut values) = read_static(folder)? else { return load_inference(folder, scope) };
    let wrong = |problem: String| Error::file(folder, format!("cannot load the model: {problem}"));
    let mut fresh = Vec::new();
    let mut found = Vec::new();
    for var in persistables(program) {
        let name = &var.name;
        if !var.is_parameter() && name.starts_with("learning_rate") {
            continue;
        }
        let Some(mut value) = values.remove(name) else {
            match var.is_parameter() {
                true => return Err(wrong(format!("it has no `{name}`"))),
                false => fresh.push(name.as_str()),
            }
            continue;
        };
        let here = scope.get(name)?;
        if value.numel() == 1 && here.numel() == 1 {
            // Paddle's versions differ in whether one number has a dimension.
            value.reshape(here.dims())?;
        }
        if (value.dims().to_vec(), value.dtype()) != (here.dims().to_vec(), here.dtype()) {
            let shape =
                |tensor: &Tensor| format!("{} {:?}", tensor.dtype(), tensor.dims().to_vec());
            return Err(wrong(format!("`{name}` is {}, not {}", shape(&value), shape(&here))));
        }
        found.push((name, value));
    }
    // Only when all of it fits.
    for (name, value) in found {
        scope.try_set(name, &value)?;
    }
    if !fresh.is_empty() {
        log.warn(&format!(
            "{} variables that are no parameters, `{}` among them, are not in the saved model and \
             start afresh",
            fresh.len(),
            fresh[0]
        ));
    }
    Ok(())
}

/// Puts the parameters of a saved model into a scope, for inference.
///
/// # Errors
/// When there is no model, or it is another one.
pub(super) fn load_parameters(folder: &Path, program: &Program, scope: &Scope) -> Result<()> {
    let wanted: Vec<&Var> = persistables(program).filter(|var| var.is_parameter()).collect();
    // What the training saved for itself is complete; a model for prediction lacks what it does not
    // need.
    let values = match read_static(folder)? {
        Some(values) => values,
        None => {
            let saved = Scope::new();
            load_inference(folder, &saved)?;
            let value = |name: String| Ok((name.clone(), saved.get(&name)?));
            saved.names().into_iter().map(value).collect::<Result<_>>()?
        }
    };
    let shape = |value: &Tensor| format!("{} {:?}", value.dtype(), value.dims().to_vec());
    let (mut then, mut now) = (BTreeMap::new(), BTreeMap::new());
    for var in &wanted {
        now.insert(var.name.clone(), shape(&scope.get(&var.name)?));
        then.extend(values.get(&var.name).map(|value| (var.name.clone(), shape(value))));
    }
    let differences = description::differences("parameter", &then, &now);
    if !differences.is_empty() {
        let differences = description::listed(differences);
        return Err(Error::file(folder, format!("cannot load the model: {differences}")));
    }
    for var in wanted {
        scope.try_set(&var.name, &values[&var.name])?;
    }
    Ok(())
}

fn inference_prefix(folder: &Path) -> Option<PathBuf> {
    let prefix = folder.join(INFERENCE);
    prefix.with_extension("pdmodel").is_file().then_some(prefix)
}

fn load_inference(folder: &Path, scope: &Scope) -> Result<()> {
    // Without ours, a model that another tool saved there.
    let prefix = inference_prefix(folder).unwrap_or_else(|| folder.to_owned());
    match io::load_inference_model(&prefix, scope) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::file(folder, format!("cannot load the model: {error}"))),
    }
}

/// What `static.save` wrote, by name; none where it has not been.
fn read_static(folder: &Path) -> Result<Option<BTreeMap<String, Tensor>>> {
    let read = |extension: &str| -> Result<Option<BTreeMap<String, Tensor>>> {
        let path = folder.join(format!("{STATIC}.{extension}"));
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::file(&path, error)),
        };
        let values = pickle::read(&bytes);
        values.map(Some).map_err(|problem| Error::file(&path, problem))
    };
    let Some(mut values) = read("pdparams")? else { return Ok(None) };
    values.extend(read("pdopt")?.unwrap_or_default());
    Ok(Some(values))
}
