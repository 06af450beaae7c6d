//! Async, geo, hybrid, and what trainers do among themselves.

use bireme_engine::tensor::Tensor;

use super::cluster::*;
use crate::Mode;
use crate::message::{Answer, Array, Request};
use crate::server::Stat;

#[test]
fn async_applies_at_once_and_knows_no_barrier() {
    for mode in [Mode::Async, Mode::HalfAsync] {
        let cluster = Cluster::start(mode, 2);
        let run = cluster.run();
        let [first, second] = [cluster.trainer(0), cluster.trainer(1)];
        first.push("w@GRAD", Array::of_tensor(&dense(&[1.0; 6])));
        assert_eq!(second.get("w"), [-1.0; 6]);
        second.push("w@GRAD", Array::of_rows(&rows(&[1, 1], &[1.0, 0.0, 1.0, 2.0])));
        assert_eq!(first.get("w"), [-1.0, -1.0, -3.0, -3.0, -1.0, -1.0]);
        first.barrier().unwrap();
        first.push_keys(&[3], &[1.0, 2.0]);
        assert_eq!(second.pull("emb", &[3]), [0.0, -1.0]);
        [first, second].into_iter().for_each(Trainer::complete);
        run.join().unwrap().unwrap();
    }
}

#[test]
fn only_async_steps_of_several_trainers_look_ahead() {
    let ahead = |mode, attrs| {
        let program = program(mode, 3, attrs);
        let config = super::super::ServerConfig::from_program(&program).unwrap();
        super::super::state::State::new(&program, &scope(), config).unwrap().looks_ahead()
    };
    assert!(ahead(Mode::Async, ""));
    assert!(!ahead(Mode::Async, ", dc_asgd = True, dc_asgd_lambda = 0.25"));
    assert!(!ahead(Mode::Sync, ""));
}

#[test]
fn a_look_ahead_counts_those_at_work() {
    let program = program(Mode::Async, 4, ", heter_workers = 1");
    let cluster = Cluster::with(Mode::Async, 4, &program, settings());
    let run = cluster.run();
    let others = |rank| cluster.server.service.roster().others_at_work(rank);
    let first = cluster.trainer(0);
    assert_eq!(others(0), 0, "one trainer must equal one process");
    let [second, third] = [cluster.trainer(1), cluster.trainer(2)];
    assert_eq!((others(0), others(3)), (2, 0), "a heter worker is another kind");
    second.complete();
    assert_eq!(others(0), 1);
    third.ask(&Request::Quit { problem: "enough" }).unwrap();
    assert_eq!(others(0), 0);
    drop((first, third));
    drop(cluster);
    drop(run);
}

#[test]
fn delayed_gradients_are_compensated() {
    let program = program(Mode::Async, 2, ", dc_asgd = True, dc_asgd_lambda = 0.25");
    let cluster = Cluster::with(Mode::Async, 2, &program, settings());
    let run = cluster.run();
    let [first, second] = [cluster.trainer(0), cluster.trainer(1)];
    assert_eq!(second.get("w"), [0.0; 6]);
    let grad = dense(&[2.0; 6]);
    first.push("w@GRAD", Array::of_tensor(&grad));
    // w moved by -2 since trainer 1 got it: 2 + 0.25 * 4 * (-2 - 0) = 0.
    second.push("w@GRAD", Array::of_tensor(&grad));
    assert_eq!(first.get("w"), [-2.0; 6]);
    [first, second].into_iter().for_each(Trainer::complete);
    run.join().unwrap().unwrap();
}

#[test]
fn counters_of_trainers_move_the_schedule() {
    let attrs = ", lr_decay_block_id = 3, lr_counters = ['step.trainer_0', 'step.trainer_1']";
    let mut program = program(Mode::Async, 2, attrs);
    let block = program.append_block(0);
    let counters = ["step.trainer_0", "step.trainer_1"];
    block.ops.push(bireme_ir::Op::new("sum").input("X", counters).output("Out", ["step"]));
    let rate = bireme_ir::Op::new("scale").input("X", ["step"]).output("Out", ["rate"]);
    block.ops.push(rate.attr("scale", 0.5f32).attr("bias", 1.0f32));
    let scope = scope();
    scope.set("step.trainer_0", &Tensor::scalar(-1.0f32));
    scope.set("step.trainer_1", &Tensor::scalar(0.0f32));
    let config = super::super::ServerConfig::from_program(&program).unwrap();
    let state = super::super::state::State::new(&program, &scope, config).unwrap();
    assert_eq!(state.shared.number("rate"), Some(1.0), "of the first step");
    let steps = |count: f32| Tensor::scalar(count);
    state.push(1, "step.trainer_1", &Array::of_tensor(&steps(1.0))).unwrap();
    assert_eq!(state.shared.number("rate"), Some(1.0));
    state.push(0, "step.trainer_0", &Array::of_tensor(&steps(2.0))).unwrap();
    assert_eq!(state.shared.number("rate"), Some(2.0));
    state.push(1, "step.trainer_1", &Array::of_tensor(&steps(1.0))).unwrap();
    assert_eq!(state.shared.number("rate"), Some(2.5));
    state.push(0, "w@GRAD", &Array::of_tensor(&dense(&[1.0; 6]))).unwrap();
    let mut out = Vec::new();
    state.pull_rows("w", &[0], 64, &mut out).unwrap();
    assert_eq!(out, [-2.5, -2.5]);
}

fn pull_geo(trainer: &Trainer, name: &str) -> (Vec<i64>, Vec<f32>) {
    let (rank, names) = (trainer.rank, vec![name]);
    let body = trainer.ask(&Request::PullGeo { trainer: rank, names, start: 0 }).unwrap();
    let Answer::Values { values, .. } = Answer::decode(&body).unwrap() else { panic!("no values") };
    let numbers = match values[0].1 {
        Array::Rows { rows, .. } => rows.to_vec(),
        Array::Dense { .. } => Vec::new(),
    };
    (numbers, bytemuck::cast_slice(values[0].1.bytes()).to_vec())
}

#[test]
fn geo_adds_differences_and_tells_everybody_what_changed() {
    let program = program(Mode::Geo, 2, ", sparse_grad_to_param = ['w.delta:w']");
    let cluster = Cluster::with(Mode::Geo, 2, &program, settings());
    let run = cluster.run();
    let [first, second] = [cluster.trainer(0), cluster.trainer(1)];
    let initial = dense(&[1.0; 6]);
    first.ask(&Request::Set { values: vec![("w", Array::of_tensor(&initial))] }).unwrap();
    assert_eq!(second.get("w"), [1.0; 6]);
    let delta = |trainer: &Trainer, numbers: &[i64], values: &[f32]| {
        let values = rows(numbers, values);
        let values = vec![("w", Array::of_rows(&values))];
        trainer.ask(&Request::PushDelta { trainer: trainer.rank, values }).unwrap();
    };
    delta(&first, &[2], &[0.5, 0.25]);
    delta(&second, &[2, 0], &[1.0, 1.0, -1.0, 0.0]);
    // The sender sees its own rows, too: others may have changed them.
    let now = [0.0, 1.0, 2.5, 2.25];
    assert_eq!(pull_geo(&first, "w"), (vec![0, 2], now.to_vec()));
    assert_eq!(pull_geo(&first, "w"), (vec![], vec![]));
    assert_eq!(pull_geo(&second, "w"), (vec![0, 2], now.to_vec()));
    let push = Request::Push { trainer: 0, values: vec![("w.delta", Array::of_tensor(&initial))] };
    assert!(first.fails(&push).contains("geo"));
    [first, second].into_iter().for_each(Trainer::complete);
    run.join().unwrap().unwrap();
}

#[test]
fn geo_sends_other_parameters_whole() {
    let cluster = Cluster::start(Mode::Geo, 1);
    let run = cluster.run();
    let trainer = cluster.trainer(0);
    let delta = dense(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let values = vec![("w", Array::of_tensor(&delta))];
    trainer.ask(&Request::PushDelta { trainer: 0, values }).unwrap();
    assert_eq!(pull_geo(&trainer, "w").1, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    trainer.complete();
    run.join().unwrap().unwrap();
}

#[test]
fn hybrid_waits_for_dense_values_only() {
    let cluster = Cluster::start(Mode::Hybrid, 2);
    let run = cluster.run();
    let [first, second] = [cluster.trainer(0), cluster.trainer(1)];
    first.push_own(&[2.0; 6]);
    first.push_keys(&[8], &[1.0, 1.0]);
    assert_eq!(second.pull("emb", &[8]), [0.0, 0.0]);
    assert_eq!(second.get("w"), [0.0; 6]);
    // Rows of a dense table are applied at once, too, and undivided.
    second.push("w@GRAD.trainer_1", Array::of_rows(&rows(&[0], &[3.0, 3.0])));
    assert_eq!(second.get("w"), [-3.0, -3.0, 0.0, 0.0, 0.0, 0.0]);
    let wait = first.begin(&Request::Barrier { trainer: 0 });
    second.barrier().unwrap();
    wait.wait().unwrap();
    assert_eq!(second.get("w"), [-5.0, -5.0, -2.0, -2.0, -2.0, -2.0]);
    [first, second].into_iter().for_each(Trainer::complete);
    run.join().unwrap().unwrap();
}

#[test]
fn trainers_meet() {
    let cluster = Cluster::start(Mode::Async, 2);
    let run = cluster.run();
    let trainers = [cluster.trainer(0), cluster.trainer(1)];
    for round in 0..2u8 {
        let name = "all_gather";
        let data = [[round; 3], [round + 10; 3]];
        let meet = |member: u32| Request::Meet {
            group: "trainer",
            name,
            member,
            members: 2,
            data: &data[member as usize],
        };
        let wait = trainers[1].begin(&meet(1));
        let first = trainers[0].ask(&meet(0)).unwrap();
        let second = wait.wait().unwrap();
        for body in [&first, &second] {
            let parts = vec![&data[0][..], &data[1][..]];
            assert_eq!(Answer::decode(body).unwrap(), Answer::Gathered { parts });
        }
    }
    let [first, second] = trainers;
    let barrier = Request::Meet { group: "trainer", name: "b", member: 0, members: 2, data: &[] };
    let wait = first.begin(&barrier);
    second.complete();
    let error = wait.wait().unwrap_err().to_string();
    assert!(error.contains("trainer 1 has finished") && error.contains("`b`"), "{error}");
    first.complete();
    run.join().unwrap().unwrap();
}

#[test]
fn tables_are_set_shrunk_cleared_and_described() {
    let cluster = Cluster::start(Mode::Async, 1);
    let run = cluster.run();
    let trainer = cluster.trainer(0);
    let (table, keys) = ("emb", &[1u64, u64::MAX][..]);
    let set = Request::SetRows { table, keys, values: &[1.0, 2.0, 3.0, 4.0] };
    trainer.ask(&set).unwrap();
    assert_eq!(trainer.pull(table, &[u64::MAX, 1]), [3.0, 4.0, 1.0, 2.0]);
    trainer.ask(&Request::Shrink { table: None }).unwrap();
    let body = trainer.ask(&Request::Stat).unwrap();
    let Answer::Text { text } = Answer::decode(&body).unwrap() else { panic!("no text") };
    let stat: Stat = serde_json::from_str(text).unwrap();
    assert_eq!((stat.tables[0].rows, stat.dense[0].shape.as_slice()), (2, &[3, 2][..]));
    let body = trainer.ask(&Request::Clear { table: Some(table) }).unwrap();
    assert_eq!(Answer::decode(&body).unwrap(), Answer::Counted { count: 2 });
    trainer.complete();
    run.join().unwrap().unwrap();
}

#[test]
fn a_value_that_has_not_changed_comes_without_its_elements() {
    let cluster = Cluster::start(Mode::Async, 1);
    let run = cluster.run();
    let trainer = cluster.trainer(0);
    let ask = |versions: Vec<u64>| {
        let (trainer_id, names) = (trainer.rank, vec!["w"]);
        let get = Request::Get { trainer: trainer_id, names, start: 0, versions, ahead: false };
        let body = trainer.ask(&get).unwrap();
        let Answer::Values { values, versions } = Answer::decode(&body).unwrap() else {
            panic!("no values")
        };
        (values[0].1.is_nothing_new(), values[0].1.bytes().len(), versions[0], body.len())
    };
    let (is_old, bytes, first, whole) = ask(vec![]);
    assert!(!is_old && bytes == 24 && first > 0);
    assert_eq!((ask(vec![0]).0, ask(vec![first + 1]).0), (false, false));
    let (is_old, bytes, again, short) = ask(vec![first]);
    assert!(is_old && bytes == 0 && again == first && short < whole, "{short} of {whole}");
    trainer.push("w@GRAD", Array::of_tensor(&dense(&[1.0; 6])));
    let (is_old, bytes, second, _) = ask(vec![first]);
    assert!(!is_old && bytes == 24 && second > first);
    trainer.complete();
    run.join().unwrap().unwrap();
}
