//! Trainers that die, never come, or come again; connections that break.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bireme_comm::{Faults, Settings};

use super::cluster::*;
use crate::message::{Array, Request};
use crate::{Error, Mode};

#[test]
fn in_sync_a_lost_trainer_ends_the_job_with_its_name() {
    for mode in [Mode::Sync, Mode::Hybrid] {
        let cluster = Cluster::start(mode, 3);
        let run = cluster.run();
        let [first, second, third] = [cluster.trainer(0), cluster.trainer(1), cluster.trainer(2)];
        let wait = first.begin(&Request::Barrier { trainer: 0 });
        drop(second);
        let error = wait.wait().unwrap_err().to_string();
        assert!(error.contains("trainer 1") && error.contains("is lost"), "{error}");
        assert!(error.contains("trainer 0 waited") && error.contains("barrier"), "{error}");
        // Who comes later hears the same.
        let later = third.fails(&Request::PullRows { table: "emb", keys: &[1] });
        assert!(later.contains("trainer 1") && later.contains("is lost"), "{later}");
        let ended = run.join().unwrap().unwrap_err();
        assert!(matches!(&ended, Error::Missing(text) if text.contains("trainer 1")), "{ended}");
    }
}

#[test]
fn in_async_the_others_go_on() {
    for mode in [Mode::Async, Mode::HalfAsync, Mode::Geo] {
        let cluster = Cluster::start(mode, 2);
        let run = cluster.run();
        let [first, second] = [cluster.trainer(0), cluster.trainer(1)];
        let barrier =
            Request::Meet { group: "trainer", name: "b", member: 0, members: 2, data: &[] };
        let wait = first.begin(&barrier);
        drop(second);
        wait.wait().unwrap();
        let gather =
            Request::Meet { group: "trainer", name: "g", member: 0, members: 2, data: &[1] };
        assert!(first.fails(&gather).contains("trainer 1 is lost"));
        assert_eq!(first.get("w"), [0.0; 6]);
        first.complete();
        // The work of the others is done, but the job is not whole.
        let ended = run.join().unwrap().unwrap_err().to_string();
        assert!(ended.contains("have finished, but trainer 1 was lost: "), "{ended}");
    }
}

#[test]
fn in_async_a_trainer_may_come_again() {
    let cluster = Cluster::start(Mode::Async, 1);
    let run = cluster.run();
    let first = cluster.trainer(0);
    let again = cluster.trainer(0);
    drop(first);
    again.push("w@GRAD", Array::of_tensor(&dense(&[1.0; 6])));
    again.complete();
    run.join().unwrap().unwrap();
}

#[test]
fn when_all_are_lost_the_server_ends_with_an_error() {
    let cluster = Cluster::start(Mode::Async, 1);
    let run = cluster.run();
    drop(cluster.trainer(0));
    let ended = run.join().unwrap().unwrap_err().to_string();
    assert!(ended.contains("no trainer is left") && ended.contains("trainer 0"), "{ended}");
    assert!(cluster.scope.contains("w"), "values are not lost with the trainers");
}

#[test]
fn a_trainer_that_never_joins_is_named() {
    // The server gives up a twentieth earlier than the trainer, and looks 20 times a second.
    let settings = Settings { deadline: Duration::from_secs(3), ..settings() };
    let cluster = Cluster::with(Mode::Sync, 2, &program(Mode::Sync, 2, ""), settings);
    let run = cluster.run();
    let trainer = cluster.trainer(0);
    let error = trainer.barrier().unwrap_err().to_string();
    assert!(error.contains("trainer 1 has not joined"), "{error}");
    assert!(error.contains("trainer 0 waited"), "{error}");
    assert!(run.join().unwrap().unwrap_err().to_string().contains("trainer 1"));
}

#[test]
fn an_async_job_whose_second_trainer_never_came_ends() {
    let settings = Settings { deadline: Duration::from_secs(2), ..settings() };
    let cluster = Cluster::with(Mode::Async, 2, &program(Mode::Async, 2, ""), settings);
    let run = cluster.run();
    cluster.trainer(0).complete();
    let ended = run.join().unwrap().unwrap_err().to_string();
    assert!(ended.contains("trainer 1 has not joined"), "{ended}");
}

#[test]
fn a_restarted_trainer_ends_a_sync_job() {
    let cluster = Cluster::start(Mode::Sync, 2);
    let run = cluster.run();
    let [first, second] = [cluster.trainer(0), cluster.trainer(1)];
    let wait = first.begin(&Request::Barrier { trainer: 0 });
    let again = cluster.trainer(1);
    let error = wait.wait().unwrap_err().to_string();
    assert!(error.contains("two processes have joined as trainer 1"), "{error}");
    assert!(error.contains("if trainer 1 was restarted"), "{error}");
    assert!(again.fails(&Request::Stat).contains("if trainer 1 was restarted"));
    drop(second);
    run.join().unwrap().unwrap_err();
}

#[test]
fn an_interrupt_ends_the_server() {
    let cluster = Cluster::start(Mode::Sync, 1);
    let stop = Arc::new(AtomicBool::new(false));
    let (server, asked) = (Arc::clone(&cluster.server), Arc::clone(&stop));
    let run = std::thread::spawn(move || server.run(&|| asked.load(Ordering::Acquire)));
    stop.store(true, Ordering::Release);
    assert!(matches!(run.join().unwrap(), Err(Error::Interrupted)));
}

#[test]
fn pushes_are_applied_once_whatever_happens_to_connections() {
    let cluster = Cluster::start(Mode::Async, 1);
    let run = cluster.run();
    let trainer = cluster.trainer(0);
    for step in 0..60 {
        if step % 5 == 0 {
            cluster.memory.cut(cluster.server.endpoint());
        }
        trainer.push("w@GRAD", Array::of_tensor(&dense(&[1.0; 6])));
        trainer.push_keys(&[4], &[1.0, 1.0]);
    }
    assert_eq!(trainer.get("w"), [-60.0; 6]);
    assert_eq!(trainer.pull("emb", &[4]), [-59.0, -59.0]);
    trainer.complete();
    run.join().unwrap().unwrap();
}

#[test]
fn a_sync_job_survives_delayed_duplicated_and_cut_frames() {
    let faults = Faults {
        delay: 0.05,
        max_delay: Duration::from_millis(3),
        duplicate: 0.05,
        cut: 0.01,
        ..Faults::default()
    };
    let settings =
        Settings { heartbeat_timeout: Duration::from_secs(10), retries: 50, ..settings() };
    let cluster = Cluster::with(Mode::Sync, 2, &program(Mode::Sync, 2, ""), settings);
    cluster.memory.set_faults(faults);
    let run = cluster.run();
    let work = |trainer: Trainer| {
        for _ in 0..30 {
            trainer.push_own(&[1.0; 6]);
            trainer.barrier().unwrap();
        }
        assert_eq!(trainer.get("w"), [-30.0; 6]);
        trainer.complete();
    };
    let [first, second] = [cluster.trainer(0), cluster.trainer(1)];
    std::thread::scope(|scope| {
        scope.spawn(|| work(first));
        scope.spawn(|| work(second));
    });
    run.join().unwrap().unwrap();
}
