//! Training threads over batches: nothing is lost, and all stop together.

use std::sync::atomic::AtomicUsize;

use bireme_engine::graph::Graph;
use bireme_engine::layers::{self, Auc, Fc, Label};
use bireme_engine::optimizer::{Optimizer, Sgd};
use bireme_engine::{DType, Executor, Place};

use super::*;
use crate::testing::{BAD, Numbers, slots};
use crate::{MemoryDataset, MemorySettings, QueueDataset, QueueSettings};

/// A model of the numbers' slots; its label is the number itself, so they are 0 and 1.
struct Model {
    main: Program,
    startup: Program,
    loss: String,
    counts: Vec<String>,
    param: String,
}

fn model() -> Model {
    let graph = Graph::new();
    graph.set_random_seed(3);
    let label = layers::data(&graph, "label", [1], DType::I64);
    let dense = layers::data(&graph, "dense", [2], DType::F32);
    let logits = Fc::new(2).apply(&dense).unwrap();
    let prediction = layers::softmax(&logits).unwrap();
    let auc = layers::auc(&prediction, &label, &Auc::default()).unwrap();
    let (losses, _) = layers::softmax_with_cross_entropy(&logits, &label, Label::Hard).unwrap();
    let loss = layers::mean(&losses).unwrap();
    Sgd::new(0.1).minimize(&loss).unwrap();
    let main = graph.main();
    let param = main.parameters().next().unwrap().name.clone();
    Model {
        startup: graph.startup(),
        loss: loss.name().to_owned(),
        counts: auc.stats.iter().map(|var| var.name().to_owned()).collect(),
        param,
        main,
    }
}

fn started(model: &Model) -> Scope {
    let mut executor = Executor::new(Place::Cpu).unwrap();
    executor.run(&model.startup, &[], &[]).unwrap();
    executor.scope().clone()
}

fn bits(rows: usize) -> Vec<u64> {
    (0..rows as u64).map(|row| row * 7 / 3 % 2).collect()
}

/// Batches of 10 from 4 files of 100 samples each.
fn queue(threads: usize) -> Vec<Box<dyn Batches>> {
    let input = Arc::new(Numbers(vec![bits(100); 4]));
    let settings = QueueSettings { batch_size: 10, ..QueueSettings::new(input, slots()) };
    let settings = QueueSettings { readers: threads, ..settings };
    QueueDataset::new(settings).unwrap().open(threads).unwrap()
}

fn param(scope: &Scope, model: &Model) -> Vec<f64> {
    scope.get(&model.param).unwrap().to_f64_vec()
}

#[test]
fn threads_train_every_batch_once_and_count_together() {
    let (model, slots) = (model(), slots());
    for threads in [1, 3] {
        let scope = started(&model);
        let before = param(&scope, &model);
        let fetches = [model.loss.clone()];
        let seen = AtomicUsize::new(0);
        let hook = |progress: &Progress<'_>| {
            assert!(progress.fetched(0).to_f64_vec()[0].is_finite());
            assert_eq!((progress.names(), progress.data.rows()), (&fetches[..], 10));
            seen.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let training = Training::new(&model.main, &scope, &slots);
        let training = Training { fetches: &fetches, on_batch: Some(&hook), ..training };
        for epoch in 1..=2 {
            let summary = train(&training, queue(threads)).unwrap();
            assert_eq!((summary.batches, summary.samples), (40, 400));
            let counted =
                |at: usize| scope.get(&model.counts[at]).unwrap().to_f64_vec().iter().sum::<f64>();
            assert_eq!(counted(2) + counted(3), 400.0 * f64::from(epoch));
        }
        assert_eq!(seen.into_inner(), 80);
        assert_ne!(param(&scope, &model), before);
    }
}

#[test]
fn one_thread_that_splits_its_batches_repeats_to_the_bit() {
    let (model, slots) = (model(), slots());
    let run = || {
        let scope = started(&model);
        let training = Training { split: 2, ..Training::new(&model.main, &scope, &slots) };
        train(&training, queue(1)).unwrap();
        scope.get(&model.param).unwrap().as_bytes().to_vec()
    };
    assert_eq!(run(), run());
    assert_eq!(divide(&model.main, 4, true), (1, 4));
    let mut in_step = model.main.clone();
    in_step.global_mut().ops.push(bireme_engine::ir::Op::new("send_barrier"));
    assert_eq!(divide(&in_step, 4, false), (1, 4));
    assert_eq!(too_many_threads(64), None);
    let warning = too_many_threads(1 << 20).unwrap();
    assert!(warning.contains("1048576 training threads are too many for"), "{warning}");
    let (threads, split) = divide(&model.main, 1 << 20, false);
    assert!((64..1 << 20).contains(&(threads * split)), "{threads} * {split}");
    assert!(warning.contains(&format!(": {} are used", threads * split)), "{warning}");
}

#[test]
fn few_batches_are_learned_at_one_time() {
    let main = model().main;
    let divided = |threads| divide(&main, threads, false);
    assert_eq!([1, 2, 3, 4].map(divided), [(1, 1), (2, 1), (3, 1), (4, 1)]);
    assert_eq!([6, 7, 8, 14, 16].map(divided), [(3, 2), (3, 2), (4, 2), (2, 7), (4, 4)]);
    assert_eq!(divide(&main.clone_for_test(), 16, false), (16, 1), "nothing is learned");
    let mut ragged = main;
    ragged.global_mut().vars.get_mut("dense").unwrap().lod_level = 1;
    assert_eq!(divide(&ragged, 16, false), (16, 1), "a step cannot split it");
}

#[test]
fn inference_learns_nothing() {
    let (model, slots) = (model(), slots());
    let scope = started(&model);
    let before = param(&scope, &model);
    let fetches = [model.loss.clone()];
    let training =
        Training { infer: true, fetches: &fetches, ..Training::new(&model.main, &scope, &slots) };
    assert_eq!(train(&training, queue(2)).unwrap().samples, 400);
    assert_eq!(param(&scope, &model), before);
}

#[test]
fn an_error_of_one_thread_stops_all() {
    let (model, slots) = (model(), slots());
    let scope = started(&model);
    let training = Training::new(&model.main, &scope, &slots);
    let input = Arc::new(Numbers(vec![bits(100_000), vec![0, 1, BAD]]));
    let settings = QueueSettings { readers: 2, ..QueueSettings::new(input, slots.clone()) };
    let batches = QueueDataset::new(settings).unwrap().open(2).unwrap();
    assert_eq!(train(&training, batches).unwrap_err().to_string(), "a bad number");
    // A step's own error, and that of a hook.
    let wrong = Arc::new(Numbers(vec![vec![5; 100]; 2]));
    let settings = MemorySettings::new(wrong, slots.clone());
    let mut dataset = MemoryDataset::new(settings).unwrap();
    dataset.load().unwrap();
    let error = train(&training, dataset.open(2).unwrap()).unwrap_err();
    assert!(matches!(error, Error::Engine(_)), "{error}");
    let hook = |progress: &Progress<'_>| match progress.batches {
        3.. => Err(Error::Settings("enough".to_owned())),
        _ => Ok(()),
    };
    let training = Training { on_batch: Some(&hook), ..training };
    assert_eq!(train(&training, queue(2)).unwrap_err().to_string(), "enough");
}

#[test]
fn trainers_in_step_end_with_the_one_that_has_the_fewest_batches() {
    let (model, slots) = (model(), slots());
    let scope = started(&model);
    // Another one has a single batch: it agrees to the first round, and to nothing after it.
    let asked = AtomicUsize::new(0);
    let agree = |mine: bool| Ok(mine && asked.fetch_add(1, Ordering::Relaxed) < 1);
    let training = Training { agree: Some(&agree), ..Training::new(&model.main, &scope, &slots) };
    assert_eq!(train(&training, queue(1)).unwrap().batches, 1);
}

/// Batches that never come.
struct Never(Arc<(Mutex<bool>, Condvar)>);

impl Batches for Never {
    fn next(&mut self, _: &mut Batch) -> Result<bool> {
        let mut closed = self.0.0.lock().unwrap();
        while !*closed {
            closed = self.0.1.wait(closed).unwrap();
        }
        Err(Error::Interrupted)
    }

    fn skip(&mut self, _: u64) -> Result<u64> {
        Ok(0)
    }

    fn closer(&self) -> crate::Closer {
        let state = Arc::clone(&self.0);
        Box::new(move || {
            *state.0.lock().unwrap() = true;
            state.1.notify_all();
        })
    }
}

#[test]
fn who_wants_to_stop_is_heard_while_threads_wait_for_data() {
    let (model, slots) = (model(), slots());
    let scope = started(&model);
    let asked = AtomicUsize::new(0);
    let interrupt = || asked.fetch_add(1, Ordering::Relaxed) > 1;
    let training =
        Training { interrupt: Some(&interrupt), ..Training::new(&model.main, &scope, &slots) };
    let mut batches = queue(1);
    batches.push(Box::new(Never(Arc::default())));
    assert!(matches!(train(&training, batches), Err(Error::Interrupted)));
}

/// Masks of dropout that trainings of one program drew, in the order of threads and steps.
fn masks(trainings: usize, threads: usize) -> Vec<Vec<f64>> {
    let graph = Graph::new();
    graph.set_random_seed(3);
    let dense = layers::data(&graph, "dense", [2], DType::F32);
    let wide = Fc::new(32).apply(&dense).unwrap();
    let ones = layers::scale(&wide, 0.0, 1.0).unwrap();
    let mask = layers::dropout(&ones, 0.5).unwrap();
    let (main, fetches, slots) = (graph.main(), [mask.name().to_owned()], slots());
    let mut executor = Executor::new(Place::Cpu).unwrap();
    executor.run(&graph.startup(), &[], &[]).unwrap();
    let scope = executor.scope().clone();
    let seen = Mutex::new(Vec::new());
    for training in 0..trainings {
        let hook = |progress: &Progress<'_>| {
            let place = (training, progress.thread, progress.batch);
            seen.lock().unwrap().push((place, progress.fetched(0).to_f64_vec()));
            Ok(())
        };
        let training = Training {
            fetches: &fetches,
            sequence: Some(7),
            on_batch: Some(&hook),
            ..Training::new(&main, &scope, &slots)
        };
        train(&training, queue(threads)).unwrap();
    }
    let mut seen = seen.into_inner().unwrap();
    seen.sort_by_key(|(place, _)| *place);
    seen.into_iter().map(|(_, mask)| mask).collect()
}

#[test]
fn no_step_repeats_the_random_numbers_of_another() {
    for (trainings, threads) in [(2, 1), (2, 3)] {
        let all = masks(trainings, threads);
        assert_eq!(all.len(), 80);
        let distinct: std::collections::BTreeSet<String> =
            all.iter().map(|mask| format!("{mask:?}")).collect();
        assert_eq!(distinct.len(), all.len(), "with {threads} threads");
    }
    assert_eq!(masks(2, 1), masks(2, 1), "the same seed gives the same run");
}
