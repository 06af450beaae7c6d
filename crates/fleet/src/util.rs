//! What trainers tell each other apart from training: barriers, sums, files.

use bireme_ps::worker::Reduce;

use crate::{Fleet, Result};

/// Calls that every trainer makes together; made by [`Fleet::util`].
#[derive(Clone, Copy)]
pub struct Util<'a> {
    fleet: &'a Fleet,
}

impl<'a> Util<'a> {
    pub(crate) fn new(fleet: &'a Fleet) -> Util<'a> {
        Util { fleet }
    }

    /// Waits until all trainers are here.
    ///
    /// # Errors
    /// When one is lost.
    pub fn barrier(&self) -> Result<()> {
        self.fleet.barrier_worker()
    }

    /// What each trainer brings, in the order of their numbers.
    ///
    /// # Errors
    /// When one is lost.
    pub fn all_gather(&self, data: &[u8]) -> Result<Vec<Vec<u8>>> {
        if let Some(group) = self.fleet.group("all_gather")? {
            return Ok(group.all_gather_varied(data)?);
        }
        match self.fleet.connected("all_gather")? {
            Some(worker) => Ok(worker.all_gather(data)?),
            None => Ok(vec![data.to_vec()]),
        }
    }

    /// Numbers of all trainers made into one, place by place; the same for everybody, since they
    /// are taken in the order of the trainers.
    ///
    /// # Errors
    /// When a trainer is lost, or brings another number of numbers.
    pub fn all_reduce(&self, values: &[f64], how: Reduce) -> Result<Vec<f64>> {
        if let Some(group) = self.fleet.group("all_reduce")? {
            let how = match how {
                Reduce::Sum => bireme_collective::Reduce::Sum,
                Reduce::Min => bireme_collective::Reduce::Min,
                Reduce::Max => bireme_collective::Reduce::Max,
            };
            let mut values = values.to_vec();
            group.all_reduce(&mut values, how)?;
            return Ok(values);
        }
        match self.fleet.connected("all_reduce")? {
            Some(worker) => Ok(worker.all_reduce(values, how)?),
            None => Ok(values.to_vec()),
        }
    }

    /// Whether it is true for all trainers; see [`bireme_data::Training::agree`].
    ///
    /// # Errors
    /// When a trainer is lost.
    pub fn all_agree(&self, mine: bool) -> Result<bool> {
        let least = self.all_reduce(&[f64::from(u8::from(mine))], Reduce::Min)?;
        Ok(least.iter().all(|least| *least > 0.0))
    }

    /// This trainer's share of a list of files.
    ///
    /// # Errors
    /// For a server.
    pub fn file_shard<'f, T>(&self, files: &'f [T]) -> Result<&'f [T]> {
        self.fleet.split_files(files)
    }
}
