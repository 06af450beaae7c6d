//! Trainers and heter workers with cards learn what those without learn, in every mode: the card runs the dense part
//! of a step, and what talks to servers runs on the host in the middle of it.

use std::sync::Arc;

use bireme_cuda::driver::libraries;
use bireme_engine::device::Device;
use bireme_engine::optimizer::{Adam, Optimizer, Sgd};
use bireme_testkit::cluster::{Cluster, Outcome};
use bireme_testkit::models::{Batch, Model, Table, ctr_batches, ctr_dnn, staged_ctr_dnn};
use bireme_testkit::{difference, local};
use bireme_transpiler::Mode;

/// Rounding differs between the card and the host.
const TOLERANCE: f32 = 1e-5;
const STEPS: usize = 6;
const BATCH: usize = 12;

/// Whether there is an emulated card.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn is_emulated() -> bool {
    let Some(dir) = bireme_emulator::DIR else {
        eprintln!("skipped: there is no emulated card, for want of a C++ compiler");
        return false;
    };
    libraries::load_from(dir);
    true
}

fn card(number: usize) -> Arc<dyn Device> {
    bireme_cuda::open(number as u32).unwrap()
}

fn train(cluster: &Cluster, model: &Model, batches: &[Batch]) -> Outcome {
    cluster.train(model, batches).unwrap()
}

fn check_equal(what: &str, on_host: &Outcome, on_card: &Outcome) {
    let off = difference(&on_host.params, &on_card.params);
    assert!(off <= TOLERANCE, "{what}: {off:e}");
    for (host, card) in on_host.losses.iter().zip(&on_card.losses) {
        let far = host.iter().zip(card).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(far <= f64::from(TOLERANCE), "{what}: {host:?} {card:?}");
    }
}

/// A cluster whose results do not depend on who is quicker.
fn repeatable(mode: Mode) -> Cluster {
    let trainers = if mode == Mode::Sync { 2 } else { 1 };
    let mut cluster = Cluster::new(trainers, 2).in_mode(mode);
    cluster.config.geo_sgd_need_push_nums = 3;
    cluster.tune = |config| config.staleness = 0;
    cluster
}

#[test]
fn cards_learn_as_the_host_in_every_mode() {
    if !is_emulated() {
        return;
    }
    let batches = ctr_batches(STEPS, BATCH);
    // A larger epsilon: where a gradient is almost nothing, rounding would decide the sign of a step.
    let adam = Adam::new(0.003).epsilon(1e-2).lazy_mode(true);
    for table in [Table::Sliced, Table::Keyed] {
        let model = ctr_dnn(table, &adam as &dyn Optimizer).unwrap();
        for mode in [Mode::Sync, Mode::HalfAsync, Mode::Async, Mode::Geo, Mode::Hybrid] {
            if (table, mode) == (Table::Keyed, Mode::Geo) {
                continue;
            }
            let cluster = repeatable(mode);
            let on_host = train(&cluster, &model, &batches);
            // Trainers share one card.
            let on_card = train(&cluster.on_cards(|_| card(0)), &model, &batches);
            check_equal(&format!("{table:?}, {mode:?}"), &on_host, &on_card);
        }
    }
}

#[test]
fn two_trainers_on_two_cards_equal_the_joint_batch_and_themselves() {
    if !is_emulated() {
        return;
    }
    let batches = ctr_batches(STEPS, BATCH);
    let model = ctr_dnn(Table::Keyed, &Sgd::new(0.1)).unwrap();
    let (expected, _) = local::train(&model, &batches).unwrap();
    let cluster = Cluster::new(2, 2).on_cards(card);
    let first = train(&cluster, &model, &batches);
    let off = difference(&expected, &first.params);
    assert!(off <= TOLERANCE, "{off:e}");
    let again = train(&cluster, &model, &batches);
    assert!(again.params == first.params, "not to the bit");
}

#[test]
fn heter_workers_on_cards_equal_local() {
    if !is_emulated() {
        return;
    }
    let batches = ctr_batches(STEPS, BATCH);
    for table in [Table::Sliced, Table::Keyed] {
        let model = staged_ctr_dnn(table, ["gpu", "gpu"], &Sgd::new(0.1)).unwrap();
        let (expected, _) = local::train(&model, &batches).unwrap();
        let cluster = Cluster::new(2, 2).with_heter(&[2], 2).on_cards(card);
        let outcome = train(&cluster, &model, &batches);
        let off = difference(&expected, &outcome.params);
        assert!(off <= TOLERANCE, "{table:?}: {off:e}");
    }
}
