//! Collective equals local: ranks that reduce among themselves have the parameters of one process on
//! the joint batch, and all have the same bits.

use bireme_engine::clip::GradClip;
use bireme_engine::optimizer::{Optimizer, Sgd};
use bireme_fleet::Strategy;
use bireme_fleet::transpiler::{
    CollectiveMode, CollectiveStrategy, Config, Distribution, Transpiler,
};
use bireme_testkit::models::{Batch, Model, Table, ctr_batches, ctr_dnn, mnist_batches, mnist_mlp};
use bireme_testkit::ranks::{Ranks, Trained};
use bireme_testkit::{Params, difference, local};

use crate::optimizers::optimizers;

const STEPS: usize = 12;
/// Divides evenly by one to four.
const BATCH: usize = 12;
const TOLERANCE: f32 = 1e-6;

fn models() -> Vec<(String, Model, Vec<Batch>)> {
    let clipped = Sgd::new(0.1).grad_clip(GradClip::GlobalNorm(0.3));
    let clipped: (&str, Box<dyn Optimizer>) = ("clipped", Box::new(clipped));
    let mut models = Vec::new();
    for (kind, optimizer) in optimizers().into_iter().chain([clipped]) {
        let clicks = ctr_dnn(Table::Sliced, optimizer.as_ref()).unwrap();
        models.push((format!("clicks, {kind}"), clicks, ctr_batches(STEPS, BATCH)));
        let digits = mnist_mlp(optimizer.as_ref()).unwrap();
        models.push((format!("digits, {kind}"), digits, mnist_batches(STEPS, BATCH)));
    }
    models
}

/// That all ranks have the same bits, and what they should be.
fn equals(what: &str, expected: &Params, trained: &[Trained]) {
    for (rank, other) in trained.iter().enumerate() {
        assert!(other.params == trained[0].params, "{what}: rank {rank} differs from rank 0");
    }
    let difference = difference(expected, &trained[0].params);
    assert!(difference <= TOLERANCE, "{what}: {difference:e}");
}

#[test]
fn reduced_gradients_equal_the_joint_batch() {
    for (what, model, batches) in models() {
        let (expected, _) = local::train(&model, &batches).unwrap();
        for size in [1, 2, 3, 4] {
            let ranks = Ranks::new(size);
            let trained = ranks.train(&model, &batches, &Strategy::default()).unwrap();
            equals(&format!("{what}, {size} ranks"), &expected, &trained);
        }
        let again = || Ranks::new(3).train(&model, &batches, &Strategy::default()).unwrap();
        assert!(again() == again(), "{what}: not the same bits every time");
    }
}

/// Buckets of any size, one for each gradient, and worker threads change nothing but speed.
#[test]
fn buckets_and_threads_change_nothing() {
    let model = ctr_dnn(Table::Sliced, &Sgd::new(0.1)).unwrap();
    let batches = ctr_batches(STEPS, BATCH);
    let (expected, _) = local::train(&model, &batches).unwrap();
    let buckets = [(true, 32.0), (true, 0.01), (true, 0.0), (false, 32.0)];
    for (fuse, bucket_mb) in buckets {
        for threads in [1, 2] {
            let ranks = Ranks { threads, ..Ranks::new(2) };
            let how = CollectiveStrategy { fuse, bucket_mb, ..CollectiveStrategy::default() };
            let trained = ranks.train(&model, &batches, &Strategy::collective(how)).unwrap();
            equals(&format!("{bucket_mb} MB, {threads} threads"), &expected, &trained);
        }
    }
}

/// Batches cut into `parts` smaller ones, which one update sees together.
fn cut(batches: &[Batch], parts: usize) -> Vec<Batch> {
    let part = |batch: &Batch, part| bireme_testkit::models::share(batch, part, parts);
    batches.iter().flat_map(|batch| (0..parts).map(move |at| part(batch, at))).collect()
}

#[test]
fn merged_gradients_equal_a_larger_batch() {
    for (what, model, batches) in models() {
        let (expected, _) = local::train(&model, &batches).unwrap();
        for (size, k) in [(1, 2), (2, 1), (2, 3), (3, 2)] {
            let strategy = Strategy::default().gradient_merge(k);
            let small = cut(&batches, k as usize);
            let trained = Ranks::new(size).train(&model, &small, &strategy).unwrap();
            equals(&format!("{what}, {size} ranks, {k} steps"), &expected, &trained);
        }
    }
}

/// With plain SGD the mean of the parameters is the step by the mean of the gradients.
#[test]
fn local_sgd_of_every_step_equals_reduced_gradients() {
    let batches = mnist_batches(STEPS, BATCH);
    let model = mnist_mlp(&Sgd::new(0.1)).unwrap();
    let (expected, _) = local::train(&model, &batches).unwrap();
    for size in [2, 3] {
        for (k, begin) in [(1, 1), (5, STEPS as i32)] {
            let strategy = Strategy::default().local_sgd(k, begin);
            let trained = Ranks::new(size).train(&model, &batches, &strategy).unwrap();
            equals(&format!("{size} ranks, every {k} from {begin}"), &expected, &trained);
        }
    }
}

#[test]
fn local_sgd_meets_every_k_steps() {
    let batches = mnist_batches(7, BATCH);
    let model = mnist_mlp(&Sgd::new(0.1)).unwrap();
    let strategy = Strategy::default().local_sgd(3, 1);
    let after = |steps: usize| {
        let trained = Ranks::new(2).train(&model, &batches[..steps], &strategy).unwrap();
        trained[0].params == trained[1].params
    };
    // Steps 1, 4 and 7 end with the same parameters.
    let met: Vec<bool> = (1..=7).map(after).collect();
    assert_eq!(met, [true, false, false, true, false, false, true]);
}

/// The programs of `DistributeTranspiler`, op by op as Paddle writes them, run.
#[test]
fn transpiled_programs_run() {
    let batches = ctr_batches(STEPS, BATCH);
    let model = ctr_dnn(Table::Sliced, &Sgd::new(0.1)).unwrap();
    let (expected, _) = local::train(&model, &batches).unwrap();
    for mode in [CollectiveMode::GradAllReduce, CollectiveMode::LocalSgd] {
        for size in [2, 3] {
            let config = Config {
                mode: Distribution::Collective,
                collective_mode: Some(mode),
                ..Config::new()
            };
            let transpiler = Transpiler::new(config).unwrap();
            let programs = |rank: usize, endpoints: &[String]| {
                let (main, startup) = (&model.main, &model.startup);
                let own = &endpoints[rank];
                Ok(transpiler.transpile_collective(rank, main, startup, endpoints, own)?)
            };
            let trained = Ranks::new(size).train_programs(&model, &batches, programs).unwrap();
            equals(&format!("{mode:?}, {size} ranks"), &expected, &trained);
        }
    }
}

/// What `ParallelExecutor` makes of a program of `nccl2` mode.
#[test]
fn nccl2_reduces_what_the_program_does_not_say() {
    let batches = mnist_batches(STEPS, BATCH);
    let model = mnist_mlp(&Sgd::new(0.1)).unwrap();
    let (expected, _) = local::train(&model, &batches).unwrap();
    let transpiler =
        Transpiler::new(Config { mode: Distribution::Nccl2, ..Config::new() }).unwrap();
    let programs = |rank: usize, endpoints: &[String]| {
        let (main, startup) = (&model.main, &model.startup);
        let own = &endpoints[rank];
        let (main, startup) =
            transpiler.transpile_collective(rank, main, startup, endpoints, own)?;
        let main = CollectiveStrategy::default().rewrite_main(endpoints.len(), &main)?;
        Ok((main, startup))
    };
    let trained = Ranks::new(2).train_programs(&model, &batches, programs).unwrap();
    equals("nccl2", &expected, &trained);
}

/// A rank that starts with other parameters takes those of rank 0.
#[test]
fn parameters_start_as_those_of_rank_0() {
    let model = mnist_mlp(&Sgd::new(0.0)).unwrap();
    let batches = mnist_batches(1, BATCH);
    let (expected, _) = local::train(&model, &batches).unwrap();
    let how = CollectiveStrategy::default();
    let programs = |rank: usize, endpoints: &[String]| {
        let mut startup = model.startup.clone();
        startup.random_seed += rank as u64;
        Ok(how.rewrite(rank, endpoints, &model.main, &startup)?)
    };
    let trained = Ranks::new(3).train_programs(&model, &batches, programs).unwrap();
    equals("broadcast", &expected, &trained);
}

/// Ranks whose batches differ in size disagree about nothing: gradients have one size.
#[test]
fn a_rank_with_another_program_is_an_error_on_all() {
    let digits = mnist_mlp(&Sgd::new(0.1)).unwrap();
    let batches: Vec<Batch> = mnist_batches(2, 4);
    let how = CollectiveStrategy::default();
    let odd = CollectiveStrategy { fuse: false, ..CollectiveStrategy::default() };
    let programs = |rank: usize, endpoints: &[String]| {
        let how = if rank == 0 { &how } else { &odd };
        Ok(how.rewrite(rank, endpoints, &digits.main, &digits.startup)?)
    };
    let error = Ranks::new(2).train_programs(&digits, &batches, programs).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("disagree") || text.contains("gave up"), "{text}");
}
