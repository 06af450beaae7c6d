//! Programs cut into stages for heter workers.

use bireme_engine::clip::GradClip;
use bireme_engine::graph::Graph;
use bireme_engine::layers::*;
use bireme_engine::optimizer::{Optimizer, Sgd};
use bireme_ir::{Attr, DType, Op, Program};
use bireme_transpiler::{Config, Heter, Place, Result, Transpiled, Transpiler};
use expect_test::expect_file;

use crate::catalog::check;
use crate::models::{Model, TableKind, async_config, kinds, servers, split, staged_ctr};

fn workers(counts: &[usize]) -> Heter {
    let mut port = 6200;
    let mut endpoint = || {
        port += 1;
        format!("127.0.0.1:{port}")
    };
    let stages = counts.iter().map(|count| (0..*count).map(|_| endpoint()).collect()).collect();
    Heter { stages, micro_batches: 2 }
}

fn cut(
    model: &Model,
    config: Config,
    heter: &Heter,
    (stage, index): (usize, usize),
) -> Result<Transpiled> {
    let sync = config.sync_mode;
    let (main, startup, place) = (&model.main, &model.startup, Place { stage, index });
    Transpiler::new(config)?.transpile_heter(place, main, startup, &servers(2), 2, heter, sync)
}

fn find<'a>(program: &'a Program, kind: &str) -> Option<&'a Op> {
    program.global().ops.iter().find(|op| op.kind == kind)
}

fn strings<'a>(op: &'a Op, name: &str) -> &'a [String] {
    match op.attrs.get(name) {
        Some(Attr::Strings(texts)) => texts,
        _ => &[],
    }
}

#[test]
fn trainers_look_up_and_heter_workers_learn() {
    let model = staged_ctr(TableKind::Keyed, 2, &Sgd::new(0.1));
    let heter = workers(&[2]);
    let trainer = cut(&model, Config::new(), &heter, (0, 0)).unwrap();
    check(trainer.trainer_program());
    check(trainer.trainer_startup());
    let worker = cut(&model, Config::new(), &heter, (1, 1)).unwrap();
    check(worker.trainer_program());
    check(worker.trainer_startup());
    let ask = find(trainer.trainer_program(), "send_and_recv").unwrap();
    assert_eq!(ask.inputs_of("X"), ["label", "concat_0.tmp_0"]);
    assert_eq!(ask.outputs_of("Out"), ["concat_0.tmp_0@GRAD"]);
    let listen = find(worker.trainer_program(), "heter_listen_and_serv").unwrap();
    assert_eq!(listen.outputs_of("Out"), ask.inputs_of("X"));
    assert_eq!(strings(listen, "answer_varnames"), ask.outputs_of("Out"));
    // The servers wait for four: two trainers and two heter workers.
    let server = trainer.pserver_program(&servers(2)[0]).unwrap();
    check(&server);
    assert_eq!(find(&server, "listen_and_serv").unwrap().attrs["Fanin"], Attr::Int(4));
    let text = format!("{}\n# startup\n{}", trainer.trainer_program(), trainer.trainer_startup());
    expect_file!["golden/heter_trainer.txt"].assert_eq(&text);
    let text = format!("{}\n# startup\n{}", worker.trainer_program(), worker.trainer_startup());
    expect_file!["golden/heter_worker.txt"].assert_eq(&text);
    expect_file!["golden/heter_server0.txt"].assert_eq(&server.to_string());
}

#[test]
fn every_op_is_in_one_stage_and_servers_see_the_same_job() {
    for (kind, stages, config) in [
        (TableKind::Rows, 2, Config::new()),
        (TableKind::Dense, 2, async_config()),
        (TableKind::Keyed, 3, Config::new()),
        (TableKind::Rows, 3, async_config()),
    ] {
        let model = staged_ctr(kind, stages, &Sgd::new(0.1));
        let heter = workers(&vec![2; stages - 1]);
        let sync = config.sync_mode;
        let whole = split(&model, config.clone(), 2, 2, sync);
        let is_work = |op: &&Op| op.op_role().0 & 15 <= 1;
        let mut expected = kinds(whole.trainer_program(), 0).len();
        expected -= whole.trainer_program().global().ops.iter().filter(|o| !is_work(o)).count();
        let mut found = 0;
        for stage in 0..stages {
            let cut = cut(&model, config.clone(), &heter, (stage, 0)).unwrap();
            let program = cut.trainer_program();
            check(program);
            check(cut.trainer_startup());
            found += program.global().ops.iter().filter(is_work).count();
            let has = |kind| find(program, kind).is_some();
            assert_eq!(has("heter_listen_and_serv"), stage > 0);
            assert_eq!(has("send_and_recv"), stage + 1 < stages);
            assert_eq!(has("distributed_lookup_table"), stage == 0 && kind != TableKind::Dense);
            assert_eq!(has("send_barrier"), sync);
            for endpoint in servers(2) {
                check(&cut.pserver_program(&endpoint).unwrap());
                check(&cut.startup_program(&endpoint).unwrap());
            }
        }
        assert_eq!(found, expected, "{stages} stages");
    }
}

#[test]
fn what_cannot_be_cut_is_said() {
    let model = staged_ctr(TableKind::Keyed, 2, &Sgd::new(0.1));
    let problem = |model: &Model, heter: &Heter| {
        cut(model, Config::new(), heter, (0, 0)).unwrap_err().to_string()
    };
    let plain = crate::models::ctr(TableKind::Keyed, &Sgd::new(0.1));
    let text = problem(&plain, &workers(&[1]));
    assert!(text.contains("no op of the program is theirs") && text.contains("device_guard"));
    let text = problem(&model, &workers(&[1, 1]));
    assert!(text.contains("the cluster has 3 stages, but the devices of the program make 2"));
    assert!(text.contains("`mul`"), "{text}");
    let text = problem(&model, &workers(&[5]));
    assert!(text.contains("5 heter workers, but a sync step only 4 micro-batches"), "{text}");
    let clipped = Sgd::new(0.1).grad_clip(GradClip::Norm(1.0));
    let text = problem(&staged_ctr(TableKind::Rows, 2, &clipped), &workers(&[1]));
    assert!(text.contains("with 2 micro-batches no process has the gradient"), "{text}");
    let once = Heter { micro_batches: 1, ..workers(&[1]) };
    let global = Sgd::new(0.1).grad_clip(GradClip::GlobalNorm(1.0));
    let dense = staged_ctr(TableKind::Dense, 2, &global);
    let text = problem(&dense, &once);
    assert!(text.contains("clips by gradients of several stages"), "{text}");
}

#[test]
fn values_do_not_travel_against_the_stages() {
    let graph = Graph::new();
    let ids = input(&graph, "ids", [-1], DType::I64);
    let embed = Embedding::new([100, 4]).sparse(true).param_attr(ParamAttr::named("table"));
    let rows = graph.with_device("gpu", || embed.apply(&ids)).unwrap();
    let loss = graph.with_device("gpu", || mean(&rows)).unwrap();
    Sgd::new(0.1).minimize(&loss).unwrap();
    let error = cut(&Model::new(&graph), Config::new(), &workers(&[1]), (0, 0)).unwrap_err();
    assert!(error.to_string().contains("tables are the trainers'"), "{error}");
}
