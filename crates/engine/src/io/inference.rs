//! Models for inference: a program that says what goes in and out, and its parameters.
//!
//! Two layouts. `X.pdmodel` with `X.pdiparams` (Paddle 2.x), and a folder with `__model__` and
//! either one file per parameter or a common one (Paddle 1.x). Both are read; a program is checked
//! against the engine's ops before its parameters are looked at.

use std::path::{Path, PathBuf};

use bireme_ir::{FetchStyle, Program};

use super::files::FileSet;
use super::find::{MODEL, ModelFiles, PARAMS, PARAMS_SUFFIX, PROGRAM_SUFFIX, find_model, is_file};
use super::persistables::{check_held, read_vars, select, write_vars};
use crate::catalog::check;
use crate::catalog::name_all_inputs;
use crate::{Error, Result, Scope};

/// A loaded model; its parameters are in the scope it was loaded into.
#[derive(Clone, Debug, PartialEq)]
pub struct InferenceModel {
    /// What to run.
    pub program: Program,
    /// The variables to feed, in order.
    pub feeds: Vec<String>,
    /// The variables to fetch, in order.
    pub fetches: Vec<String>,
}

/// Saves the part of `program` that computes `fetches` from `feeds`, with its parameters, as
/// `prefix.pdmodel` and `prefix.pdiparams`.
///
/// # Errors
/// When the feeds do not suffice, a parameter has no value, or the files cannot be written;
/// nothing is then changed.
pub fn save_inference_model(
    prefix: impl AsRef<Path>,
    feeds: &[&str],
    fetches: &[&str],
    program: &Program,
    scope: &Scope,
) -> Result<()> {
    let prefix = prefix.as_ref();
    let Some(name) = prefix.file_name().and_then(|name| name.to_str()) else {
        return Err(Error::file(prefix, "it does not end in a name for the model's files"));
    };
    let program = program.inference_program(feeds, fetches, FetchStyle::Scaled)?;
    let folder = prefix.parent().unwrap_or(Path::new(""));
    let model = format!("{name}{PROGRAM_SUFFIX}");
    save(folder, &program, scope, &model, Some(&format!("{name}{PARAMS_SUFFIX}")))
}

/// Saves the same in the layout of Paddle 1.x: a folder with the program in `model_filename`
/// (`__model__`) and the parameters in `params_filename`, or in one file each.
///
/// # Errors
/// As [`save_inference_model`].
pub fn save_inference_model_dir(
    dir: impl AsRef<Path>,
    feeds: &[&str],
    fetches: &[&str],
    program: &Program,
    scope: &Scope,
    model_filename: Option<&str>,
    params_filename: Option<&str>,
) -> Result<()> {
    let program = program.inference_program(feeds, fetches, FetchStyle::Plain)?;
    save(dir.as_ref(), &program, scope, model_filename.unwrap_or(MODEL), params_filename)
}

/// Loads a model and puts its parameters into `scope`. `path` is the common prefix of the two
/// files, the `.pdmodel` file, or a folder that holds one model in either layout.
///
/// # Errors
/// When there is no model, a file is damaged, the program has an op or attribute that the engine
/// does not know, or the parameters do not fit it; the scope is then unchanged.
pub fn load_inference_model(path: impl AsRef<Path>, scope: &Scope) -> Result<InferenceModel> {
    load(&find_model(path)?, scope)
}

/// Loads a model of Paddle 1.x's layout whose files have other names than usual; see
/// [`save_inference_model_dir`]. Without `params_filename` the parameters are in one file each, or
/// all in `__params__`.
///
/// # Errors
/// As [`load_inference_model`].
pub fn load_inference_model_dir(
    dir: impl AsRef<Path>,
    scope: &Scope,
    model_filename: Option<&str>,
    params_filename: Option<&str>,
) -> Result<InferenceModel> {
    let dir = dir.as_ref();
    let program = dir.join(model_filename.unwrap_or(MODEL));
    load(&ModelFiles { program, params: params_filename.map(|name| dir.join(name)) }, scope)
}

fn save(
    folder: &Path,
    program: &Program,
    scope: &Scope,
    model: &str,
    params: Option<&str>,
) -> Result<()> {
    let vars = select(program, |_| true);
    check_held(&vars, scope)?;
    if params.map_or_else(|| vars.contains_key(model), |params| params == model) {
        return Err(Error::file(folder.join(model), "it cannot hold both program and parameters"));
    }
    let mut files = FileSet::begin(folder)?;
    let mut program = program.clone();
    name_all_inputs(&mut program);
    files.write(model, |out| out.write_all(&program.to_bytes()))?;
    // Paddle writes no parameter file for a program without parameters.
    if !vars.is_empty() {
        write_vars(&mut files, &vars, scope, params)?;
    }
    files.commit()
}

fn load(files: &ModelFiles, scope: &Scope) -> Result<InferenceModel> {
    let path = files.program.as_path();
    let program = read_program(files)?;
    let (feeds, fetches) = (program.feed_names(), program.fetch_names());
    check_targets(&program, &feeds, &fetches).map_err(|problem| Error::file(path, problem))?;
    let model = InferenceModel { program, feeds, fetches };
    let vars = select(&model.program, |_| true);
    if !vars.is_empty() {
        let folder = folder_of(path);
        match &files.params {
            Some(common) => read_vars(Path::new(""), &vars, scope, Some(common))?,
            None => {
                let common = params_beside(&folder, vars.keys().copied())?;
                read_vars(&folder, &vars, scope, common)?;
            }
        }
    }
    Ok(model)
}

/// The common parameter file of a folder; `None` when each parameter has its own.
///
/// Where both are, one of them was left by an earlier save, and nothing tells which.
fn params_beside<'n>(
    folder: &Path,
    mut vars: impl Iterator<Item = &'n str>,
) -> Result<Option<&'static Path>> {
    if !is_file(&folder.join(PARAMS))? {
        return Ok(None);
    }
    match vars.find(|name| folder.join(name).is_file()) {
        None => Ok(Some(Path::new(PARAMS))),
        Some(own) => {
            let problem = format!(
                "it holds parameters twice, in `{PARAMS}` and in a file for each (`{own}`): remove \
                 those that are out of date, or name the common file"
            );
            Err(Error::file(folder, problem))
        }
    }
}

fn read_program(files: &ModelFiles) -> Result<Program> {
    let path = &files.program;
    let bytes = files.program_bytes()?;
    let program = Program::from_bytes(&bytes).map_err(|error| Error::file(path, error))?;
    let feeds = program.feed_names();
    let feeds: Vec<&str> = feeds.iter().map(String::as_str).collect();
    check(&program, &feeds).map_err(|error| Error::file(path, error))?;
    Ok(program)
}

fn check_targets(
    program: &Program,
    feeds: &[String],
    fetches: &[String],
) -> std::result::Result<(), String> {
    if fetches.is_empty() {
        return Err(
            "the program has no `fetch` ops, so it is not one for inference: save it with \
                    `save_inference_model`"
                .to_owned(),
        );
    }
    let mut names = feeds.iter().chain(fetches);
    match names.find(|name| program.global().var(name).is_none()) {
        None => Ok(()),
        Some(name) => Err(format!("it feeds or fetches `{name}`, which it does not declare")),
    }
}

fn folder_of(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).to_owned()
}

#[cfg(test)]
mod tests;
