//! Async, half-async, hybrid and geo: what differs from sync.

use bireme_engine::optimizer::{Adam, Sgd};
use bireme_ir::{Attr, Op};
use bireme_transpiler::{Config, Mode};
use expect_test::expect_file;

use crate::catalog::check;
use crate::models::{TableKind, async_config, ctr, fc, kinds, servers, split};

#[test]
fn async_has_no_barriers() {
    let split = split(&fc(&Sgd::new(0.1)), async_config(), 2, 2, false);
    assert_eq!(split.mode(), Mode::Async);
    check(split.trainer_program());
    let trainer = kinds(split.trainer_program(), 0);
    assert_eq!(trainer[trainer.len() - 4..], ["send", "recv", "recv", "concat"]);
    assert!(!trainer.contains(&"send_barrier") && !trainer.contains(&"fetch_barrier"));
    // Each parameter comes after its own gradient went.
    let ops = &split.trainer_program().global().ops;
    let of = |kind: &str| ops.iter().filter(|op| op.kind == kind).collect::<Vec<&Op>>();
    for (send, recv) in of("send").iter().zip(of("recv")) {
        assert_eq!(send.outputs_of("Out"), recv.inputs_of("X"));
    }
    let server = split.pserver_program(&servers(2)[0]).unwrap();
    check(&server);
    assert_eq!(kinds(&server, 1), ["sgd"]);
    assert_eq!(server.global().ops[0].inputs_of("X"), ["fc_b@GRAD", "fc_w@GRAD.block1"]);
}

#[test]
fn half_async_waits_for_its_own() {
    let split = split(&fc(&Sgd::new(0.1)), Config::new(), 2, 2, false);
    assert_eq!(split.mode(), Mode::HalfAsync);
    check(split.trainer_program());
    let trainer = kinds(split.trainer_program(), 0);
    assert_eq!(trainer[trainer.len() - 4..], ["send_barrier", "recv", "recv", "concat"]);
    let ops = &split.trainer_program().global().ops;
    let barrier = ops.iter().find(|op| op.kind == "send_barrier").unwrap();
    assert_eq!(barrier.attrs["half_async"], Attr::Bool(true));
}

#[test]
fn dc_asgd_is_told_to_servers() {
    let config = Config { enable_dc_asgd: true, dc_asgd_lambda: 0.5, ..async_config() };
    let split = split(&fc(&Sgd::new(0.1)), config, 1, 2, false);
    let server = split.pserver_program(&servers(1)[0]).unwrap();
    let serve = &server.global().ops[0].attrs;
    assert_eq!((&serve["dc_asgd"], &serve["dc_asgd_lambda"]), (&true.into(), &0.5f32.into()));
}

#[test]
fn hybrid_sums_dense_gradients_only() {
    let config = Config { hybrid: true, staleness: 2, ..Config::new() };
    let split = split(&ctr(TableKind::Rows, &Adam::new(0.1)), config, 1, 2, true);
    check(split.trainer_program());
    let server = split.pserver_program(&servers(1)[0]).unwrap();
    check(&server);
    for block in &server.blocks[1..] {
        let update = block.ops.last().unwrap();
        let table = update.inputs_of("Param") == ["table"];
        let expected: &[&str] = if table { &["adam"] } else { &["sum", "scale", "adam"] };
        assert_eq!(kinds(&server, block.idx), expected);
    }
    let ops = &split.trainer_program().global().ops;
    let barrier = ops.iter().find(|op| op.kind == "send_barrier").unwrap();
    assert_eq!(barrier.attrs["staleness"], Attr::Int(2));
    let sent: Vec<&Attr> =
        ops.iter().filter(|op| op.kind == "send").map(|op| &op.attrs["send_varnames"]).collect();
    assert!(sent.contains(&&Attr::Strings(vec!["table@GRAD".to_owned()])));
}

#[test]
fn geo_keeps_the_optimizer_and_exchanges_differences() {
    let config = Config { geo_sgd_mode: true, geo_sgd_need_push_nums: 10, ..Config::new() };
    for kind in [TableKind::Rows, TableKind::Keyed] {
        let model = ctr(kind, &Adam::new(0.1));
        let split = split(&model, config.clone(), 2, 2, false);
        check(split.trainer_program());
        check(split.trainer_startup());
        let (last, rest) = split.trainer_program().global().ops.split_last().unwrap();
        assert_eq!(rest, model.main.global().ops);
        assert_eq!(last.kind, "geo_exchange");
        assert_eq!(last.inputs_of("Ids"), ["C1", "C2"]);
        let params = last.inputs_of("Param").to_vec();
        let table = params.iter().position(|param| param == "table").unwrap();
        let Attr::Ints(ids) = &last.attrs["ids_per_param"] else { panic!() };
        assert_eq!(ids[table], 2);
        assert!(ids.iter().enumerate().all(|(i, ids)| i == table || *ids == -1));
        for endpoint in servers(2) {
            let server = split.pserver_program(&endpoint).unwrap();
            check(&server);
            check(&split.startup_program(&endpoint).unwrap());
            for block in 1..server.blocks.len() {
                assert_eq!(kinds(&server, block), ["sum"]);
            }
        }
    }
    let split = split(&fc(&Sgd::new(0.1)), config, 2, 2, false);
    let server = split.pserver_program(&servers(2)[0]).unwrap();
    let startup = split.startup_program(&servers(2)[0]).unwrap();
    let trainer = split.trainer_program().global().ops.last().unwrap();
    let mut only = bireme_ir::Program::new();
    only.global_mut().ops.push(trainer.clone());
    expect_file!["golden/geo.txt"]
        .assert_eq(&format!("# exchange\n{only}\n# server\n{server}\n# startup\n{startup}"));
}
