//! The binding under `mpirun -n 4` (`cargo xtask mpi`); every process runs all of it.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test by itself")]

use bireme_fleet::mpi::{Group, Mpi};
use bireme_fleet::{Reduce, Role};

fn main() {
    let mpi = Mpi::start().unwrap();
    let (rank, size) = (mpi.rank(), mpi.size());
    assert_eq!(size, 4, "run it by `cargo xtask mpi`");
    let role = mpi.role();
    assert_eq!(role.role(), if rank % 2 == 0 { Role::Server } else { Role::Worker });
    assert_eq!((role.index() as usize, role.worker_num()), (rank / 2, 2));
    // All processes agree on the servers.
    let own = role.server_endpoints().join(",");
    let lists = mpi.all_gather(Group::All, own.as_bytes()).unwrap();
    assert!(lists.iter().all(|list| *list == own.as_bytes()), "{lists:?}");
    // Parts of different lengths arrive in order, none of them mixed up.
    let part = vec![u8::try_from(rank).unwrap(); rank * 1000];
    let parts = mpi.all_gather(Group::All, &part).unwrap();
    assert!(parts.iter().enumerate().all(|(at, part)| part.len() == at * 1000));
    // A role reduces among its own: servers have ranks 0 and 2, workers 1 and 3.
    let number = f64::from(u32::try_from(rank).unwrap());
    let sums = mpi.all_reduce(Group::Role, &[number, -number], Reduce::Sum).unwrap();
    let expected = if rank % 2 == 0 { 2.0 } else { 4.0 };
    assert_eq!(sums, [expected, -expected]);
    let smallest = mpi.all_reduce(Group::All, &[number], Reduce::Min).unwrap();
    assert_eq!(smallest, [0.0]);
    mpi.barrier(Group::Role).unwrap();
    mpi.barrier(Group::All).unwrap();
    // A second start finds the first.
    assert_eq!(Mpi::start().unwrap().role(), role);
    mpi.finalize().unwrap();
    mpi.finalize().unwrap();
    assert!(mpi.barrier(Group::All).unwrap_err().to_string().contains("has ended"));
    if rank == 0 {
        println!("mpi: ok, {size} processes");
    }
}
