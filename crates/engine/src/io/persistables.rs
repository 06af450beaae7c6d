//! Variables of a program to and from files: one file each, or all in one.
//!
//! One file each is named as its variable. A common file holds the records one after another in
//! ascending order of names, and no names: the program says what is in it. Loading checks type and
//! shape against the program, and changes the scope only when everything has been read.

use std::collections::BTreeMap;
use std::path::Path;

use bireme_ir::{Program, Var, VarKind};

use super::files::{FileSet, check_inside};
use super::stream::{TensorReader, write_tensor};
use crate::tensor::Tensor;
use crate::{Error, Result, Scope, Value};

/// Saves every variable of `program` that outlives a run: into the file `filename` of `dir`, or
/// into one file each.
///
/// # Errors
/// When a variable has no value, or the files cannot be written; nothing is then changed.
pub fn save_persistables(
    dir: impl AsRef<Path>,
    program: &Program,
    scope: &Scope,
    filename: Option<&str>,
) -> Result<()> {
    save_vars(dir, program, scope, filename, |_| true)
}

/// Loads what [`save_persistables`] saved.
///
/// # Errors
/// When a file is missing or damaged, or does not fit the program, or a step runs on the scope; the
/// scope is then unchanged.
pub fn load_persistables(
    dir: impl AsRef<Path>,
    program: &Program,
    scope: &Scope,
    filename: Option<&str>,
) -> Result<()> {
    load_vars(dir, program, scope, filename, |_| true)
}

/// Saves the parameters of `program`: no optimizer state, no metrics.
///
/// # Errors
/// As [`save_persistables`].
pub fn save_params(
    dir: impl AsRef<Path>,
    program: &Program,
    scope: &Scope,
    filename: Option<&str>,
) -> Result<()> {
    save_vars(dir, program, scope, filename, Var::is_parameter)
}

/// Loads what [`save_params`] saved.
///
/// # Errors
/// As [`load_persistables`].
pub fn load_params(
    dir: impl AsRef<Path>,
    program: &Program,
    scope: &Scope,
    filename: Option<&str>,
) -> Result<()> {
    load_vars(dir, program, scope, filename, Var::is_parameter)
}

/// Saves those persistable variables that `keep` wants.
///
/// # Errors
/// As [`save_persistables`].
pub fn save_vars(
    dir: impl AsRef<Path>,
    program: &Program,
    scope: &Scope,
    filename: Option<&str>,
    keep: impl Fn(&Var) -> bool,
) -> Result<()> {
    let vars = select(program, keep);
    check_held(&vars, scope)?;
    let mut files = FileSet::begin(dir)?;
    write_vars(&mut files, &vars, scope, filename)?;
    files.commit()
}

/// Loads those persistable variables that `keep` wants; a common file must hold exactly these.
///
/// # Errors
/// As [`load_persistables`].
pub fn load_vars(
    dir: impl AsRef<Path>,
    program: &Program,
    scope: &Scope,
    filename: Option<&str>,
    keep: impl Fn(&Var) -> bool,
) -> Result<()> {
    read_vars(dir.as_ref(), &select(program, keep), scope, filename.map(Path::new))
}

/// Persistable variables by name.
pub(super) type Selected<'p> = BTreeMap<&'p str, &'p Var>;

pub(super) fn select(program: &Program, keep: impl Fn(&Var) -> bool) -> Selected<'_> {
    // Selected rows outlive a run only where gradients are merged over steps, and have no file.
    let vars = program.persistables().filter(|var| var.kind == VarKind::LodTensor && keep(var));
    vars.map(|var| (var.name.as_str(), var)).collect()
}

/// That every variable holds a dense tensor, before a file is touched.
pub(super) fn check_held(vars: &Selected<'_>, scope: &Scope) -> Result<()> {
    for name in vars.keys() {
        if scope.read(name, |value| value.tensor().is_err())? {
            let problem = format!("variable `{name}` holds selected rows, which cannot be saved");
            return Err(Error::kernel(problem));
        }
    }
    Ok(())
}

pub(super) fn write_vars(
    files: &mut FileSet,
    vars: &Selected<'_>,
    scope: &Scope,
    filename: Option<&str>,
) -> Result<()> {
    let write = |name: &str, out: &mut dyn std::io::Write| {
        let written = scope.read(name, |value| match value {
            Value::Tensor(tensor) => write_tensor(out, tensor),
            Value::Rows(_) => Ok(()),
        });
        written.map_err(std::io::Error::other)?
    };
    match filename {
        Some(filename) => {
            files.write(filename, |out| vars.keys().try_for_each(|name| write(name, out)))
        }
        None => vars.keys().try_for_each(|name| files.write(name, |out| write(name, out))),
    }
}

pub(super) fn read_vars(
    dir: &Path,
    vars: &Selected<'_>,
    scope: &Scope,
    filename: Option<&Path>,
) -> Result<()> {
    let tensors = match filename {
        Some(filename) => read_common(&dir.join(filename), vars)?,
        None => vars.values().map(|var| read_own(dir, var)).collect::<Result<_>>()?,
    };
    scope.take_over(vars.keys().copied().zip(tensors))
}

/// All variables from one file.
fn read_common(path: &Path, vars: &Selected<'_>) -> Result<Vec<Tensor>> {
    let mut reader = TensorReader::open(path)?;
    let mut tensors = Vec::new();
    for var in vars.values() {
        if reader.remaining() == 0 {
            let problem = format!(
                "it ends after {} variables, but the program has {}: `{}` is missing (does the \
                 file belong to this program?)",
                tensors.len(),
                vars.len(),
                var.name
            );
            return Err(Error::file(path, problem));
        }
        tensors.push(fitting(reader.read(&var.name)?, var, path)?);
    }
    at_end(&reader, path)?;
    Ok(tensors)
}

/// One variable from the file that bears its name.
fn read_own(dir: &Path, var: &Var) -> Result<Tensor> {
    let path = dir.join(&var.name);
    check_inside(Path::new(&var.name)).map_err(|problem| Error::file(dir, problem))?;
    let mut reader = TensorReader::open(&path)?;
    let tensor = reader.read(&var.name)?;
    at_end(&reader, &path)?;
    fitting(tensor, var, &path)
}

fn at_end<R: std::io::Read>(reader: &TensorReader<R>, path: &Path) -> Result<()> {
    match reader.remaining() {
        0 => Ok(()),
        left => {
            let problem = format!(
                "{left} bytes follow the last variable (does the file belong to this program?)"
            );
            Err(Error::file(path, problem))
        }
    }
}

/// The tensor, if it has the type and shape that the program declares.
fn fitting(mut tensor: Tensor, var: &Var, path: &Path) -> Result<Tensor> {
    let dims = tensor.dims();
    let same = dims.len() == var.shape.len()
        && dims.iter().zip(&var.shape).all(|(have, want)| *want < 0 || *have as i64 == *want);
    // Paddle 1.x and early 2.x give a single number the shape [1], later ones [].
    let single = dims.len() < 2 && tensor.numel() == 1 && matches!(var.shape[..], [] | [1 | -1]);
    if tensor.dtype() != var.dtype || !(same || single) {
        let problem = format!(
            "variable `{}` is {} of shape {:?} in the program, but {} of shape {dims} in the file",
            var.name,
            var.dtype,
            var.shape,
            tensor.dtype(),
        );
        return Err(Error::file(path, problem));
    }
    if !same {
        tensor.reshape(vec![1; var.shape.len()])?;
    }
    Ok(tensor)
}

#[cfg(test)]
mod tests;
