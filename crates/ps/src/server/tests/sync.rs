//! Sync mode: one update a step, the same whatever the order.

use super::cluster::*;
use crate::Mode;
use crate::message::{Answer, Array, Request};

#[test]
fn one_trainer_updates_and_the_scope_has_the_values() {
    let cluster = Cluster::start(Mode::Sync, 1);
    assert!(!cluster.scope.contains("w"), "a server takes its parameters over");
    let run = cluster.run();
    let trainer = cluster.trainer(0);
    trainer.push("w@GRAD", Array::of_tensor(&dense(&[1.0, 0.0, 0.0, 0.0, 0.0, 2.0])));
    assert_eq!(trainer.get("w"), [0.0; 6]);
    trainer.barrier().unwrap();
    assert_eq!(trainer.get("w"), [-1.0, 0.0, 0.0, 0.0, 0.0, -2.0]);
    trainer.complete();
    run.join().unwrap().unwrap();
    let w = cluster.scope.get("w").unwrap();
    assert_eq!(w.as_slice::<f32>().unwrap(), [-1.0, 0.0, 0.0, 0.0, 0.0, -2.0]);
}

/// Two trainers, three steps; who comes first changes with `turn`.
fn train(turn: usize) -> (Vec<f32>, Vec<f32>) {
    let cluster = Cluster::start(Mode::Sync, 2);
    let run = cluster.run();
    let trainers = [cluster.trainer(0), cluster.trainer(1)];
    for step in 0..3usize {
        let mut order = [0, 1];
        order.rotate_left((turn + step) % 2);
        let mut waits = Vec::new();
        for at in order {
            let trainer = &trainers[at];
            let noise =
                |k: usize| ((at * 31 + step * 7 + k) as f32 * 0.37).sin() * 1e3f32.powi(at as i32);
            trainer.push_own(&(0..6).map(noise).collect::<Vec<_>>());
            trainer.push_keys(&[9, 3 + at as u64], &[noise(1), noise(2), noise(3), noise(4)]);
            waits.push(trainer.begin(&Request::Barrier { trainer: at as u32 }));
        }
        waits.into_iter().for_each(|wait| drop(wait.wait().unwrap()));
    }
    let (w, emb) = (trainers[0].get("w"), trainers[1].pull("emb", &[3, 4, 9, 100]));
    trainers.into_iter().for_each(Trainer::complete);
    run.join().unwrap().unwrap();
    (w, emb)
}

#[test]
fn the_order_of_arrival_changes_no_bit() {
    let first = train(0);
    assert_eq!(first, train(1));
    assert_eq!(first.1[6..], [1.0, 1.0], "an untouched row has its initial value");
    assert_ne!(first.1[4..6], [1.0, 1.0]);
}

#[test]
fn rows_of_a_table_are_averaged_over_trainers() {
    let cluster = Cluster::start(Mode::Sync, 2);
    let run = cluster.run();
    let trainers = [cluster.trainer(0), cluster.trainer(1)];
    trainers[0].push_keys(&[5, 6], &[2.0, 4.0, 8.0, 8.0]);
    trainers[1].push_keys(&[6], &[8.0, 0.0]);
    assert_eq!(trainers[0].pull("emb", &[5]), [1.0, 1.0], "before the barrier nothing changes");
    let wait = trainers[0].begin(&Request::Barrier { trainer: 0 });
    trainers[1].barrier().unwrap();
    wait.wait().unwrap();
    assert_eq!(trainers[0].pull("emb", &[6, 5, 6]), [-7.0, -3.0, 0.0, -1.0, -7.0, -3.0]);
    trainers.into_iter().for_each(Trainer::complete);
    run.join().unwrap().unwrap();
}

#[test]
fn a_trainer_with_less_data_lowers_the_count() {
    let cluster = Cluster::start(Mode::Sync, 2);
    let run = cluster.run();
    let [first, second] = [cluster.trainer(0), cluster.trainer(1)];
    first.push_own(&[4.0; 6]);
    first.push_keys(&[1], &[4.0, 4.0]);
    let wait = first.begin(&Request::Barrier { trainer: 0 });
    second.complete();
    wait.wait().unwrap();
    // The mean over the one that sent.
    assert_eq!(first.get("w"), [-4.0; 6]);
    assert_eq!(first.pull("emb", &[1]), [-3.0, -3.0]);
    first.push_own(&[1.0; 6]);
    first.barrier().unwrap();
    assert_eq!(first.get("w"), [-5.0; 6]);
    first.complete();
    run.join().unwrap().unwrap();
}

#[test]
fn learning_rates_are_computed_before_the_update_or_sent() {
    let mut program = program(Mode::Sync, 1, ", lr_decay_block_id = 3, assigned_vars = ['rate']");
    let block = program.append_block(0);
    let count = bireme_ir::Op::new("increment").input("X", ["step"]).output("Out", ["step"]);
    block.ops.push(count.attr("step", 1.0f32));
    let rate = bireme_ir::Op::new("scale").input("X", ["step"]).output("Out", ["rate"]);
    block.ops.push(rate.attr("scale", 1.0f32).attr("bias", 1.0f32));
    let scope = scope();
    scope.set("step", &bireme_engine::tensor::Tensor::scalar(-1.0f32));
    let config = super::super::ServerConfig::from_program(&program).unwrap();
    let state = super::super::state::State::new(&program, &scope, config).unwrap();
    assert_eq!(state.shared.number("rate"), Some(1.0), "the first step's rate, before it");
    for expected in [1.0, 2.0, 3.0] {
        state.update(1).unwrap();
        assert_eq!(state.shared.number("rate"), Some(expected));
    }
}

#[test]
fn a_sent_rate_holds_from_the_next_update_on() {
    let cluster = Cluster::start(Mode::Sync, 1);
    let run = cluster.run();
    let trainer = cluster.trainer(0);
    let rate = bireme_engine::tensor::Tensor::scalar(0.5f32);
    trainer.push("rate", Array::of_tensor(&rate));
    trainer.push("w@GRAD", Array::of_tensor(&dense(&[1.0; 6])));
    trainer.barrier().unwrap();
    assert_eq!(trainer.get("w"), [-0.5; 6]);
    assert_eq!(trainer.get("rate"), [0.5]);
    trainer.complete();
    run.join().unwrap().unwrap();
}

#[test]
fn large_values_come_and_go_in_pieces() {
    let settings = bireme_comm::Settings { max_frame: 128, ..settings() };
    let cluster = Cluster::with(Mode::Sync, 1, &program(Mode::Sync, 1, ""), settings);
    let whole = dense(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let state = &cluster.server.service.state;
    state.push(0, "w@GRAD", &Array::of_range(&whole, 4, 6)).unwrap();
    state.update(1).unwrap();
    state.push(0, "w@GRAD", &Array::of_range(&whole, 0, 4)).unwrap();
    state.update(1).unwrap();
    let (mut w, mut start) = (Vec::new(), 0);
    while w.len() < 6 {
        let mut gather = super::super::gather::Gather::new(Vec::new(), 16);
        state.get(0, &["w"], start, &[], 0, &mut gather).unwrap();
        let Answer::Values { values, .. } = gather.answer() else { panic!("no values") };
        w.extend_from_slice(bytemuck::cast_slice::<u8, f32>(values[0].1.bytes()));
        start = values[0].1.end();
    }
    assert_eq!(w, [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]);
}

#[test]
fn wrong_requests_are_answered_and_change_nothing() {
    let cluster = Cluster::start(Mode::Sync, 2);
    let run = cluster.run();
    let stranger = cluster.stranger(0);
    assert!(stranger.fails(&Request::Barrier { trainer: 0 }).contains("not joined"));
    let [first, second] = [cluster.trainer(0), cluster.trainer(1)];
    let error = stranger.fails(&join(0, 3, Mode::Sync));
    assert!(error.contains("trainer 0 of 3") && error.contains("serves 2"), "{error}");
    let error = stranger.fails(&join(0, 2, Mode::Async));
    assert!(error.contains("Async") && error.contains("Sync"), "{error}");
    let error = stranger.fails(&join(1, 2, Mode::Sync));
    assert!(error.contains("says it is trainer 1"), "{error}");
    let wrong = dense(&[1.0, 2.0]);
    let values = vec![("w@GRAD.trainer_0", Array::of_tensor(&wrong))];
    assert!(first.fails(&Request::Push { trainer: 0, values }).contains("[3, 2]"));
    let (names, versions) = (vec!["v"], Vec::new());
    let get = Request::Get { trainer: 0, names, start: 0, versions, ahead: false };
    assert!(first.fails(&get).contains("no variable `v`"));
    assert!(first.fails(&Request::PullRows { table: "w", keys: &[3] }).contains("row 3"));
    assert!(first.fails(&Request::Shrink { table: Some("x") }).contains("no keyed table `x`"));
    let push =
        Request::PushRows { trainer: 0, table: "emb", keys: &[1], grads: &[1.0], counts: None };
    assert!(first.fails(&push).contains("2 columns"));
    assert_eq!(first.pull("w", &[2, 0]), [0.0; 4]);
    stranger.client.goodbye();
    [first, second].into_iter().for_each(Trainer::complete);
    run.join().unwrap().unwrap();
}

#[test]
fn a_save_is_loaded_again() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().to_str().unwrap();
    let first = Cluster::start(Mode::Sync, 1);
    let state = &first.server.service.state;
    state.push(0, "w@GRAD", &Array::of_tensor(&dense(&[1.0; 6]))).unwrap();
    state.update(1).unwrap();
    let rows = super::super::tables::RowGrads { keys: &[7], grads: &[1.0, 2.0], counts: None };
    state.push_rows(0, "emb", rows).unwrap();
    state.update(1).unwrap();
    let saved = state.save((1, 1), directory, None, 0, crate::message::Format::Native).unwrap();
    crate::checkpoint::complete_request(folder.path(), &[saved.into_bytes()]).unwrap();
    let second = Cluster::start(Mode::Sync, 1);
    second.server.load(directory).unwrap();
    let state = &second.server.service.state;
    let mut out = Vec::new();
    state.pull_rows("emb", &[7], 64, &mut out).unwrap();
    assert_eq!(out, [0.0, -1.0]);
    state.pull_rows("w", &[0], 64, &mut out).unwrap();
    assert_eq!(out, [-1.0, -1.0]);
    assert_eq!(second.server.stat().unwrap().step, 2);
}

#[test]
fn a_trainer_of_another_job_description_ends_the_wait_for_it() {
    let cluster = Cluster::start(Mode::Sync, 3);
    let run = cluster.run();
    let first = cluster.trainer(0);
    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| first.fails(&Request::Barrier { trainer: 0 }));
        let stranger = cluster.stranger(1);
        let wrong = join(1, 2, Mode::Sync);
        let refused = stranger.fails(&wrong);
        assert!(refused.contains("trainer 1 of 2") && refused.contains("serves 3"), "{refused}");
        waiting.join().unwrap()
    });
    assert!(waiting.contains("trainer 1 of 2"), "{waiting}");
    // Who comes later hears it at once.
    let late = cluster.stranger(2);
    let error = late.fails(&join(2, 3, Mode::Sync));
    assert!(error.contains("the same number of trainers"), "{error}");
    let ended = run.join().unwrap().unwrap_err().to_string();
    assert!(ended.contains("trainer 1 of 2"), "{ended}");
}
