//! Tables on servers: row-sliced and keyed.

use bireme_engine::clip::GradClip;
use bireme_engine::layers::ParamAttr;
use bireme_engine::optimizer::{Adagrad, Adam, Adamax, Sgd};
use bireme_engine::regularizer::Regularizer;
use bireme_ir::Op;
use bireme_transpiler::{Config, Transpiler};
use expect_test::expect_file;

use crate::catalog::check;
use crate::models::{Model, TableKind, ctr, ctr_with, kinds, servers, split};

fn find<'a>(ops: &'a [Op], kind: &str) -> &'a Op {
    ops.iter().find(|op| op.kind == kind).unwrap()
}

#[test]
fn rows_are_looked_up_and_pushed() {
    let split = split(&ctr(TableKind::Rows, &Adam::new(0.1)), Config::new(), 2, 2, true);
    check(split.trainer_program());
    check(split.trainer_startup());
    let trainer = kinds(split.trainer_program(), 0);
    let count = |kind: &str| trainer.iter().filter(|other| **other == kind).count();
    assert_eq!(count("distributed_lookup_table"), 1);
    assert_eq!(count("lookup_table_v2"), 0);
    assert_eq!(count("lookup_table_v2_grad"), 2);
    assert_eq!(count("split_selected_rows"), 1);
    // The table never comes whole.
    let received = split.trainer_program().global().ops.iter().filter(|op| op.kind == "recv");
    assert!(received.clone().count() == 4);
    assert!(received.flat_map(Op::output_vars).all(|out| !out.starts_with("table")));
    assert_eq!(kinds(split.trainer_startup(), 0).iter().filter(|k| **k == "fake_init").count(), 1);
    expect_file!["golden/rows_trainer.txt"].assert_eq(&split.trainer_program().to_string());
    expect_file!["golden/rows_trainer_startup.txt"].assert_eq(&split.trainer_startup().to_string());
    let server = split.pserver_program(&servers(2)[0]).unwrap();
    let startup = split.startup_program(&servers(2)[0]).unwrap();
    check(&server);
    check(&startup);
    expect_file!["golden/rows_server0.txt"].assert_eq(&format!("{server}\n# startup\n{startup}"));
}

#[test]
fn keys_are_looked_up_and_pushed() {
    let split = split(&ctr(TableKind::Keyed, &Adagrad::new(0.1)), Config::new(), 2, 2, true);
    check(split.trainer_program());
    check(split.trainer_startup());
    let trainer = kinds(split.trainer_program(), 0);
    for gone in ["lookup_table_v2", "lookup_table_v2_grad", "split_selected_rows"] {
        assert!(!trainer.contains(&gone), "{trainer:?}");
    }
    let push = find(&split.trainer_program().global().ops, "distributed_push_sparse");
    assert_eq!(push.inputs_of("Ids"), ["C2", "C1"]);
    assert_eq!(split.keyed_tables().collect::<Vec<_>>(), ["table"]);
    expect_file!["golden/keyed_trainer.txt"].assert_eq(&split.trainer_program().to_string());
    for endpoint in servers(2) {
        let server = split.pserver_program(&endpoint).unwrap();
        check(&server);
        check(&split.startup_program(&endpoint).unwrap());
        let block = server.blocks.len() - 1;
        let ops = ["uniform_random", "lookup_sparse_table", "fill_constant", "adagrad"];
        assert_eq!(kinds(&server, block), ops);
    }
    let server = split.pserver_program(&servers(2)[0]).unwrap();
    let startup = split.startup_program(&servers(2)[0]).unwrap();
    expect_file!["golden/keyed_server0.txt"].assert_eq(&format!("{server}\n# startup\n{startup}"));
}

#[test]
fn a_table_with_a_dense_gradient_is_a_parameter() {
    let split = split(&ctr(TableKind::Dense, &Sgd::new(0.1)), Config::new(), 2, 2, true);
    check(split.trainer_program());
    let trainer = kinds(split.trainer_program(), 0);
    assert!(trainer.contains(&"lookup_table_v2") && !trainer.contains(&"split_selected_rows"));
}

#[test]
fn clipped_rows_are_sent_clipped() {
    for clip in [GradClip::GlobalNorm(1.0), GradClip::Norm(1.0)] {
        let model = ctr(TableKind::Rows, &Sgd::new(0.1).grad_clip(clip));
        let split = split(&model, Config::new(), 2, 2, true);
        check(split.trainer_program());
        let ops = &split.trainer_program().global().ops;
        let rows = find(ops, "split_selected_rows").inputs_of("X")[0].clone();
        let writer = ops.iter().find(|op| op.output_vars().any(|out| *out == rows)).unwrap();
        assert!(["elementwise_mul", "clip_by_norm"].contains(&writer.kind.as_str()));
    }
}

fn error(model: &Model) -> String {
    let transpiler = Transpiler::new(Config::new()).unwrap();
    let (main, startup) = (&model.main, &model.startup);
    let split = transpiler.transpile(0, main, startup, &servers(2), 2, true);
    let problem = split.and_then(|split| split.pserver_program(&servers(2)[0]));
    problem.unwrap_err().to_string()
}

#[test]
fn what_keyed_tables_cannot_do_is_said() {
    let clip = Sgd::new(0.1).grad_clip(GradClip::GlobalNorm(1.0));
    assert_eq!(
        error(&ctr(TableKind::Keyed, &clip)),
        "table `table`: its gradient is pushed row by row and cannot be clipped or read: give the \
         parameter `need_clip=False`"
    );
    let decay = Sgd::new(0.1).regularization(Regularizer::L2(0.1));
    let problem = error(&ctr(TableKind::Keyed, &decay));
    assert!(problem.contains("give the parameter no regularizer"), "{problem}");
}

#[test]
fn rates_and_powers_of_keyed_tables_are_settings() {
    let attr = ParamAttr::named("table").learning_rate(2.0);
    let split =
        split(&ctr_with(TableKind::Keyed, attr, &Adamax::new(0.1)), Config::new(), 1, 1, true);
    let server = split.pserver_program(&servers(1)[0]).unwrap();
    check(&server);
    let block = server.blocks.last().unwrap();
    let fill = "fill_constant";
    let ops = ["uniform_random", "lookup_sparse_table", fill, fill, fill, "adamax"];
    assert_eq!(kinds(&server, block.idx), ops);
    let settings = &block.ops[1].attrs;
    assert_eq!(settings["learning_rate_factor"], 2.0f32.into());
    assert_eq!(block.ops[5].inputs_of("LearningRate"), ["learning_rate_0"]);
    let power = block.ops.iter().find(|op| op.outputs_of("Out") == ["table_beta1_pow_acc_0"]);
    assert_eq!(power.unwrap().attrs["value"], 0.9f32.into());
}

#[test]
fn other_programs_can_look_rows_up_too() {
    for kind in [TableKind::Rows, TableKind::Keyed] {
        let model = ctr(kind, &Sgd::new(0.1));
        let split = split(&model, Config::new(), 2, 2, true);
        let mut evaluation = model.main.clone();
        let forward = |op: &Op| op.op_role().base() == bireme_ir::OpRole::FORWARD;
        evaluation.global_mut().ops.retain(forward);
        let remote = split.with_remote_lookups(&evaluation);
        check(&remote);
        assert_eq!(kinds(&remote, 0)[0], "distributed_lookup_table");
        assert!(!kinds(&remote, 0).contains(&"lookup_table_v2"));
    }
}

#[test]
fn entries_by_show_and_click_push_their_counts() {
    let mut model = ctr(TableKind::Keyed, &Sgd::new(0.1));
    let set = |model: &mut Model, entry: &str| {
        let lookups = model.main.global_mut().ops.iter_mut();
        for op in lookups.filter(|op| op.kind.starts_with("lookup_table_v2")) {
            op.attrs.insert("entry".to_owned(), entry.into());
        }
    };
    set(&mut model, "show_click_entry:dense:label");
    let split = split(&model, Config::new(), 2, 2, true);
    check(split.trainer_program());
    let push = find(&split.trainer_program().global().ops, "distributed_push_sparse");
    assert_eq!(
        (push.inputs_of("Shows"), push.inputs_of("Clicks")),
        (["dense".to_owned()].as_slice(), ["label".to_owned()].as_slice(),)
    );
    // A lookup with an entry of its own is pushed with its own counts.
    let lookups = model.main.global_mut().ops.iter_mut();
    let grad = lookups.filter(|op| op.kind == "lookup_table_v2_grad").last().unwrap();
    grad.attrs.insert("entry".to_owned(), "show_click_entry:label:label".into());
    let apart = self::split(&model, Config::new(), 2, 2, true);
    let pushes = &apart.trainer_program().global().ops;
    let pushes = pushes.iter().filter(|op| op.kind == "distributed_push_sparse");
    let mut shows: Vec<&str> = pushes.map(|op| op.inputs_of("Shows")[0].as_str()).collect();
    shows.sort_unstable();
    assert_eq!(shows, ["dense", "label"]);
    set(&mut model, "show_click_entry:shows:label");
    assert_eq!(
        error(&model),
        "table `table`: its entry counts `shows`, which the program does not have"
    );
}

/// Ids that come from rows of the same table need a lookup of their own.
#[test]
fn lookups_that_depend_on_each_other_stay_apart() {
    let mut model = ctr(TableKind::Rows, &Sgd::new(0.1));
    let ops = &mut model.main.global_mut().ops;
    let first = ops[0].outputs_of("Out").to_vec();
    ops.insert(1, Op::new("arg_max").input("X", first).output("Out", ["C2"]).attr("axis", 1i64));
    let split = split(&model, Config::new(), 2, 2, true);
    let kinds = kinds(split.trainer_program(), 0);
    let expected = ["distributed_lookup_table", "arg_max", "distributed_lookup_table", "concat"];
    assert_eq!(kinds[..4], expected);
}
