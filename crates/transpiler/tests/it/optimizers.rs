//! Every optimizer is distributed: state goes with its parameter, norms keep it whole.

use bireme_engine::optimizer::*;
use bireme_ir::Op;
use bireme_transpiler::{Config, Transpiler};

use crate::catalog::check;
use crate::models::{TableKind, async_config, ctr, fc, mlp, servers, split};

pub(crate) fn optimizers() -> Vec<(&'static str, Box<dyn Optimizer>)> {
    vec![
        ("sgd", Box::new(Sgd::new(0.1))),
        ("momentum", Box::new(Momentum::new(0.1, 0.9))),
        ("adam", Box::new(Adam::new(0.1))),
        ("adamw", Box::new(AdamW::new(0.1))),
        ("adamax", Box::new(Adamax::new(0.1))),
        ("adagrad", Box::new(Adagrad::new(0.1))),
        ("decayed_adagrad", Box::new(DecayedAdagrad::new(0.1))),
        ("adadelta", Box::new(Adadelta::new(0.1))),
        ("rmsprop", Box::new(RmsProp::new(0.1).centered(true))),
        ("ftrl", Box::new(Ftrl::new(0.1))),
        ("lamb", Box::new(Lamb::new(0.1))),
        ("lars_momentum", Box::new(Lars::new(0.1, 0.9))),
    ]
}

#[test]
fn every_optimizer_is_split() {
    for (kind, optimizer) in optimizers() {
        let models = [
            mlp(&*optimizer),
            ctr(TableKind::Rows, &*optimizer),
            ctr(TableKind::Keyed, &*optimizer),
        ];
        for model in models {
            for (config, sync) in [(Config::new(), true), (async_config(), false)] {
                let split = split(&model, config, 3, 2, sync);
                check(split.trainer_program());
                check(split.trainer_startup());
                for endpoint in servers(3) {
                    let server = split.pserver_program(&endpoint).unwrap();
                    check(&server);
                    check(&split.startup_program(&endpoint).unwrap());
                    initialised(&server, &split.startup_program(&endpoint).unwrap());
                }
                let ops = &split.trainer_program().global().ops;
                assert!(ops.iter().all(|op| op.kind != kind), "{kind}");
            }
        }
    }
}

/// What a server keeps has a first value, tables of keys aside.
fn initialised(server: &bireme_ir::Program, startup: &bireme_ir::Program) {
    let written: Vec<&String> = startup.global().ops.iter().flat_map(Op::output_vars).collect();
    let keyed = |name: &str| {
        let serve = &server.global().ops[0].attrs["sparse_tables"];
        serve == &vec![format!("{name}:{}", server.blocks.len() - 1)].into()
    };
    for var in server.global().vars.values().filter(|var| var.persistable) {
        assert!(written.contains(&&var.name) || keyed(&var.name), "{}\n{startup}", var.name);
    }
}

#[test]
fn state_is_cut_with_its_parameter() {
    let split = split(&fc(&Adam::new(0.1)), Config::new(), 2, 1, true);
    let server = split.pserver_program(&servers(2)[1]).unwrap();
    let shape = |name: &str| server.global().var(name).unwrap().shape.clone();
    assert_eq!(shape("fc_w.block0"), [500, 1000]);
    assert_eq!(shape("fc_w_moment1_0.block0"), [500, 1000]);
    assert_eq!(shape("fc_w_beta1_pow_acc_0.block0"), [1]);
    assert_eq!(shape("learning_rate_0"), [1]);
}

#[test]
fn norms_are_of_whole_parameters() {
    let lamb: Box<dyn Optimizer> = Box::new(Lamb::new(0.1));
    let lars: Box<dyn Optimizer> = Box::new(Lars::new(0.1, 0.9));
    for optimizer in [lamb, lars] {
        let split = split(&fc(&*optimizer), Config::new(), 2, 2, true);
        assert!(split.located().all(|param| param.pieces.len() == 1));
    }
}

#[test]
fn an_unknown_optimizer_has_paddles_words() {
    let mut model = fc(&Sgd::new(0.1));
    for op in &mut model.main.global_mut().ops {
        if op.kind == "sgd" {
            op.kind = "dpsgd".to_owned();
        }
    }
    let transpiler = Transpiler::new(Config::new()).unwrap();
    let split = transpiler.transpile(0, &model.main, &model.startup, &servers(2), 2, true);
    assert_eq!(
        split.unwrap_err().to_string(),
        "Not supported optimizer for distributed training: dpsgd"
    );
}
