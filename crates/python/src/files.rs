//! Variables and models to and from Paddle's files.

use std::collections::HashSet;
use std::path::PathBuf;

use bireme_engine::ir::Var;
use bireme_engine::{Error, io};
use bireme_fleet::ps::checkpoint::{gather_dense, gather_states, gather_table, read_manifest};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::enter;
use crate::lod_tensor::LoDTensor;
use crate::program::Program;
use crate::scope::Scope;
use crate::window::{Array, into_array};

/// Saves the persistable variables of `program`, or those of `names`: into one file, or one each.
#[pyfunction]
#[pyo3(signature = (scope, program, dirname, filename=None, names=None))]
pub(crate) fn save_persistables(
    py: Python<'_>,
    scope: &Bound<'_, Scope>,
    program: &Bound<'_, Program>,
    dirname: PathBuf,
    filename: Option<String>,
    names: Option<HashSet<String>>,
) -> PyResult<()> {
    let (scope, program) = (&scope.get().engine, program.get().handle.program());
    let keep = |var: &Var| names.as_ref().is_none_or(|names| names.contains(&var.name));
    enter(py, || io::save_vars(dirname, &program, scope, filename.as_deref(), keep))
}

/// Loads what `save_persistables` saved.
#[pyfunction]
#[pyo3(signature = (scope, program, dirname, filename=None, names=None))]
pub(crate) fn load_persistables(
    py: Python<'_>,
    scope: &Bound<'_, Scope>,
    program: &Bound<'_, Program>,
    dirname: PathBuf,
    filename: Option<String>,
    names: Option<HashSet<String>>,
) -> PyResult<()> {
    let (scope, program) = (&scope.get().engine, program.get().handle.program());
    let keep = |var: &Var| names.as_ref().is_none_or(|names| names.contains(&var.name));
    enter(py, || io::load_vars(dirname, &program, scope, filename.as_deref(), keep))
}

/// Loads those of `names` that a checkpoint of parameter servers holds into `scope`, whole; returns
/// which these are. Rows that a keyed table does not have stay as they are.
#[pyfunction]
pub(crate) fn load_checkpoint(
    py: Python<'_>,
    scope: &Bound<'_, Scope>,
    program: &Bound<'_, Program>,
    dirname: PathBuf,
    names: HashSet<String>,
) -> PyResult<HashSet<String>> {
    let (scope, program) = (&scope.get().engine, program.get().handle.program());
    enter(py, || {
        let mut values = gather_dense(&dirname).map_err(Error::remote)?;
        values.append(&mut gather_states(&dirname).map_err(Error::remote)?);
        let manifest = read_manifest(&dirname).map_err(Error::remote)?;
        let tables = manifest.saves.iter().flat_map(|save| &save.tables);
        for table in tables.map(|table| &table.layout.name).filter(|name| names.contains(*name)) {
            let shape = program.global().var(table).map(|var| var.shape.clone());
            let rows = shape.and_then(|shape| usize::try_from(*shape.first()?).ok());
            let known = scope.get(table).ok();
            let known = known.as_ref().and_then(|known| known.as_slice::<f32>().ok());
            let fill = |key: u64, row: &mut [f32]| {
                let first = (key as usize).checked_mul(row.len());
                let mine = first.and_then(|first| known?.get(first..)?.get(..row.len()));
                if let Some(mine) = mine {
                    row.copy_from_slice(mine);
                }
            };
            let whole = gather_table(&dirname, table, rows.unwrap_or(0), &fill);
            values.insert(table.clone(), whole.map_err(Error::remote)?);
        }
        values.retain(|name, _| names.contains(name));
        // All are looked at before the first is set.
        for (name, value) in &values {
            let var = program.global().var(name);
            let declared = var.map(|var| (var.dtype, var.shape.as_slice()));
            let shape: Vec<i64> = value.dims().iter().map(|size| *size as i64).collect();
            if declared.is_some_and(|declared| declared != (value.dtype(), &shape)) {
                return Err(Error::Kernel {
                    problem: format!(
                        "the checkpoint `{}` has `{name}` in shape {shape:?}, the program in {:?}",
                        dirname.display(),
                        declared.map_or(&[][..], |(_, shape)| shape),
                    ),
                });
            }
        }
        let (found, tensors): (Vec<String>, Vec<_>) = values.into_iter().unzip();
        scope.take_over(found.iter().map(String::as_str).zip(tensors))?;
        Ok(found.into_iter().collect())
    })
}

/// Saves what computes `fetches` from `feeds`: as `path.pdmodel` and `path.pdiparams` (layout
/// `prefix`), or into the folder `path` (layout `dir`).
#[pyfunction]
#[pyo3(signature = (scope, program, feeds, fetches, path, layout="prefix", model_filename=None,
                    params_filename=None))]
#[expect(clippy::too_many_arguments, reason = "they are what a save needs to know")]
pub(crate) fn save_inference(
    py: Python<'_>,
    scope: &Bound<'_, Scope>,
    program: &Bound<'_, Program>,
    feeds: Vec<String>,
    fetches: Vec<String>,
    path: PathBuf,
    layout: &str,
    model_filename: Option<String>,
    params_filename: Option<String>,
) -> PyResult<()> {
    let (scope, program) = (&scope.get().engine, program.get().handle.program());
    let in_folder = match layout {
        "prefix" if model_filename.is_none() && params_filename.is_none() => false,
        "prefix" => {
            let text = "file names belong to the layout `dir`: `prefix` makes its own";
            return Err(PyValueError::new_err(text));
        }
        "dir" => true,
        other => {
            let text = format!("no layout `{other}`: there are `prefix` and `dir`");
            return Err(PyValueError::new_err(text));
        }
    };
    enter(py, || {
        let feeds: Vec<&str> = feeds.iter().map(String::as_str).collect();
        let fetches: Vec<&str> = fetches.iter().map(String::as_str).collect();
        let (model, params) = (model_filename.as_deref(), params_filename.as_deref());
        if in_folder {
            io::save_inference_model_dir(path, &feeds, &fetches, &program, scope, model, params)
        } else {
            io::save_inference_model(path, &feeds, &fetches, &program, scope)
        }
    })
}

/// Loads a model for inference: its program, and the names to feed and to fetch.
#[pyfunction]
#[pyo3(signature = (scope, path, model_filename=None, params_filename=None))]
pub(crate) fn load_inference(
    py: Python<'_>,
    scope: &Bound<'_, Scope>,
    path: PathBuf,
    model_filename: Option<String>,
    params_filename: Option<String>,
) -> PyResult<(Program, Vec<String>, Vec<String>)> {
    let scope = &scope.get().engine;
    let model = enter(py, || match (model_filename.as_deref(), params_filename.as_deref()) {
        (None, None) => io::load_inference_model(path, scope),
        (model, params) => io::load_inference_model_dir(path, scope, model, params),
    })?;
    Ok((Program::of(model.program), model.feeds, model.fetches))
}

/// The tensor in a file that holds one, as an array.
#[pyfunction]
pub(crate) fn load_tensor(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyAny>> {
    let tensor = enter(py, || {
        let mut reader = io::TensorReader::open(&path)?;
        let tensor = reader.read(&path.display().to_string())?;
        match reader.remaining() {
            0 => Ok(tensor),
            left => {
                let problem = format!("{left} bytes follow the tensor: it holds more than one");
                Err(bireme_engine::Error::file(&path, problem))
            }
        }
    })?;
    into_array(py, tensor)
}

/// Writes an array or `LoDTensor` into a file of its own.
#[pyfunction]
pub(crate) fn save_tensor(
    py: Python<'_>,
    path: PathBuf,
    tensor: &Bound<'_, PyAny>,
) -> PyResult<()> {
    if let Ok(ragged) = tensor.cast::<LoDTensor>() {
        let ragged = ragged.get().tensor()?;
        return enter(py, || io::write_file(&path, |out| io::write_tensor(out, &ragged)));
    }
    let array = py.import("numpy")?.call_method1("asarray", (tensor,))?;
    let array = Array::new(&array)?;
    enter(py, || io::write_file(&path, |out| io::write_tensor(out, array.tensor())))
}
