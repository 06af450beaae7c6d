//! Where a model's files are: what users write for a model, and what is there.
//!
//! A file that cannot be looked at is an error of its own: it is not "no model there".

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use bireme_ir::MAX_PROGRAM_BYTES;

use crate::{Error, Result};

/// The program's file in the layout of Paddle 1.x.
pub(super) const MODEL: &str = "__model__";
/// The usual name of a common parameter file beside it.
pub(super) const PARAMS: &str = "__params__";
pub(super) const PROGRAM_SUFFIX: &str = ".pdmodel";
pub(super) const PARAMS_SUFFIX: &str = ".pdiparams";

/// Where a model's files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFiles {
    /// The program.
    pub program: PathBuf,
    /// The common file of the parameters, whether it exists or not; `None` when they lie in the
    /// folder of the program as Paddle 1.x leaves them.
    pub params: Option<PathBuf>,
}

impl ModelFiles {
    /// The two files that share `prefix`.
    fn of(prefix: &Path) -> ModelFiles {
        let params = Some(with_suffix(prefix, PARAMS_SUFFIX));
        ModelFiles { program: with_suffix(prefix, PROGRAM_SUFFIX), params }
    }

    /// The bytes of the program's file; of one that is longer than any program, the first
    /// [`MAX_PROGRAM_BYTES`] and one more, which `Program::from_bytes` refuses.
    ///
    /// # Errors
    /// When the file cannot be read or is empty.
    pub fn program_bytes(&self) -> Result<Vec<u8>> {
        let path = &self.program;
        let failed = |error: std::io::Error| Error::file(path, format!("cannot read it: {error}"));
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(failed)?;
        file.take(MAX_PROGRAM_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.is_empty() {
            return Err(Error::file(path, "the file is empty"));
        }
        Ok(bytes)
    }
}

/// Finds a model. `path` is the common prefix of its two files, the file of its program, or a
/// folder that holds one model: `__model__`, or one `.pdmodel` file.
///
/// # Errors
/// When there is none, there are several, or a file or folder cannot be looked at.
pub fn find_model(path: impl AsRef<Path>) -> Result<ModelFiles> {
    let path = path.as_ref();
    if let Some(prefix) = path.to_str().and_then(|path| path.strip_suffix(PROGRAM_SUFFIX)) {
        return Ok(ModelFiles::of(Path::new(prefix)));
    }
    let files = ModelFiles::of(path);
    if is_file(&files.program)? {
        return Ok(files);
    }
    if is_file(path)? {
        return Ok(ModelFiles { program: path.to_owned(), params: None });
    }
    find_in_folder(path)
}

/// Whether a file is there; that it is not is no error, that it cannot be looked at is one.
pub(super) fn is_file(path: &Path) -> Result<bool> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_file()),
        Err(error) if is_absence(error.kind()) => Ok(false),
        Err(error) => Err(Error::file(path, format!("cannot look there: {error}"))),
    }
}

fn is_absence(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// The only model of a folder.
fn find_in_folder(folder: &Path) -> Result<ModelFiles> {
    let program = folder.join(MODEL);
    let plain = is_file(&program)?;
    let mut models = prefixes(folder)?;
    if plain {
        models.push(MODEL.to_owned());
    }
    models.sort();
    match &models[..] {
        [_] if plain => Ok(ModelFiles { program, params: None }),
        [prefix] => Ok(ModelFiles::of(&folder.join(prefix))),
        [] => {
            let problem = format!(
                "no model there: looked for `{}` and for `{}` or a `{PROGRAM_SUFFIX}` file inside",
                with_suffix(folder, PROGRAM_SUFFIX).display(),
                program.display(),
            );
            Err(Error::file(folder, problem))
        }
        several => {
            let problem = format!("it holds several models: name one of {}", several.join(", "));
            Err(Error::file(folder, problem))
        }
    }
}

/// The names of the `.pdmodel` files of a folder, without that ending.
fn prefixes(folder: &Path) -> Result<Vec<String>> {
    let failed = |error| Error::file(folder, format!("cannot look there: {error}"));
    let entries = match fs::read_dir(folder) {
        Err(error) if is_absence(error.kind()) => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut prefixes = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        prefixes.extend(
            name.to_str().and_then(|name| name.strip_suffix(PROGRAM_SUFFIX)).map(str::to_owned),
        );
    }
    Ok(prefixes)
}

/// `path` with `suffix` appended; other than `with_extension`, this keeps dots in names.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    PathBuf::from(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_found_by_what_users_write() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for folder in ["old", "new", "both"] {
            fs::create_dir(at(folder)).unwrap();
        }
        for file in ["old/__model__", "new/m.v1.pdmodel", "both/__model__", "both/m.pdmodel"] {
            fs::write(at(file), "p").unwrap();
        }
        let old = ModelFiles { program: at("old/__model__"), params: None };
        for path in ["old", "old/__model__"] {
            assert_eq!(find_model(at(path)).unwrap(), old);
        }
        let new =
            ModelFiles { program: at("new/m.v1.pdmodel"), params: Some(at("new/m.v1.pdiparams")) };
        for path in ["new", "new/m.v1", "new/m.v1.pdmodel"] {
            assert_eq!(find_model(at(path)).unwrap(), new);
        }
        assert_eq!(new.program_bytes().unwrap(), b"p");
        let error = find_model(at("both")).unwrap_err().to_string();
        assert!(error.ends_with("several models: name one of __model__, m"), "{error}");
        assert_eq!(find_model(at("both/__model__")).unwrap().params, None);
    }

    #[test]
    fn what_cannot_be_looked_at_is_not_called_absent() {
        let dir = tempfile::tempdir().unwrap();
        let error = find_model(dir.path().join("none/model")).unwrap_err().to_string();
        assert!(error.contains("no model there"), "{error}");
        // No file system has such names; permissions do not stop the superuser.
        let error = find_model(dir.path().join("x".repeat(5000))).unwrap_err().to_string();
        assert!(error.contains("cannot look there") && !error.contains("no model"), "{error}");
    }

    #[test]
    fn an_empty_file_is_called_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.pdmodel");
        fs::write(&path, "").unwrap();
        let error = find_model(&path).unwrap().program_bytes().unwrap_err().to_string();
        assert!(error.ends_with("the file is empty"), "{error}");
    }
}
