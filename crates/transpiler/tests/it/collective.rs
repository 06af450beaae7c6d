//! Programs without servers.

use bireme_engine::clip::GradClip;
use bireme_engine::optimizer::Sgd;
use bireme_ir::Program;
use bireme_transpiler::{
    CollectiveMode, CollectiveStrategy, Config, Distribution, GradientMerge, LocalSgd, Transpiler,
};
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
    let config = Config { mode: Distribution::Collective, ..Config::new() };
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
        mode: Distribution::Collective,
        collective_mode: Some(CollectiveMode::LocalSgd),
        ..Config::new()
    };
    expect_file!["golden/local_sgd.txt"].assert_eq(&text(&collective(config, 2).unwrap()));
}

#[test]
fn nccl2_changes_the_startup_only() {
    let config = Config {
        mode: Distribution::Nccl2,
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
    let config = Config { mode: Distribution::Collective, ..Config::new() };
    let error = collective(config, 1).unwrap_err().to_string();
    assert_eq!(error, "the number of endpoints must > 1");
    assert!(collective(Config::new(), 2).unwrap_err().to_string().contains("use `transpile`"));
}

fn rewritten(how: &CollectiveStrategy, trainers: usize) -> (Program, Program) {
    let model = fc(&Sgd::new(0.1).grad_clip(GradClip::Norm(1.0)));
    how.rewrite(trainers - 1, &servers(trainers), &model.main, &model.startup).unwrap()
}

/// The ops from the first gradient of a parameter on.
fn tail(program: &Program) -> Vec<&str> {
    let ops = kinds(program, 0);
    let from = ops.iter().position(|op| *op == "elementwise_add_grad").unwrap();
    ops[from..].to_vec()
}

#[test]
fn buckets_leave_while_the_backward_pass_goes_on() {
    let one = rewritten(&CollectiveStrategy::default(), 2);
    let expected =
        ["elementwise_add_grad", "mul_grad", "c_bucket_wait", "clip_by_norm", "clip_by_norm"];
    assert_eq!(tail(&one.0)[..5], expected);
    let wait = one.0.global().ops.iter().find(|op| op.kind == "c_bucket_wait").unwrap();
    assert_eq!(wait.inputs_of("X"), ["fc_b@GRAD", "fc_w@GRAD"]);
    assert_eq!(wait.inputs_of("X"), wait.outputs_of("Out"));
    let apart = CollectiveStrategy { fuse: false, ..CollectiveStrategy::default() };
    let expected = [
        "elementwise_add_grad",
        "c_bucket_start",
        "mul_grad",
        "c_bucket_wait",
        "c_bucket_wait",
        "clip_by_norm",
    ];
    assert_eq!(tail(&rewritten(&apart, 2).0)[..6], expected);
    let startup = kinds(&one.1, 0);
    assert_eq!(startup[startup.len() - 3..], ["c_broadcast", "c_broadcast", "c_sync_comm_stream"]);
    assert_eq!(tail(&rewritten(&apart, 1).0)[2], "clip_by_norm");
}

#[test]
fn merged_gradients_are_applied_in_a_condition() {
    let merge = Some(GradientMerge { k_steps: 4, average: true });
    let how = CollectiveStrategy { gradient_merge: merge, ..CollectiveStrategy::default() };
    let (main, startup) = rewritten(&how, 2);
    let expected = [
        "elementwise_add_grad",
        "mul_grad",
        "increment",
        "gradient_merge",
        "gradient_merge",
        "fill_constant",
        "fill_constant",
        "elementwise_mod",
        "equal",
        "conditional_block",
    ];
    assert_eq!(tail(&main), expected);
    assert_eq!(kinds(&main, 1), ["c_bucket_wait", "clip_by_norm", "clip_by_norm", "sgd", "sgd"]);
    assert_eq!(main.blocks[1].ops[1].inputs_of("X"), ["fc_b@GRAD@GradientMerge"]);
    assert!(startup.global().var("gradient_merge_step").is_some_and(|var| var.persistable));
}

#[test]
fn local_sgd_of_a_strategy_averages_in_a_condition() {
    let local = Some(LocalSgd { k_steps: 4, begin_step: 2 });
    let how = CollectiveStrategy { local_sgd: local, ..CollectiveStrategy::default() };
    let (main, _) = rewritten(&how, 4);
    assert_eq!(kinds(&main, 1), ["c_bucket_wait"]);
    let wait = &main.blocks[1].ops[0];
    assert_eq!(wait.attrs["scale"], 0.25f32.into());
    assert_eq!(wait.inputs_of("X"), ["fc_b", "fc_w"]);
    let both = CollectiveStrategy {
        gradient_merge: Some(GradientMerge { k_steps: 2, average: true }),
        ..how
    };
    assert!(both.check().unwrap_err().to_string().contains("exclude each other"));
    let none = CollectiveStrategy {
        local_sgd: Some(LocalSgd { k_steps: 0, begin_step: 1 }),
        ..CollectiveStrategy::default()
    };
    assert!(none.check().unwrap_err().to_string().contains("`k_steps` of `localsgd_configs`"));
}
