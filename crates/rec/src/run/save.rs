//! Models on disk: saved after each epoch, and read again for a warm start and for inference.

use std::path::{Path, PathBuf};

use bireme_engine::{Scope, io};
use bireme_fleet::{Fleet, SaveMode};

use crate::config::Config;
use crate::zoo::Model;
use crate::{Error, Log, Result};

/// The name of a model for prediction in the folder of its epoch.
pub(super) const INFERENCE: &str = "rec_inference";
/// What servers wrote, in the folder of an epoch.
pub(super) const PERSISTABLES: &str = "persistables";

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

/// Saves the model of an epoch; all trainers call it together. Returns the folder.
///
/// # Errors
/// When it cannot be written, or a server is lost.
pub(super) fn model(
    fleet: &Fleet,
    scope: &Scope,
    names: &Names,
    config: &Config,
    epoch: u64,
) -> Result<PathBuf> {
    let folder = PathBuf::from(config.text("runner.model_save_path")).join(epoch.to_string());
    fn texts(names: &[String]) -> Vec<&str> {
        names.iter().map(String::as_str).collect()
    }
    let (feeds, fetches) = (texts(&names.feeds), texts(&names.fetches));
    fleet.save_inference_model(&folder.join(INFERENCE), &feeds, &fetches, scope)?;
    if fleet.server_num() > 0 {
        // A server starts from these, with the state of the optimizer.
        fleet.save_persistables(&folder.join(PERSISTABLES), scope, SaveMode::All)?;
    }
    Ok(folder)
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

/// Puts the parameters of a saved model into a scope.
///
/// # Errors
/// When there is no model, or it is another one.
pub(super) fn load(folder: &Path, scope: &Scope) -> Result<()> {
    let prefix = folder.join(INFERENCE);
    let prefix = match prefix.with_extension("pdmodel").is_file() {
        true => prefix,
        // A model that another tool saved there.
        false => folder.to_owned(),
    };
    match io::load_inference_model(&prefix, scope) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::file(folder, format!("cannot load the model: {error}"))),
    }
}
