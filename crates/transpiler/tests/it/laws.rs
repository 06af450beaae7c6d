//! Laws of every split: slices cover, gradients meet their parameters, roles agree.

use std::collections::BTreeMap;

use bireme_engine::optimizer::{Adam, Sgd};
use bireme_ir::{Attr, Op, Program};
use bireme_transpiler::{Config, SplitMethod, Transpiled, Transpiler};
use proptest::prelude::*;

use crate::catalog::check;
use crate::models::{Model, TableKind, ctr, fc, servers, split};

fn strings(op: &Op, name: &str) -> Vec<String> {
    match &op.attrs[name] {
        Attr::Strings(values) => values.clone(),
        other => panic!("`{name}` is {other:?}"),
    }
}

/// What a trainer sends and receives, as (endpoint, name on the server).
fn traffic(trainer: &Program, kind: &str, names: &str) -> Vec<(String, String)> {
    let ops = trainer.global().ops.iter().filter(|op| op.kind == kind);
    ops.flat_map(|op| strings(op, "epmap").into_iter().zip(strings(op, names))).collect()
}

/// That each server expects what trainers send it, and has what they ask for.
fn agree(model: &Model, transpiler: &Transpiler, pservers: usize, trainers: usize, sync: bool) {
    let endpoints = servers(pservers);
    let of = |trainer| {
        let (main, startup) = (&model.main, &model.startup);
        transpiler.transpile(trainer, main, startup, &endpoints, trainers, sync).unwrap()
    };
    let splits: Vec<Transpiled> = (0..trainers).map(of).collect();
    let mut expected: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut programs = BTreeMap::new();
    for endpoint in &endpoints {
        let server = splits[0].pserver_program(endpoint).unwrap();
        // Whoever computes it.
        assert_eq!(server, splits[trainers - 1].pserver_program(endpoint).unwrap());
        for name in server.global().ops[0].inputs_of("X") {
            expected.insert((endpoint.clone(), name.clone()), 0);
        }
        programs.insert(endpoint.clone(), server);
    }
    for split in &splits {
        for sent in traffic(split.trainer_program(), "send", "send_varnames") {
            *expected.get_mut(&sent).unwrap_or_else(|| panic!("{sent:?}")) += 1;
        }
        for program in [split.trainer_program(), split.trainer_startup()] {
            for (endpoint, name) in traffic(program, "recv", "recv_varnames") {
                assert!(programs[&endpoint].global().var(&name).is_some(), "{name}");
            }
        }
    }
    let senders = if sync || trainers == 1 { 1 } else { trainers };
    assert!(expected.values().all(|count| *count == senders), "{expected:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn roles_agree(
        pservers in 1usize..7, trainers in 1usize..5, sync: bool, slice_var_up: bool, hash: bool,
        sparse: bool,
    ) {
        let split_method = if hash { SplitMethod::HashName } else { SplitMethod::RoundRobin };
        let config = Config { slice_var_up, split_method, ..Config::new() };
        let kind = if sparse { TableKind::Rows } else { TableKind::Dense };
        let model = ctr(kind, &Adam::new(0.1));
        agree(&model, &Transpiler::new(config).unwrap(), pservers, trainers, sync);
    }
}

#[test]
fn twenty_servers_with_fifty_trainers() {
    let transpiler = Transpiler::new(Config::new()).unwrap();
    agree(&fc(&Sgd::new(0.1)), &transpiler, 20, 50, true);
    let split = split(&fc(&Sgd::new(0.1)), Config::new(), 20, 50, true);
    check(split.trainer_program());
    for endpoint in servers(20) {
        check(&split.pserver_program(&endpoint).unwrap());
    }
    let pieces: Vec<usize> = split.located().map(|param| param.pieces.len()).collect();
    assert_eq!(pieces, [1, 20]);
}

/// The first values of a slice are those that the whole variable has there.
#[test]
fn slices_begin_as_the_whole_does() {
    let split = split(&fc(&Sgd::new(0.1)), Config::new(), 4, 1, true);
    let mut offsets = Vec::new();
    for endpoint in servers(4) {
        let startup = split.startup_program(&endpoint).unwrap();
        assert_eq!(startup.random_seed, 7);
        for op in startup.global().ops.iter().filter(|op| op.kind == "uniform_random") {
            assert_eq!(op.attrs["init_name"], "fc_w".into());
            let Attr::Long(offset) = op.attrs["init_offset"] else { panic!() };
            assert_eq!(op.attrs["shape"], vec![250i64, 1000].into());
            offsets.push(offset);
        }
    }
    offsets.sort_unstable();
    assert_eq!(offsets, [0, 250_000, 500_000, 750_000]);
}
