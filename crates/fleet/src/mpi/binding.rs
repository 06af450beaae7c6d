//! MPI itself, through the functions of `shim.c`.
//!
//! MPI is one for a process: started once, ended once, and asked by one thread at a time, which a
//! lock sees to.

#![expect(unsafe_code, reason = "MPI is a library of C")]

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Group, own_address, symmetric};
use crate::{Error, Reduce, Result, RoleMaker};

unsafe extern "C" {
    fn bireme_mpi_init(rank: *mut c_int, size: *mut c_int) -> c_int;
    fn bireme_mpi_split(color: c_int) -> c_int;
    fn bireme_mpi_group(which: c_int, rank: *mut c_int, size: *mut c_int) -> c_int;
    fn bireme_mpi_barrier(which: c_int) -> c_int;
    fn bireme_mpi_lengths(which: c_int, own: c_int, all: *mut c_int) -> c_int;
    fn bireme_mpi_gather(
        which: c_int,
        own: *const u8,
        length: c_int,
        all: *mut u8,
        lengths: *const c_int,
        offsets: *const c_int,
    ) -> c_int;
    fn bireme_mpi_error(code: c_int, text: *mut u8, room: c_int) -> c_int;
    fn bireme_mpi_finalize() -> c_int;
}

/// What MPI knows: whether it was started, and ended.
static LOCK: Mutex<Standing> = Mutex::new(Standing::Idle);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Idle,
    Started { rank: usize, size: usize },
    Ended,
}

/// This process among those that `mpirun` started.
#[derive(Debug)]
pub struct Mpi {
    role: RoleMaker,
    rank: usize,
    size: usize,
}

impl Mpi {
    /// Starts MPI, if it was not, and gives every process its role.
    ///
    /// # Errors
    /// When MPI fails or has ended, or the processes do not come in pairs.
    pub fn start() -> Result<Mpi> {
        let mut standing = lock();
        let (rank, size) = match *standing {
            Standing::Idle => init()?,
            Standing::Started { rank, size } => (rank, size),
            Standing::Ended => return Err(ended()),
        };
        *standing = Standing::Started { rank, size };
        drop(standing);
        let hosts = gather(Group::All, own_address().as_bytes(), size)?;
        let hosts: Vec<String> =
            hosts.iter().map(|host| String::from_utf8_lossy(host).into_owned()).collect();
        let role = symmetric(rank, &hosts)?;
        let color = c_int::from(rank % 2 == 0);
        // SAFETY: MPI is started, and every process is here with the color of its role.
        locked("to part servers and workers", || unsafe { bireme_mpi_split(color) })?;
        Ok(Mpi { role, rank, size })
    }

    /// Who this process is in the job.
    pub fn role(&self) -> &RoleMaker {
        &self.role
    }

    /// Its number among all processes.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many processes there are.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Waits for all processes of the group.
    ///
    /// # Errors
    /// When MPI fails or has ended.
    pub fn barrier(&self, group: Group) -> Result<()> {
        // SAFETY: the communicators were made by `start`.
        locked("a barrier", || unsafe { bireme_mpi_barrier(which(group)) })
    }

    /// What each process of the group brings, by rank.
    ///
    /// # Errors
    /// When MPI fails or has ended, or somebody brings more than 2 GiB.
    pub fn all_gather(&self, group: Group, data: &[u8]) -> Result<Vec<Vec<u8>>> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: the communicators were made by `start`, and both numbers may be written.
        locked("a group", || unsafe { bireme_mpi_group(which(group), &mut rank, &mut size) })?;
        gather(group, data, usize::try_from(size).unwrap_or(0))
    }

    /// Combines the group's numbers, one by one; in the order of ranks, so that all get the same.
    ///
    /// # Errors
    /// As [`Mpi::all_gather`], and when they bring different numbers of numbers.
    pub fn all_reduce(&self, group: Group, values: &[f64], how: Reduce) -> Result<Vec<f64>> {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut total = values.to_vec();
        for (rank, part) in self.all_gather(group, &bytes)?.iter().enumerate() {
            if part.len() != bytes.len() {
                return Err(Error::Config(format!(
                    "process {rank} brought {} numbers to an all_reduce, this one {}",
                    part.len() / 8,
                    values.len()
                )));
            }
            let numbers = part
                .chunks_exact(8)
                .map(|chunk| f64::from_le_bytes(chunk.try_into().expect("chunks of eight")));
            for (sum, value) in total.iter_mut().zip(numbers) {
                *sum = match how {
                    _ if rank == 0 => value,
                    Reduce::Sum => *sum + value,
                    Reduce::Min => sum.min(value),
                    Reduce::Max => sum.max(value),
                };
            }
        }
        Ok(total)
    }

    /// Ends MPI for this process: nothing can be asked after it, and it cannot be started again.
    ///
    /// # Errors
    /// When MPI fails.
    pub fn finalize(&self) -> Result<()> {
        let mut standing = lock();
        if *standing == Standing::Ended {
            return Ok(());
        }
        *standing = Standing::Ended;
        // SAFETY: nobody else calls MPI while the lock is held, or after it has ended.
        check(unsafe { bireme_mpi_finalize() }, "its end")
    }
}

fn init() -> Result<(usize, usize)> {
    let (mut rank, mut size) = (0, 0);
    // SAFETY: both numbers may be written; the lock is held by the caller.
    check(unsafe { bireme_mpi_init(&mut rank, &mut size) }, "its start")?;
    Ok((usize::try_from(rank).unwrap_or(0), usize::try_from(size).unwrap_or(1)))
}

fn gather(group: Group, own: &[u8], size: usize) -> Result<Vec<Vec<u8>>> {
    let too_much = || Error::Config("MPI gathers at most 2 GiB".to_owned());
    let length = c_int::try_from(own.len()).map_err(|_| too_much())?;
    let mut lengths = vec![0; size];
    // SAFETY: `lengths` has room for one number of each process of the group.
    locked("lengths", || unsafe {
        bireme_mpi_lengths(which(group), length, lengths.as_mut_ptr())
    })?;
    let mut offsets = Vec::with_capacity(size);
    let mut total: c_int = 0;
    for length in &lengths {
        offsets.push(total);
        total = total.checked_add(*length).ok_or_else(too_much)?;
    }
    let mut all = vec![0; usize::try_from(total).unwrap_or(0)];
    // SAFETY: `all` has room for what every process announced, at its offset.
    locked("values", || unsafe {
        let (lengths, offsets) = (lengths.as_ptr(), offsets.as_ptr());
        bireme_mpi_gather(which(group), own.as_ptr(), length, all.as_mut_ptr(), lengths, offsets)
    })?;
    let mut rest = &all[..];
    let mut parts = Vec::with_capacity(size);
    for length in lengths {
        let (part, after) = rest.split_at(usize::try_from(length).unwrap_or(0));
        parts.push(part.to_vec());
        rest = after;
    }
    Ok(parts)
}

fn which(group: Group) -> c_int {
    match group {
        Group::All => 0,
        Group::Role => 1,
    }
}

fn lock() -> MutexGuard<'static, Standing> {
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls MPI while nobody else does.
fn locked(what: &str, call: impl FnOnce() -> c_int) -> Result<()> {
    let standing = lock();
    match *standing {
        Standing::Started { .. } => check(call(), what),
        Standing::Idle | Standing::Ended => Err(ended()),
    }
}

fn ended() -> Error {
    Error::Config("MPI has ended for this process: nothing can be asked of it any more".to_owned())
}

fn check(code: c_int, what: &str) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    let mut text = [0; 1024];
    let room = c_int::try_from(text.len()).expect("a small number");
    // SAFETY: at most `room` bytes are written.
    let length = unsafe { bireme_mpi_error(code, text.as_mut_ptr(), room) };
    let said = String::from_utf8_lossy(&text[..usize::try_from(length).unwrap_or(0)]).into_owned();
    Err(Error::Config(format!("MPI failed at {what}: {said} (code {code})")))
}
