//! Learning rates: schedules on servers, counters of async trainers, rates that trainers send.

use bireme_engine::graph::Graph;
use bireme_engine::layers::{Act, ParamAttr, data, fc as fc_layer, fill_constant, mean, scale};
use bireme_engine::lr::{Lr, Schedule};
use bireme_engine::optimizer::{Adam, Optimizer, Sgd};
use bireme_ir::{Attr, DType, Op, OpRole, Program};
use bireme_transpiler::Config;
use expect_test::expect_file;

use crate::catalog::check;
use crate::models::{Model, TableKind, async_config, ctr_with, fc, kinds, servers, split};

fn decay() -> Schedule {
    Schedule::Exponential { rate: 0.1, decay_steps: 10.0, decay_rate: 0.5, staircase: true }
}

fn serve(program: &Program) -> &Op {
    &program.global().ops[0]
}

#[test]
fn schedules_run_first_on_servers() {
    let split = split(&fc(&Sgd::new(decay())), Config::new(), 2, 2, true);
    check(split.trainer_program());
    let trainer = kinds(split.trainer_program(), 0);
    assert!(!trainer.contains(&"increment"), "{trainer:?}");
    let vars = &split.trainer_program().global().vars;
    assert!(!vars.contains_key("@LR_DECAY_COUNTER@") && !vars.contains_key("learning_rate_0"));
    let server = split.pserver_program(&servers(2)[0]).unwrap();
    let startup = split.startup_program(&servers(2)[0]).unwrap();
    check(&server);
    check(&startup);
    assert_eq!(serve(&server).attrs["lr_decay_block_id"], Attr::Int(1));
    assert_eq!(kinds(&server, 1)[0], "increment");
    expect_file!["golden/schedule_server0.txt"]
        .assert_eq(&format!("{server}\n# startup\n{startup}"));
}

#[test]
fn async_servers_add_up_the_steps_of_trainers() {
    let split = split(&fc(&Sgd::new(decay())), async_config(), 2, 3, false);
    check(split.trainer_program());
    check(split.trainer_startup());
    let ops = &split.trainer_program().global().ops;
    let send = ops.iter().find(|op| op.kind == "send").unwrap();
    assert_eq!(send.inputs_of("X"), ["@LR_DECAY_COUNTER@.trainer_0"; 2]);
    assert_eq!(send.attrs["merge_add"], Attr::Bool(true));
    assert_eq!(send.attrs["use_send_handler"], Attr::Bool(false));
    let server = split.pserver_program(&servers(2)[0]).unwrap();
    let startup = split.startup_program(&servers(2)[0]).unwrap();
    check(&server);
    check(&startup);
    assert_eq!(kinds(&server, 1)[..2], ["sum", "cast"]);
    let counters: Vec<String> =
        (0..3).map(|trainer| format!("@LR_DECAY_COUNTER@.trainer_{trainer}")).collect();
    assert_eq!(server.blocks[1].ops[0].inputs_of("X"), counters);
    assert_eq!(serve(&server).attrs["lr_counters"], Attr::Strings(counters));
    expect_file!["golden/schedule_async_server0.txt"]
        .assert_eq(&format!("{server}\n# startup\n{startup}"));
}

#[test]
fn a_parameters_own_factor_is_part_of_its_update() {
    let attr = ParamAttr::named("table").learning_rate(2.0);
    let model = ctr_with(TableKind::Rows, attr, &Adam::new(decay()));
    for (config, sync) in [(Config::new(), true), (async_config(), false)] {
        let split = split(&model, config, 2, 2, sync);
        check(split.trainer_program());
        for endpoint in servers(2) {
            let server = split.pserver_program(&endpoint).unwrap();
            check(&server);
            let table = |op: &Op| op.inputs_of("Param").iter().any(|p| p.starts_with("table"));
            let block = server.blocks.iter().find(|block| block.ops.iter().any(table)).unwrap();
            let ops = kinds(&server, block.idx);
            assert_eq!(ops[ops.len() - 2..], ["scale", "adam"]);
        }
    }
}

#[test]
fn a_rate_that_trainers_set_is_sent_by_the_first() {
    let config = Config { learning_rate_from_trainer: true, ..Config::new() };
    let model = fc(&Adam::new(0.1));
    let transpiler = bireme_transpiler::Transpiler::new(config).unwrap();
    for trainer in 0..2 {
        let (main, startup) = (&model.main, &model.startup);
        let split = transpiler.transpile(trainer, main, startup, &servers(2), 2, true).unwrap();
        check(split.trainer_program());
        check(split.trainer_startup());
        let ops = &split.trainer_program().global().ops;
        let sends: Vec<&Op> = ops
            .iter()
            .filter(|op| op.kind == "send" && op.inputs_of("X").contains(&"learning_rate_0".into()))
            .collect();
        assert_eq!(sends.len(), usize::from(trainer == 0));
        for send in sends {
            let names = vec!["learning_rate_0".to_owned(); 2];
            assert_eq!(send.attrs["send_varnames"], Attr::Strings(names));
            assert_eq!(send.attrs["use_send_handler"], Attr::Bool(false));
        }
        let server = split.pserver_program(&servers(2)[0]).unwrap();
        let assigned = Attr::Strings(vec!["learning_rate_0".to_owned()]);
        assert_eq!(serve(&server).attrs["assigned_vars"], assigned);
    }
}

#[test]
fn every_schedule_moves_to_servers() {
    let schedules = [
        Schedule::Noam { d_model: 64.0, warmup_steps: 100.0, rate: 1.0 },
        Schedule::Piecewise { boundaries: vec![10, 20], values: vec![0.1, 0.05, 0.01] },
        Schedule::Polynomial { rate: 0.1, decay_steps: 9.0, end: 0.01, power: 2.0, cycle: true },
        Schedule::Cosine { rate: 0.1, step_each_epoch: 10.0, epochs: 3.0 },
        Schedule::LinearWarmup {
            warmup_steps: 5.0,
            start: 0.0,
            end: 0.1,
            then: Box::new(decay().into()),
        },
    ];
    for schedule in schedules {
        for (config, sync) in [(Config::new(), true), (async_config(), false)] {
            let split = split(&fc(&Sgd::new(schedule.clone())), config, 2, 2, sync);
            check(split.trainer_program());
            check(split.trainer_startup());
            for endpoint in servers(2) {
                check(&split.pserver_program(&endpoint).unwrap());
                check(&split.startup_program(&endpoint).unwrap());
            }
        }
    }
}

#[test]
fn a_rate_that_trainers_compute_is_sent() {
    let graph = Graph::new();
    let x = data(&graph, "x", [4], DType::F32);
    let loss = mean(&fc_layer(&x, 3, Act::None).unwrap()).unwrap();
    let rate = fill_constant(&graph, [1], DType::F32, 0.1).unwrap();
    let rate = scale(&rate, 0.5, 0.0).unwrap();
    Sgd::new(Lr::Variable(rate.name().to_owned())).minimize(&loss).unwrap();
    let split = split(&Model::new(&graph), Config::new(), 2, 2, true);
    check(split.trainer_program());
    let ops = &split.trainer_program().global().ops;
    let sends = |op: &&Op| op.kind == "send" && op.inputs_of("X").contains(&rate.name().to_owned());
    assert_eq!(ops.iter().filter(sends).count(), 1);
    let server = split.pserver_program(&servers(2)[0]).unwrap();
    check(&server);
    check(&split.startup_program(&servers(2)[0]).unwrap());
    let assigned = Attr::Strings(vec![rate.name().to_owned()]);
    assert_eq!(serve(&server).attrs["assigned_vars"], assigned);
    assert!(server.global().var(rate.name()).unwrap().persistable);
}

/// Paddle 1.x writes piecewise schedules with blocks that run on a condition.
#[test]
fn blocks_of_schedules_move_with_them() {
    let mut model = fc(&Sgd::new(decay()));
    let inner = model.main.append_block(0);
    let value = Op::new("fill_constant").output("Out", ["learning_rate_0"]);
    inner.ops.push(value.attr("shape", vec![1i64]).attr("dtype", 5).attr("value", 0.5f32));
    let mut choose = Op::new("conditional_block").role(OpRole::LR_SCHED);
    choose = choose.input("Cond", ["learning_rate.tmp_0"]).output("Out", ["learning_rate_0"]);
    choose.attrs.insert("sub_block".to_owned(), Attr::Block(1));
    let ops = &mut model.main.global_mut().ops;
    let last = ops.iter().rposition(|op| op.op_role() == OpRole::LR_SCHED).unwrap();
    ops.insert(last + 1, choose);
    let split = split(&model, Config::new(), 1, 2, true);
    assert!(split.trainer_program().blocks[1].ops.is_empty());
    let server = split.pserver_program(&servers(1)[0]).unwrap();
    let moved = server.blocks[1].ops.last().unwrap();
    assert_eq!(
        (moved.kind.as_str(), &moved.attrs["sub_block"]),
        ("conditional_block", &Attr::Block(2))
    );
    assert_eq!((server.blocks[2].parent, kinds(&server, 2)), (Some(1), vec!["fill_constant"]));
    assert_eq!(kinds(&server, 3), ["sum", "scale", "sgd"]);
}
