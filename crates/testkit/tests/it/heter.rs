//! Jobs with heter workers: a program cut into stages learns what one process learns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use bireme_engine::lr::{Lr, Schedule};
use bireme_engine::optimizer::{Adam, Optimizer, Sgd};
use bireme_testkit::cluster::Cluster;
use bireme_testkit::models::{Batch, Model, Table, ctr_batches, share, staged_ctr_dnn};
use bireme_testkit::{difference, local};
use bireme_transpiler::Mode;

const STEPS: usize = 50;
const BATCH: usize = 24;
const TOLERANCE: f32 = 1e-6;

fn model(table: Table, stages: usize, optimizer: &dyn Optimizer) -> Model {
    let last = if stages == 3 { "cpu" } else { "gpu" };
    staged_ctr_dnn(table, ["gpu", last], optimizer).unwrap()
}

/// Trainers, servers, workers of each later stage, micro-batches.
type Topology<'a> = (usize, usize, &'a [usize], usize);

fn equals_local(table: Table, optimizer: &dyn Optimizer, topologies: &[Topology<'_>]) {
    let batches = ctr_batches(STEPS, BATCH);
    for (trainers, servers, workers, micro_batches) in topologies {
        let model = model(table, workers.len() + 1, optimizer);
        let (expected, losses) = local::train(&model, &batches).unwrap();
        let cluster = Cluster::new(*trainers, *servers).with_heter(workers, *micro_batches);
        let outcome = cluster.train(&model, &batches).unwrap();
        let what = format!("{table:?}: {trainers}+{workers:?}+{servers}, {micro_batches} parts");
        let off = difference(&expected, &outcome.params);
        assert!(off <= TOLERANCE, "{what}: {off:e}");
        for (step, loss) in losses.iter().enumerate() {
            let seen: f64 = outcome.losses.iter().map(|of| of[step]).sum::<f64>();
            let seen = seen / *trainers as f64;
            assert!((seen - loss).abs() < 1e-5, "{what}: step {step}: {seen} for {loss}");
        }
        let again = Cluster::new(*trainers, *servers)
            .with_heter(workers, *micro_batches)
            .train(&model, &batches)
            .unwrap();
        assert!(again.params == outcome.params, "{what}: not to the bit");
    }
}

#[test]
fn one_of_each_role_equals_local() {
    let topologies: &[Topology<'_>] = &[(1, 1, &[1], 1), (1, 1, &[1], 3)];
    equals_local(Table::Sliced, &Sgd::new(0.1), topologies);
    equals_local(Table::Keyed, &Sgd::new(0.1), topologies);
}

#[test]
fn two_of_each_role_equal_the_joint_batch() {
    let topologies: &[Topology<'_>] = &[(2, 2, &[2], 1), (2, 2, &[2], 2), (2, 1, &[1], 3)];
    equals_local(Table::Sliced, &Adam::new(0.003).epsilon(1e-2), topologies);
    equals_local(Table::Keyed, &Sgd::new(0.1), topologies);
}

#[test]
fn uneven_jobs_equal_the_joint_batch() {
    // Workers with unequal shares, parts of unequal size, more workers than trainers, schedules.
    let decay =
        Schedule::Exponential { rate: 0.1, decay_steps: 10.0, decay_rate: 0.7, staircase: true };
    let topologies: &[Topology<'_>] = &[(3, 1, &[2], 1), (2, 2, &[3], 5), (1, 2, &[2], 2)];
    equals_local(Table::Sliced, &Sgd::new(Lr::Schedule(decay)), topologies);
}

#[test]
fn three_stages_equal_local() {
    equals_local(Table::Keyed, &Sgd::new(0.1), &[(1, 1, &[1, 1], 2), (2, 1, &[2, 1], 2)]);
    equals_local(Table::Sliced, &Sgd::new(0.1), &[(2, 2, &[1, 2], 1)]);
}

#[test]
fn other_modes_learn() {
    let batches = ctr_batches(150, BATCH);
    for mode in [Mode::Async, Mode::HalfAsync, Mode::Hybrid] {
        let model = model(Table::Keyed, 2, &Sgd::new(0.2));
        let cluster = Cluster::new(2, 2).with_heter(&[2], 2).in_mode(mode);
        let outcome = cluster.train(&model, &batches).unwrap();
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        // Trainers do not wait for each other: the first that starts sees the new model, and the
        // last that ends sees what all have learned.
        let first = outcome.losses.iter().map(|losses| mean(&losses[..10])).fold(0.0, f64::max);
        let last = outcome.losses.iter().map(|losses| mean(&losses[140..]));
        let last = last.fold(f64::MAX, f64::min);
        assert!(last < 0.9 * first, "{mode:?}: {first} to {last}");
    }
}

#[test]
fn trainers_may_have_different_numbers_of_steps() {
    let batches = ctr_batches(12, BATCH);
    let model = model(Table::Keyed, 2, &Sgd::new(0.1));
    for mode in [Mode::Sync, Mode::Async] {
        for workers in [1, 2] {
            let shares: Vec<Vec<Batch>> = [12, 7]
                .iter()
                .enumerate()
                .map(|(at, steps)| batches[..*steps].iter().map(|b| share(b, at, 2)).collect())
                .collect();
            let cluster = Cluster::new(2, 1).with_heter(&[workers], 2).in_mode(mode);
            let outcome = cluster.train_shares(&model, shares).unwrap();
            assert_eq!(outcome.losses.iter().map(Vec::len).collect::<Vec<_>>(), [12, 7]);
        }
    }
}

#[test]
fn batches_smaller_than_their_micro_batches_are_trained() {
    let batches = ctr_batches(5, 2);
    let model = model(Table::Sliced, 2, &Sgd::new(0.1));
    let (expected, _) = local::train(&model, &batches).unwrap();
    let cluster = Cluster::new(1, 1).with_heter(&[2], 4);
    let outcome = cluster.train(&model, &batches).unwrap();
    assert!(difference(&expected, &outcome.params) <= TOLERANCE);
}

fn quick() -> Cluster {
    let mut cluster = Cluster::new(2, 1).with_heter(&[1], 2);
    cluster.settings.heartbeat = Duration::from_millis(50);
    cluster.settings.heartbeat_timeout = Duration::from_secs(3);
    cluster
}

#[test]
fn a_trainer_that_fails_ends_the_job_and_is_named() {
    let cluster = quick().after_step(|done| -> Result<()> {
        if (done.trainer, done.steps) == (1, 3) {
            bail!("the disk is full");
        }
        Ok(())
    });
    let model = model(Table::Keyed, 2, &Sgd::new(0.1));
    let started = Instant::now();
    let error = format!("{:#}", cluster.train(&model, &ctr_batches(50, BATCH)).unwrap_err());
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    assert!(error.contains("trainer 1"), "{error}");
}

#[test]
fn a_heter_worker_that_ends_is_named_in_bounded_time() {
    let model = model(Table::Keyed, 2, &Sgd::new(0.1));
    let stop = Arc::new(AtomicBool::new(false));
    let reached = Arc::clone(&stop);
    let cluster = quick().stop_heter(&stop).after_step(move |done| {
        reached.fetch_or(done.steps == 3, Ordering::Relaxed);
        Ok(())
    });
    let started = Instant::now();
    let error = format!("{:#}", cluster.train(&model, &ctr_batches(5000, BATCH)).unwrap_err());
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    assert!(error.contains("heter worker 0"), "{error}");
}

/// Samples a second of jobs of two training processes and a server, on the click model with a wide
/// first layer: `cargo test --release -p bireme-testkit heter::throughput -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, on an idle machine"]
fn throughput() {
    const ROWS: usize = 512;
    let batches = ctr_batches(200, ROWS);
    let rate = |cluster: Cluster, model: &Model, of_each: bool| {
        let started = Instant::now();
        let shares = (0..cluster.trainers).map(|_| batches.clone()).collect();
        let outcome = cluster.train_shares(model, shares).unwrap();
        let trainers = if of_each { outcome.losses.len() } else { 1 };
        (trainers * batches.len() * ROWS) as f64 / started.elapsed().as_secs_f64()
    };
    for mode in [Mode::Sync, Mode::Async] {
        let plain = staged_ctr_dnn(Table::Keyed, ["", ""], &Sgd::new(0.1)).unwrap();
        let one = rate(Cluster::new(1, 1).in_mode(mode), &plain, true);
        let two = rate(Cluster::new(2, 1).in_mode(mode), &plain, true);
        println!("{mode:?}: 1 trainer {one:.0}/s, 2 trainers {two:.0}/s");
        let staged = model(Table::Keyed, 2, &Sgd::new(0.1));
        for parts in [1, 2, 4, 8] {
            let cluster = Cluster::new(1, 1).with_heter(&[1], parts).in_mode(mode);
            let heter = rate(cluster, &staged, true);
            println!("{mode:?}: 1 trainer + 1 heter worker, {parts} parts {heter:.0}/s");
        }
    }
}
