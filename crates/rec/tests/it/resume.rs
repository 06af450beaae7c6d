//! A run that is killed at any point and goes on ends as one that was not.

use bireme_engine::random::Philox;
use bireme_rec::run::Epoch;

use crate::job::{Process, Setup, comparable};

/// Whether a line says that a batch was trained.
fn is_progress(line: &str) -> bool {
    line.starts_with("time: [")
}

/// The number below `bound` that a seed decides.
fn random(seed: u64, bound: u64) -> u64 {
    Philox::new(20_261_115, "places to kill at").u64(seed) % bound
}

/// Kills after so many lines of progress; whether there were as many.
fn kill_after(process: &mut Process, lines: u64) -> bool {
    let reached = (0..lines).all(|_| process.until(is_progress).is_some());
    process.kill();
    reached
}

const LOCAL: &str = "  epochs: 2\n  train_batch_size: 20\n  print_interval: 1\n  \
                     checkpoint_interval: 4\n";

#[test]
fn a_local_run_killed_at_ten_places_ends_with_the_same_parameters() {
    let undisturbed = Setup::new(3, 200, LOCAL);
    let expected = undisturbed.start(&[], false).finish();
    // 30 batches an epoch.
    for place in 0..10 {
        let setup = Setup::new(3, 200, LOCAL);
        let reached = kill_after(&mut setup.start(&[], false), 1 + random(place, 60));
        assert!(reached, "place {place}");
        // Some are killed again on the way.
        if place % 3 == 0 {
            kill_after(&mut setup.start(&[], true), 1 + random(place + 100, 5));
        }
        let epochs = setup.start(&[], true).finish();
        assert_eq!(comparable(&epochs), comparable(&expected), "place {place}");
        for epoch in 0..2 {
            assert!(setup.parameters(epoch) == undisturbed.parameters(epoch), "place {place}");
        }
    }
}

const SYNC: &str = "  epochs: 2\n  train_batch_size: 20\n  print_interval: 1\n  \
                    checkpoint_interval: 4\n  sync_mode: sync\n  split_file_list: True\n";

#[test]
fn a_sync_job_killed_at_ten_places_ends_with_the_same_parameters() {
    let undisturbed = Setup::new(4, 100, SYNC);
    let expected = undisturbed.run_cluster(2, false);
    // 10 batches an epoch and trainer.
    for place in 0..10 {
        let setup = Setup::new(4, 100, SYNC);
        let mut processes = setup.start_cluster(2, false);
        let lines = 1 + random(place + 200, 20);
        let victim = random(place + 300, 3) as usize;
        let reached = (0..lines).all(|_| processes[0].until(is_progress).is_some());
        processes[victim].kill();
        assert!(reached, "place {place}: {:?}", processes[0].said());
        // What is left of the job ends with it.
        drop(processes);
        let epochs = setup.run_cluster(2, true);
        assert_eq!(comparable(&epochs), comparable(&expected), "place {place}, victim {victim}");
        for epoch in 0..2 {
            assert!(setup.parameters(epoch) == undisturbed.parameters(epoch), "place {place}");
        }
    }
}

#[test]
fn jobs_of_other_modes_killed_anywhere_go_on_and_train_all_data() {
    for (number, mode) in (0_u64..).zip(["async", "geo", "half_async", "hybrid"]) {
        let keys = SYNC.replace("sync_mode: sync", &format!("sync_mode: {mode}\n  geo_step: 3"));
        for place in 0..2 {
            let setup = Setup::new(4, 100, &keys);
            let mut processes = setup.start_cluster(2, false);
            let seed = 400 + 10 * number + place;
            let reached =
                (0..1 + random(seed, 15)).all(|_| processes[0].until(is_progress).is_some());
            assert!(reached, "{mode}: {:?}", processes[0].said());
            let victim = random(seed + 100, 3) as usize;
            processes[victim].kill();
            drop(processes);
            let mut processes = setup.start_cluster(2, true);
            let results: Vec<_> =
                processes.iter_mut().map(Process::finish).take(2).collect::<Vec<_>>();
            for epochs in results {
                let samples: Vec<u64> = epochs.iter().map(|epoch| epoch.samples).collect();
                assert_eq!(samples, [200, 200], "{mode}, victim {victim}");
                assert!(epochs[1].loss.is_finite() && epochs[1].metrics["auc"] > 0.0);
            }
        }
    }
}

/// A single trainer's own state: counts of metrics, and in geo mode the state of its optimizer.
#[test]
fn a_job_of_one_trainer_killed_and_resumed_ends_as_one_that_was_not() {
    for mode in ["sync", "geo"] {
        let keys = SYNC.replace("sync_mode: sync", &format!("sync_mode: {mode}\n  geo_step: 2"));
        let undisturbed = Setup::new(2, 200, &keys);
        let expected = undisturbed.run_cluster(1, false);
        let setup = Setup::new(2, 200, &keys);
        let mut processes = setup.start_cluster(1, false);
        // 20 batches an epoch, a checkpoint after every 4.
        let reached = (0..14).all(|_| processes[0].until(is_progress).is_some());
        processes[0].kill();
        assert!(reached, "{mode}: {:?}", processes[0].said());
        drop(processes);
        let epochs = setup.run_cluster(1, true);
        if mode == "geo" {
            // When an exchange arrives is a matter of time, and moves values by their last bits.
            let mut pairs = epochs.iter().zip(&expected);
            let are_close = |(one, other): (&Epoch, &Epoch)| {
                one.samples == other.samples
                    && (one.loss - other.loss).abs() < 1e-6
                    && (one.metrics["auc"] - other.metrics["auc"]).abs() < 1e-3
            };
            let said = || format!("{:?} {:?}", comparable(&epochs), comparable(&expected));
            assert!(epochs.len() == expected.len() && pairs.all(are_close), "{}", said());
            continue;
        }
        assert_eq!(comparable(&epochs), comparable(&expected), "{mode}");
        assert!(setup.parameters(1) == undisturbed.parameters(1), "{mode}");
    }
}

#[test]
fn ranks_killed_anywhere_end_with_the_same_parameters() {
    let keys = SYNC.replace("sync_mode: sync", "use_fleet: True");
    let undisturbed = Setup::new(4, 100, &keys);
    let expected = run_ranks(&undisturbed, false);
    for place in 0..3 {
        let setup = Setup::new(4, 100, &keys);
        let mut ranks = setup.start_ranks(2, false);
        let reached =
            (0..1 + random(place + 600, 18)).all(|_| ranks[0].until(is_progress).is_some());
        assert!(reached, "{:?}", ranks[0].said());
        ranks[random(place + 700, 2) as usize].kill();
        drop(ranks);
        let epochs = run_ranks(&setup, true);
        assert_eq!(comparable(&epochs), comparable(&expected), "place {place}");
        assert!(setup.parameters(1) == undisturbed.parameters(1), "place {place}");
    }
}

fn run_ranks(setup: &Setup, resume: bool) -> Vec<Epoch> {
    let mut ranks = setup.start_ranks(2, resume);
    let mut results: Vec<Vec<Epoch>> = ranks.iter_mut().map(Process::finish).collect();
    results.swap_remove(0)
}

#[test]
fn a_checkpoint_of_another_training_is_refused() {
    let setup = Setup::new(1, 100, LOCAL);
    setup.start(&[], false).finish();
    let text = std::fs::read_to_string(setup.config()).unwrap();
    let other = text.replace("train_batch_size: 20", "train_batch_size: 10");
    std::fs::write(setup.config(), other).unwrap();
    let mut process = setup.start(&[], true);
    let line = process.until(|line| line.starts_with("error: ")).unwrap();
    assert!(line.contains("made by another training"), "{line}");
}
