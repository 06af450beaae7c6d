//! Models for inference: a program that says what goes in and out, and its parameters.
//!
//! Two layouts. `X.pdmodel` with `X.pdiparams` (Paddle 2.x), and a folder with `__model__` and
//! either one file per parameter or a common one (Paddle 1.x). Both are read; a program is checked
//! against the engine's ops before its parameters are looked at.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use bireme_ir::{FetchStyle, MAX_PROGRAM_BYTES, Program};

use super::files::FileSet;
use super::persistables::{check_held, read_vars, select, write_vars};
use crate::catalog::check;
use crate::{Error, Result, Scope};

/// The program's file in the layout of Paddle 1.x.
const MODEL: &str = "__model__";
/// The usual name of a common parameter file beside it.
const PARAMS: &str = "__params__";
const PROGRAM_SUFFIX: &str = ".pdmodel";
const PARAMS_SUFFIX: &str = ".pdiparams";

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
    let files = find(path.as_ref())?;
    load(&files.program, scope, |vars| match &files.params {
        Params::Common(path) => (folder_of(path), path.file_name().map(PathBuf::from)),
        Params::Beside => {
            let folder = folder_of(&files.program);
            let common = folder.join(PARAMS);
            let own = vars.iter().any(|name| folder.join(name).exists());
            let filename = (!own && common.is_file()).then(|| PathBuf::from(PARAMS));
            (folder, filename)
        }
    })
}

/// Loads a model of Paddle 1.x's layout whose files have other names than usual; see
/// [`save_inference_model_dir`].
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
    load(&program, scope, |_| (dir.to_owned(), params_filename.map(PathBuf::from)))
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
    files.write(model, |out| out.write_all(&program.to_bytes()))?;
    // Paddle writes no parameter file for a program without parameters.
    if !vars.is_empty() {
        write_vars(&mut files, &vars, scope, params)?;
    }
    files.commit()
}

/// Reads program and parameters; `place` tells folder and common file of the latter.
fn load(
    path: &Path,
    scope: &Scope,
    place: impl FnOnce(&[&str]) -> (PathBuf, Option<PathBuf>),
) -> Result<InferenceModel> {
    let program = read_program(path)?;
    let (feeds, fetches) = (program.feed_names(), program.fetch_names());
    check_targets(&program, &feeds, &fetches).map_err(|problem| Error::file(path, problem))?;
    let model = InferenceModel { program, feeds, fetches };
    let vars = select(&model.program, |_| true);
    if !vars.is_empty() {
        let names: Vec<&str> = vars.keys().copied().collect();
        let (folder, filename) = place(&names);
        read_vars(&folder, &vars, scope, filename.as_deref())?;
    }
    Ok(model)
}

fn read_program(path: &Path) -> Result<Program> {
    let failed = |error: std::io::Error| Error::file(path, format!("cannot read it: {error}"));
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_PROGRAM_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
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

/// Where a model's files are.
struct Files {
    program: PathBuf,
    params: Params,
}

enum Params {
    /// In this one file.
    Common(PathBuf),
    /// In the folder of the program, as Paddle 1.x leaves them.
    Beside,
}

impl Files {
    /// The two files that share `prefix`.
    fn of(prefix: &Path) -> Files {
        let params = Params::Common(with_suffix(prefix, PARAMS_SUFFIX));
        Files { program: with_suffix(prefix, PROGRAM_SUFFIX), params }
    }
}

fn find(path: &Path) -> Result<Files> {
    if let Some(prefix) = path.to_str().and_then(|path| path.strip_suffix(PROGRAM_SUFFIX)) {
        return Ok(Files::of(Path::new(prefix)));
    }
    let files = Files::of(path);
    if files.program.is_file() {
        return Ok(files);
    }
    if path.is_file() {
        return Ok(Files { program: path.to_owned(), params: Params::Beside });
    }
    let program = path.join(MODEL);
    if program.is_file() {
        return Ok(Files { program, params: Params::Beside });
    }
    find_in_folder(path)
}

/// The only `.pdmodel` of a folder.
fn find_in_folder(folder: &Path) -> Result<Files> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut prefixes: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(PROGRAM_SUFFIX)?.to_owned())).collect();
    prefixes.sort();
    match &prefixes[..] {
        [prefix] => Ok(Files::of(&folder.join(prefix))),
        [] => {
            let problem = format!(
                "no model there: looked for `{}` and for `{}` or a `{PROGRAM_SUFFIX}` file inside",
                with_suffix(folder, PROGRAM_SUFFIX).display(),
                folder.join(MODEL).display(),
            );
            Err(Error::file(folder, problem))
        }
        several => {
            let problem = format!("it holds several models: name one of {}", several.join(", "));
            Err(Error::file(folder, problem))
        }
    }
}

/// `path` with `suffix` appended; other than `with_extension`, this keeps dots in names.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    PathBuf::from(path)
}

fn folder_of(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).to_owned()
}

#[cfg(test)]
mod tests;
