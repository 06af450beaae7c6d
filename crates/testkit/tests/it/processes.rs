//! Clusters of processes that are killed, stopped or late: survivors name who is missing and what
//! they waited for, or go on where the mode allows it.

mod member;

use std::path::Path;
use std::time::{Duration, Instant};

use bireme_transpiler::Mode::{self, Async, Geo, HalfAsync, Hybrid, Sync};
use member::{Cast, Process, Said};

/// Without a sign of life for so long a peer is lost.
const TIMEOUT: Duration = Duration::from_secs(4);
/// No wait of a test is longer.
const BOUND: Duration = Duration::from_secs(120);

/// Two servers, two trainers, and steps without end.
struct Cluster {
    servers: Vec<Process>,
    trainers: Vec<Process>,
    cast: Cast,
}

impl Cluster {
    fn start(cast: Cast, servers: usize, trainers: usize) -> Cluster {
        let mut cluster = Cluster::serve(cast, servers);
        for rank in 0..trainers {
            cluster.trainers.push(Process::trainer(&cluster.cast, rank));
        }
        cluster
    }

    fn serve(cast: Cast, count: usize) -> Cluster {
        let mut cast = Cast { servers: count, ..cast };
        let mut servers: Vec<Process> =
            (0..count).map(|rank| Process::server(&cast, rank)).collect();
        cast.endpoints = servers
            .iter_mut()
            .map(|server| match server.next(BOUND) {
                Some(Said::Listening(endpoint)) => endpoint,
                other => panic!("a server said {other:?}"),
            })
            .collect();
        Cluster { servers, trainers: Vec::new(), cast }
    }

    /// Waits until every trainer has made so many steps.
    fn reach(&mut self, steps: usize) {
        for trainer in &mut self.trainers {
            while trainer.steps < steps {
                assert!(matches!(trainer.next(BOUND), Some(Said::Step { .. })), "{trainer:?}");
            }
        }
    }
}

fn cast(mode: Mode) -> Cast {
    Cast { mode, timeout: TIMEOUT, steps: usize::MAX, ..Cast::default() }
}

/// Runs all cases at the same time: most of it is waiting.
fn each<T: Send>(cases: impl IntoIterator<Item = T>, test: impl Fn(T) + Send + std::marker::Sync) {
    std::thread::scope(|scope| {
        let test = &test;
        let threads: Vec<_> =
            cases.into_iter().map(|case| scope.spawn(move || test(case))).collect();
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

fn check(what: &str, error: &str, parts: &[&str]) {
    assert!(parts.iter().all(|part| error.contains(part)), "{what}: {parts:?} in `{error}`");
}

#[test]
fn a_trainer_that_is_killed_ends_the_modes_that_wait_for_it() {
    each([Sync, Hybrid], |mode| {
        let mut cluster = Cluster::start(cast(mode), 2, 2);
        cluster.reach(2);
        cluster.trainers[1].signal("-KILL");
        let since = Instant::now();
        let error = cluster.trainers[0].error(BOUND);
        let what = format!("{mode:?}");
        let waited = "trainer 0 waited";
        check(&what, &error, &["trainer 1 (127.0.0.1:", "is lost", waited, "at the send barrier"]);
        for server in &mut cluster.servers {
            check(&what, &server.error(BOUND), &["trainer 1 (127.0.0.1:", "is lost"]);
        }
        // The machine may be slow, but not a deadline slow.
        assert!(since.elapsed() < TIMEOUT + Duration::from_secs(40), "{mode:?}");
    });
}

#[test]
fn a_trainer_that_is_killed_does_not_end_the_others() {
    each([Async, HalfAsync, Geo], |mode| {
        let mut cluster = Cluster::start(cast(mode), 2, 2);
        cluster.reach(2);
        cluster.trainers[1].signal("-KILL");
        let [trainer, _] = &mut cluster.trainers[..] else { panic!("there are two") };
        // Until the servers have given the other one up, and beyond.
        let until = Instant::now() + 2 * TIMEOUT;
        while Instant::now() < until {
            assert!(matches!(trainer.next(BOUND), Some(Said::Step { .. })), "{trainer:?}");
        }
        trainer.stop();
        assert_eq!(trainer.end(BOUND), Said::Finished, "{mode:?}");
        for server in &mut cluster.servers {
            // Nobody waited for it, but its share of the work is missing.
            let error = server.error(BOUND);
            check(&format!("{mode:?}"), &error, &["have finished", "trainer 1 was lost"]);
        }
    });
}

#[test]
fn a_server_that_is_killed_or_stopped_is_named() {
    let killed = [Sync, Async, HalfAsync, Geo, Hybrid].map(|mode| (mode, "-KILL"));
    let stopped = [Sync, Async, Geo].map(|mode| (mode, "-STOP"));
    each(killed.into_iter().chain(stopped), |(mode, signal)| {
        let mut cluster = Cluster::start(cast(mode), 2, 2);
        cluster.reach(2);
        cluster.servers[1].signal(signal);
        let since = Instant::now();
        let name = format!("server 1 ({})", cluster.cast.endpoints[1]);
        for (rank, trainer) in cluster.trainers.iter_mut().enumerate() {
            let parts = [&format!("trainer {rank}"), &name, "is lost", "while waiting for"];
            check(&format!("{mode:?} {signal}"), &trainer.error(BOUND), &parts);
        }
        assert!(since.elapsed() < TIMEOUT + Duration::from_secs(40), "{mode:?} {signal}");
        // The other server does not wait for trainers that are gone.
        let error = cluster.servers[0].error(BOUND);
        check(&format!("{mode:?} {signal}, server 0"), &error, &["trainer", "lost"]);
    });
}

fn late(cast: Cast, late_by: Duration) {
    let mode = cast.mode;
    let mut cluster = Cluster::serve(Cast { steps: 3, ..cast }, 2);
    cluster.trainers.push(Process::trainer(&cluster.cast, 0));
    // Nothing happens that could be waited for: the point is that nobody gives up.
    let until = Instant::now() + late_by;
    let mut finished = false;
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|_| !finished) {
        match cluster.trainers[0].next(left) {
            Some(Said::Step { .. }) => assert_ne!(mode, Sync, "it must not step alone"),
            Some(Said::Finished) if mode != Sync => finished = true,
            None => {}
            other => panic!("{mode:?}: {other:?}"),
        }
    }
    cluster.trainers.push(Process::trainer(&cluster.cast, 1));
    let trainers = cluster.trainers.iter_mut().skip(usize::from(finished));
    for process in trainers.chain(&mut cluster.servers) {
        assert_eq!(process.end(BOUND), Said::Finished, "{mode:?}");
    }
}

#[test]
fn a_trainer_may_start_late() {
    each([Sync, Async], |mode| late(cast(mode), 2 * TIMEOUT));
}

#[test]
#[ignore = "takes 20 s, with the timeouts of a real job"]
fn a_trainer_may_start_20_s_late() {
    late(Cast { timeout: Duration::from_secs(10), ..cast(Sync) }, Duration::from_secs(20));
}

/// Trains to the end; the losses of trainer 0 by step, to the bit.
fn losses(cluster: &mut Cluster) -> Vec<u64> {
    let mut losses = Vec::new();
    loop {
        match cluster.trainers[0].next(BOUND) {
            Some(Said::Step { loss, .. }) => losses.push(loss),
            Some(Said::Finished) => return losses,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_killed_job_continues_from_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let saved: &Path = folder.path();
    let whole = losses(&mut Cluster::start(Cast { steps: 12, ..cast(Sync) }, 2, 2));
    assert_eq!(whole.len(), 12);

    let save = Some((5, saved.to_owned()));
    let mut first = Cluster::start(Cast { save, ..cast(Sync) }, 2, 2);
    // The save of step 5 is done before step 6 is.
    first.reach(7);
    for process in first.trainers.iter().chain(&first.servers) {
        process.signal("-KILL");
    }
    drop(first);
    let checkpoint = Some(saved.to_owned());
    let rest = Cast { checkpoint, skip: 5, steps: 7, ..cast(Sync) };
    let rest = losses(&mut Cluster::start(rest, 3, 2));
    assert_eq!(rest, whole[5..], "only the steps after the checkpoint were lost");
}
