//! What stands for MPI in a build without it: a type that nobody can have.

use crate::{Error, Reduce, Result, RoleMaker};

/// This process among those that `mpirun` started; needs the feature `mpi`.
#[derive(Debug)]
pub enum Mpi {}

impl Mpi {
    /// Says how to get MPI.
    ///
    /// # Errors
    /// Always.
    pub fn start() -> Result<Mpi> {
        Err(Error::Config(
            "this build of Bireme has no MPI: build it with the feature `mpi` (it needs `mpicc`)"
                .to_owned(),
        ))
    }

    /// Who this process is in the job.
    pub fn role(&self) -> &RoleMaker {
        match *self {}
    }

    /// Its number among all processes.
    pub fn rank(&self) -> usize {
        match *self {}
    }

    /// How many processes there are.
    pub fn size(&self) -> usize {
        match *self {}
    }

    /// Waits for all processes of the group.
    ///
    /// # Errors
    /// None.
    pub fn barrier(&self, _: super::Group) -> Result<()> {
        match *self {}
    }

    /// What each process of the group brings, by rank.
    ///
    /// # Errors
    /// None.
    pub fn all_gather(&self, _: super::Group, _: &[u8]) -> Result<Vec<Vec<u8>>> {
        match *self {}
    }

    /// Combines the group's numbers.
    ///
    /// # Errors
    /// None.
    pub fn all_reduce(&self, _: super::Group, _: &[f64], _: Reduce) -> Result<Vec<f64>> {
        match *self {}
    }

    /// Ends MPI for this process.
    ///
    /// # Errors
    /// None.
    pub fn finalize(&self) -> Result<()> {
        match *self {}
    }
}
