//! Programs of collective jobs, rewritten as a strategy says.

use bireme_fleet::collective::broadcast_program;
use bireme_fleet::transpiler::{CollectiveStrategy, GradientMerge, LocalSgd};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::enter;
use crate::kwargs::Kwargs;
use crate::program::Program;
use crate::ranks;

fn invalid(error: impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Makes `main` and `startup` the programs of rank `rank` of those at `endpoints`.
#[pyfunction]
pub(crate) fn distribute_collective(
    rank: usize,
    endpoints: Vec<String>,
    main: &Bound<'_, Program>,
    startup: &Bound<'_, Program>,
    settings: &Bound<'_, PyDict>,
) -> PyResult<()> {
    let strategy = strategy(settings)?;
    let (main, startup) = (&main.get().handle, &startup.get().handle);
    let (program, first) = (main.read(Clone::clone), startup.read(Clone::clone));
    let (program, first) = strategy.rewrite(rank, &endpoints, &program, &first).map_err(invalid)?;
    main.edit(|inner| *inner = program);
    startup.edit(|inner| *inner = first);
    Ok(())
}

/// `main` as one of `ranks` ranks that have the same parameters runs it.
#[pyfunction]
pub(crate) fn parallel_program(
    ranks: usize,
    main: &Bound<'_, Program>,
    settings: &Bound<'_, PyDict>,
) -> PyResult<Program> {
    let program = main
        .get()
        .handle
        .read(|main| strategy(settings)?.rewrite_main(ranks, main).map_err(invalid))?;
    Ok(Program::of(program))
}

/// What gives all ranks the parameters of rank 0.
#[pyfunction]
pub(crate) fn broadcast_parameters(main: &Bound<'_, Program>) -> Program {
    Program::of(main.get().handle.read(broadcast_program))
}

/// Lets go of the other ranks of this process's job.
#[pyfunction]
pub(crate) fn leave_ranks(py: Python<'_>) -> PyResult<()> {
    enter(py, || {
        ranks::leave();
        Ok(())
    })
}

/// The settings of a strategy.
fn strategy(settings: &Bound<'_, PyDict>) -> PyResult<CollectiveStrategy> {
    let mut given = Kwargs::new("collective settings".to_owned(), settings)?;
    let defaults = CollectiveStrategy::default();
    let merged = given.maybe::<(i32, bool)>("gradient_merge")?;
    let local = given.maybe::<(i32, i32)>("local_sgd")?;
    let strategy = CollectiveStrategy {
        fuse: given.or("fuse", defaults.fuse)?,
        bucket_mb: given.or("bucket_mb", defaults.bucket_mb)?,
        average: given.or("average", defaults.average)?,
        gradient_merge: merged.map(|(k_steps, average)| GradientMerge { k_steps, average }),
        local_sgd: local.map(|(k_steps, begin_step)| LocalSgd { k_steps, begin_step }),
    };
    given.end()?;
    Ok(strategy)
}
