//! Processes that must not be taken for a trainer of the job: older ones of a restarted trainer,
//! two with the same number, trainers of another program.

use super::cluster::*;
use crate::Mode;
use crate::message::{Array, Format, Life, Request};

/// A request to join with a process and a program.
fn join_as<'a>(trainer: u32, trainers: u32, process: &'a str, program: &[&'a str]) -> Request<'a> {
    let life = Life { number: 1, ..Life::default() };
    let (mode, program) = (Mode::Async, program.to_vec());
    Request::Join { trainer, trainers, mode, process, program, life }
}

#[test]
fn the_older_process_of_a_trainer_is_shut_out_when_the_newer_one_has_joined() {
    let cluster = Cluster::start(Mode::Async, 1);
    let run = cluster.run();
    let older = cluster.stranger(0);
    older.ask(&join_as(0, 1, "process 7 on `a`", &[])).unwrap();
    older.push("w@GRAD", Array::of_tensor(&dense(&[1.0; 6])));
    let newer = cluster.stranger(0);
    newer.ask(&join_as(0, 1, "process 8 on `b`", &[])).unwrap();
    let grad = dense(&[100.0; 6]);
    let values = || vec![("w@GRAD", Array::of_tensor(&grad))];
    let set = vec![("w", Array::of_tensor(&grad))];
    let (table, keys) = ("emb", &[4][..]);
    let refused = [
        Request::Push { trainer: 0, values: values() },
        Request::PushRows { trainer: 0, table, keys, grads: &[1.0, 1.0], counts: None },
        Request::PushDelta { trainer: 0, values: values() },
        Request::Set { values: set },
        Request::SetRows { table, keys, values: &[1.0, 1.0] },
        Request::Barrier { trainer: 0 },
        Request::Save { number: 1, directory: "x", table: None, mode: 0, format: Format::Native },
        Request::Load { directory: "x", table: None, mode: 0 },
        Request::Clear { table: None },
        Request::Complete { trainer: 0 },
    ];
    for request in &refused {
        let error = older.fails(request);
        assert!(error.contains("process 8 on `b` has joined as trainer 0 since"), "{error}");
        assert!(error.contains("`PADDLE_TRAINER_ID`"), "{error}");
    }
    drop(older);
    assert_eq!(newer.get("w"), [-1.0; 6]);
    assert_eq!(newer.pull("emb", &[4]), [1.0, 1.0]);
    newer.complete();
    run.join().unwrap().unwrap();
}

#[test]
fn nobody_changes_what_a_server_holds_without_joining_or_under_another_name() {
    let cluster = Cluster::start(Mode::Async, 2);
    let run = cluster.run();
    let stranger = cluster.stranger(1);
    let (table, keys) = ("emb", &[4][..]);
    let error = stranger.fails(&Request::SetRows { table, keys, values: &[9.0, 9.0] });
    assert!(error.contains("trainer 1 is not at work"), "{error}");
    drop(stranger);
    let [first, second] = [cluster.trainer(0), cluster.trainer(1)];
    let grads = &[1.0, 1.0];
    let error = first.fails(&Request::PushRows { trainer: 1, table, keys, grads, counts: None });
    assert!(error.contains("asks in the name of trainer 1"), "{error}");
    assert_eq!(first.pull("emb", &[4]), [1.0, 1.0]);
    first.complete();
    second.complete();
    run.join().unwrap().unwrap();
}

#[test]
fn two_processes_with_one_number_are_told_what_to_set() {
    let cluster = Cluster::start(Mode::Sync, 2);
    let run = cluster.run();
    let [first, second] = [cluster.trainer(0), cluster.trainer(0)];
    let error = first.fails(&Request::Barrier { trainer: 0 });
    assert!(error.contains("two processes have joined as trainer 0"), "{error}");
    assert!(error.contains("a `PADDLE_TRAINER_ID` of its own, from 0 to 1"), "{error}");
    assert!(second.fails(&Request::Stat).contains("two processes have joined as trainer 0"));
    let ended = run.join().unwrap().unwrap_err().to_string();
    assert!(ended.contains("two processes have joined as trainer 0"), "{ended}");
}

#[test]
fn a_trainer_of_another_program_is_refused_with_the_difference() {
    let lines = ", fingerprint = ['`w` = [3, 2] float32, sgd', 'ops = 4']";
    let server = program(Mode::Async, 2, lines);
    let cluster = Cluster::with(Mode::Async, 2, &server, settings());
    let run = cluster.run();
    let fits = cluster.stranger(0);
    fits.ask(&join_as(0, 2, "one", &["`w` = [3, 2] float32, sgd", "ops = 4"])).unwrap();
    let wide = cluster.stranger(1);
    let error = wide.fails(&join_as(1, 2, "two", &["`w` = [3, 4] float32, sgd", "ops = 4"]));
    assert!(error.contains("trains another program than server 0"), "{error}");
    assert!(error.contains("`w` is [3, 4] float32, sgd on trainer 1"), "{error}");
    assert!(error.contains(", [3, 2] float32, sgd on server 0"), "{error}");
    // It was one of those that are waited for.
    assert!(fits.fails(&Request::Stat).contains("another program"));
    run.join().unwrap().unwrap_err();
}

#[test]
fn trainers_are_compared_with_the_first_where_the_server_does_not_know() {
    let cluster = Cluster::start(Mode::Async, 2);
    let run = cluster.run();
    let first = cluster.stranger(0);
    first.ask(&join_as(0, 2, "one", &["`w` = sgd, learning rate 0.1"])).unwrap();
    let second = cluster.stranger(1);
    let error = second.fails(&join_as(1, 2, "two", &["`w` = sgd, learning rate 0.2"]));
    assert!(error.contains("learning rate 0.2 on trainer 1"), "{error}");
    assert!(error.contains("learning rate 0.1 on trainer 0"), "{error}");
    run.join().unwrap().unwrap_err();
}
