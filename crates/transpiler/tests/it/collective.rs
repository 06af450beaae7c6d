//! Programs without servers.

use bireme_engine::clip::GradClip;
use bireme_engine::optimizer::Sgd;
use bireme_ir::Program;
use bireme_transpiler::{CollectiveMode, Config, Mode, Transpiler};
use expect_test::expect_file;

use crate::models::{fc, kinds, servers};

fn collective(config: Config, trainers: usize) -> bireme_transpiler::Result<(Program, Program)> {
    let model = fc(&Sgd::new(0.1).grad_clip(GradClip::Norm(1.0)));
    let endpoints = servers(trainers);
    let (main, startup) = (&model.main, &model.startup);
    Transpiler::new(config)?.transpile_collective(0, main, startup, &endpoints, &endpoints[0])
}

fn text((main, startup): &(Program, Program)) -> String {
    format!("{main}\n# startup\n{startup}")
}

#[test]
fn gradients_are_reduced_before_they_are_clipped() {
    let config = Config { mode: Mode::Collective, ..Config::new() };
    let programs = collective(config, 2).unwrap();
    let ops = kinds(&programs.0, 0);
    let from = ops.iter().position(|op| *op == "elementwise_add_grad").unwrap();
    let expected = [
        "elementwise_add_grad",
        "c_sync_calc_stream",
        "c_allreduce_sum",
        "mul_grad",
        "c_sync_calc_stream",
        "c_allreduce_sum",
        "c_sync_comm_stream",
        "c_sync_comm_stream",
        "clip_by_norm",
        "clip_by_norm",
        "sgd",
        "sgd",
    ];
    assert_eq!(ops[from..], expected);
    expect_file!["golden/grad_allreduce.txt"].assert_eq(&text(&programs));
}

#[test]
fn local_sgd_reduces_parameters() {
    let config = Config {
        mode: Mode::Collective,
        collective_mode: Some(CollectiveMode::LocalSgd),
        ..Config::new()
    };
    expect_file!["golden/local_sgd.txt"].assert_eq(&text(&collective(config, 2).unwrap()));
}

#[test]
fn nccl2_changes_the_startup_only() {
    let config = Config {
        mode: Mode::Nccl2,
        nccl_comm_num: 2,
        use_hierarchical_allreduce: true,
        hierarchical_allreduce_inter_nranks: 2,
        ..Config::new()
    };
    let programs = collective(config.clone(), 4).unwrap();
    let op = programs.1.global().ops.last().unwrap();
    assert_eq!(op.kind, "gen_nccl_id");
    assert_eq!(op.attrs["trainers"], servers(4).into());
    for name in ["NCCLID", "NCCLID_1", "Hierarchical_inter_NCCLID_1", "Hierarchical_exter_NCCLID_0"]
    {
        assert!(programs.1.global().var(name).is_some(), "{name}");
    }
    let error = |trainers| collective(config.clone(), trainers).unwrap_err().to_string();
    assert_eq!(error(2), "trainers_num:2 < hierarchical_allreduce_inter_nranks:2");
    assert_eq!(error(3), "trainers_num:3 mod hierarchical_allreduce_inter_nranks:2 != 0");
}

#[test]
fn one_trainer_is_no_collective() {
    let config = Config { mode: Mode::Collective, ..Config::new() };
    let error = collective(config, 1).unwrap_err().to_string();
    assert_eq!(error, "the number of endpoints must > 1");
    assert!(collective(Config::new(), 2).unwrap_err().to_string().contains("use `transpile`"));
}
