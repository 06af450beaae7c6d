//! The ranks of this process's collective job: one group for everything in the process, made when it
//! is first needed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bireme_engine::{Error, Result, Scope};
use bireme_fleet::collective::{Ranks, Rings, connect_group, connect_ranks, ranks_of};
use bireme_fleet::comm::Interrupt;
use bireme_fleet::group::Group;
use bireme_fleet::ps::worker::Worker;
use bireme_ir::Program;

use crate::executor::signalled;
use crate::jobs;

/// Paddle keeps this for the process; nothing below the Python module does.
static RINGS: Mutex<Option<Arc<Rings>>> = Mutex::new(None);

/// Held while the ranks meet.
static MEETING: Mutex<()> = Mutex::new(());

fn known() -> MutexGuard<'static, Option<Arc<Rings>>> {
    RINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The rings of this process: those of `given` ranks, or of the job that the environment describes.
/// Waits for ranks that are not there yet.
pub(crate) fn rings(given: Option<&Ranks>) -> Result<Arc<Rings>> {
    if let Some(rings) = known().clone() {
        return fitting(rings, given);
    }
    let _meeting = MEETING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(rings) = known().clone() {
        return fitting(rings, given);
    }
    // Not under the lock: a rank may not be there for minutes.
    let group = match given {
        Some(ranks) => meet(ranks)?,
        None => {
            let met = connect_group(&jobs::environment()?, Some(Interrupt::new(signalled)));
            met.map_err(jobs::to_engine)?
        }
    };
    let rings = Arc::new(Rings::new(group));
    *known() = Some(Arc::clone(&rings));
    Ok(rings)
}

/// The trainers of a GPUBox job, which have servers and exchange rows among themselves; `None` where
/// there is one.
pub(crate) fn of_trainers(worker: &Worker) -> Result<Option<Arc<Rings>>> {
    let config = worker.config();
    if config.trainers < 2 {
        return Ok(None);
    }
    let endpoints = jobs::environment()?.trainer_endpoints;
    if endpoints.len() != config.trainers as usize {
        return Err(Error::remote(format!(
            "the {} trainers of this GPUBox job exchange rows, and `PADDLE_TRAINER_ENDPOINTS` names {}: \
             start them with `fleetrun`, or name all of them",
            config.trainers,
            endpoints.len()
        )));
    }
    rings(Some(&Ranks { rank: config.trainer as usize, endpoints })).map(Some)
}

/// A group of ranks that is not that of the job.
pub(crate) fn meet(ranks: &Ranks) -> Result<Group> {
    let interrupt = Some(Interrupt::new(signalled));
    connect_ranks(ranks, &jobs::environment()?, interrupt).map_err(jobs::to_engine)
}

/// That what is connected already is what a program names.
fn fitting(rings: Arc<Rings>, given: Option<&Ranks>) -> Result<Arc<Rings>> {
    let group = rings.group(0);
    match given {
        Some(ranks) if (ranks.rank, ranks.endpoints.len()) != (group.rank(), group.size()) => {
            Err(Error::remote(format!(
                "this process is rank {} of {} already, and cannot be rank {} of {} as well",
                group.rank(),
                group.size(),
                ranks.rank,
                ranks.endpoints.len()
            )))
        }
        _ => Ok(rings),
    }
}

/// The rings that the ops of a program ask; all ranks compare the first one that trains.
pub(crate) fn rings_for(program: &Program, scope: &Scope) -> Result<Arc<Rings>> {
    let named = ranks_of(program).map_err(Error::remote)?;
    let rings = rings(named.as_ref())?;
    let mut lines = program.fingerprint(None);
    if !lines.is_empty() {
        let rates = program.global().ops.iter().flat_map(|op| op.inputs_of("LearningRate"));
        let mut rates: Vec<&String> = rates.collect();
        rates.dedup();
        let value = |name: &&String| Some(scope.get(name).ok()?.to_f64_vec());
        let line = |(at, value): (usize, Vec<f64>)| format!("learning rate {at} = {value:?}");
        lines.extend(rates.iter().filter_map(value).enumerate().map(line));
    }
    rings.compare(&lines)?;
    Ok(rings)
}

/// Leaves the other ranks, whatever objects of a script still hold; a second call does nothing.
pub(crate) fn leave() {
    // Not under the lock: a slow link may take a while.
    let rings = known().take();
    if let Some(rings) = rings {
        rings.group(0).leave();
    }
}

/// Tells the other ranks that this process ends with an error.
pub(crate) fn quit(problem: &str) {
    if let Some(rings) = known().take() {
        rings.group(0).abort(problem);
    }
}
