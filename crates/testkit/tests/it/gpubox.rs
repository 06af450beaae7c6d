//! GPUBox against sync training with servers on CPUs: weights, accumulators and what is saved.

pub(crate) mod stream;

use std::path::Path;
use std::sync::{Arc, Mutex};

use bireme_comm::{Memory, Settings};
use bireme_data::KeyedPart;
use bireme_engine::device::Device;
use bireme_engine::optimizer::{Adagrad, Adam, AdamW, Ftrl, Momentum, Optimizer, Sgd};
use bireme_engine::remote::{RowSpread, TableRef};
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Place};
use bireme_fleet::{Environment, Fleet, RoleMaker, SaveMode, Strategy};
use bireme_ir::Attr;
use bireme_testkit::cluster::Cluster;
use bireme_testkit::models::{Batch, Model, Table, ctr_batches, ctr_dnn};
use bireme_testkit::{Params, difference};

const TOLERANCE: f32 = 1e-5;
pub(super) const WIDTH: usize = 4;
pub(super) const ROWS: u64 = 200;

/// The emulated card, or `None` on a machine that cannot have one.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
pub(crate) fn card() -> Option<Arc<dyn Device>> {
    let Some(dir) = bireme_emulator::DIR else {
        eprintln!("skipped: there is no emulated card, for want of a C++ compiler");
        return None;
    };
    bireme_cuda::driver::libraries::load_from(dir);
    Some(bireme_cuda::open(0).unwrap())
}

/// What a training leaves: parameters, and whole records of the table.
#[derive(Debug, PartialEq)]
pub(crate) struct Left {
    pub(crate) params: Params,
    pub(crate) records: Vec<f32>,
}

impl Left {
    pub(super) fn close(&self, other: &Left) {
        let apart = difference(&self.params, &other.params);
        let by_name = self.params.iter().map(|(name, mine)| {
            let pairs = mine.iter().zip(&other.params[name]);
            (name, pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max))
        });
        let by_name: Vec<_> = by_name.collect();
        assert!(apart <= TOLERANCE, "parameters are {apart:e} apart: {by_name:?}");
        let pairs = self.records.iter().zip(&other.records);
        let apart = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert_eq!(self.records.len(), other.records.len());
        assert!(apart <= TOLERANCE, "records are {apart:e} apart");
    }
}

pub(super) fn reference(endpoints: &[String]) -> TableRef {
    TableRef {
        name: "emb".to_owned(),
        width: WIDTH,
        padding: None,
        spread: RowSpread::Keys { shards: 1000 },
        endpoints: endpoints.to_vec(),
        names: vec!["emb".to_owned(); endpoints.len()],
    }
}

/// One trainer and two servers on CPUs, in sync.
pub(super) fn on_servers(model: &Model, batches: &[Batch], record: usize) -> Left {
    let records = Arc::new(Mutex::new(Vec::new()));
    let (kept, steps) = (Arc::clone(&records), batches.len());
    let cluster = Cluster::new(1, 2).after_step(move |done| {
        if done.steps == steps {
            let keys: Vec<u64> = (0..ROWS).collect();
            let mut all = vec![0.0; keys.len() * record];
            let table = reference(&done.worker.config().endpoints);
            done.worker.pull_records(&table, record, &keys, &mut all)?;
            *kept.lock().unwrap() = all;
        }
        Ok(())
    });
    let mut params = cluster.train(model, batches).unwrap().params;
    params.remove("emb");
    let records = records.lock().unwrap().clone();
    Left { params, records }
}

/// A GPUBox job in this process.
pub(crate) struct Job {
    pub(crate) fleet: Fleet,
    pub(crate) executor: Executor,
}

impl Job {
    pub(crate) fn start(
        model: &Model,
        device: Option<&Arc<dyn Device>>,
        budget: Option<usize>,
    ) -> Job {
        let variables = budget.map(|bytes| ("BIREME_GPUBOX_MEMORY", bytes.to_string()));
        let environment =
            Environment::of(variables.iter().map(|(name, value)| (*name, value.as_str())));
        let mut fleet = Fleet::init(RoleMaker::alone(), &environment.unwrap()).unwrap();
        fleet.distribute(&model.main, &model.startup, &Strategy::gpubox()).unwrap();
        let executor = match device {
            Some(device) => Executor::on(Arc::clone(device)),
            None => Executor::new(Place::Cpu).unwrap(),
        };
        let executor = fleet.init_worker(executor).unwrap();
        Job { fleet, executor }
    }

    /// Trains some batches as one pass, while the next is made ready.
    pub(super) fn pass(&mut self, model: &Model, batches: &[Batch], next: Option<&[Batch]>) {
        let mut passes = self.fleet.passes().unwrap();
        passes.begin(&part(batches)).unwrap();
        let ahead = next.map(|next| (passes.ahead(), keys(next)));
        let thread =
            ahead.map(|(ahead, keys)| std::thread::spawn(move || ahead.prepare(vec![keys])));
        let program = self.fleet.main_program().unwrap();
        let feeds: Vec<&str> = model.feeds.iter().map(String::as_str).collect();
        let mut step = self.executor.prepare(program, &feeds, &[&model.loss]).unwrap();
        for batch in batches {
            step.run(&batch.iter().collect::<Vec<&Tensor>>()).unwrap();
        }
        passes.trained(batches.len() as u64);
        drop(step);
        if let Some(thread) = thread {
            thread.join().unwrap();
        }
    }

    /// What the servers have.
    pub(crate) fn left(&self, model: &Model, record: usize) -> Left {
        self.fleet.flush().unwrap();
        let worker = self.fleet.worker().unwrap();
        let keys: Vec<u64> = (0..ROWS).collect();
        let mut records = vec![0.0; keys.len() * record];
        let table = reference(&worker.config().endpoints);
        worker.pull_records(&table, record, &keys, &mut records).unwrap();
        let passes = self.fleet.passes().unwrap();
        let dense = &passes.plan().dense;
        let values = worker.values(dense).unwrap();
        let all = dense.iter().map(|piece| piece.name.clone()).zip(values);
        let params = all
            .filter(|(name, _)| model.params.contains(name) && name != "emb")
            .map(|(name, value)| (name, value.as_slice::<f32>().unwrap().to_vec()))
            .collect();
        Left { params, records }
    }
}

fn keys(batches: &[Batch]) -> Vec<u64> {
    let slots = batches.iter().flat_map(|batch| &batch[1..4]);
    let mut keys: Vec<u64> =
        slots.flat_map(|ids| ids.as_slice::<i64>().unwrap()).map(|id| *id as u64).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn part(batches: &[Batch]) -> KeyedPart {
    let ids = batches.iter().map(|batch| 3 * batch[1].rows() as u64).sum();
    KeyedPart { batches: batches.len() as u64, ids, keys: vec![keys(batches)], most: Vec::new() }
}

/// Trains all batches in passes of so many.
pub(super) fn in_passes(
    model: &Model,
    batches: &[Batch],
    per_pass: usize,
    record: usize,
    device: Option<&Arc<dyn Device>>,
    budget: Option<usize>,
) -> Left {
    let mut job = Job::start(model, device, budget);
    let passes: Vec<&[Batch]> = batches.chunks(per_pass).collect();
    for (at, batches) in passes.iter().enumerate() {
        job.pass(model, batches, passes.get(at + 1).copied());
    }
    let left = job.left(model, record);
    job.fleet.stop_worker().unwrap();
    left
}

fn optimizers() -> Vec<(Box<dyn Optimizer>, usize)> {
    vec![
        (Box::new(Sgd::new(0.2)), 1),
        (Box::new(Adagrad::new(0.1).initial_accumulator_value(0.1)), 2),
        (Box::new(Adam::new(0.01)), 3),
        (Box::new(AdamW::new(0.01)), 3),
        (Box::new(Ftrl::new(0.1)), 3),
    ]
}

#[test]
fn every_rule_equals_sync_training_on_cpus() {
    let batches = ctr_batches(9, 8);
    for (optimizer, states) in optimizers() {
        for table in [Table::Keyed, Table::Sliced] {
            let model = ctr_dnn(table, optimizer.as_ref()).unwrap();
            let keyed = ctr_dnn(Table::Keyed, optimizer.as_ref()).unwrap();
            let expected = on_servers(&keyed, &batches, states * WIDTH);
            in_passes(&model, &batches, 3, states * WIDTH, None, None).close(&expected);
        }
    }
}

#[test]
fn an_emulated_card_equals_cpus_and_itself() {
    let Some(card) = card() else { return };
    let batches = ctr_batches(8, 8);
    let adagrad = Adagrad::new(0.1).initial_accumulator_value(0.1);
    // Adam divides a gradient by its size: of one that is nearly nothing, rounding decides the sign.
    let adam = Adam::new(0.01).epsilon(1e-3);
    let all: [(Box<dyn Optimizer>, usize); 2] = [(Box::new(adagrad), 2), (Box::new(adam), 3)];
    for (optimizer, states) in all {
        let model = ctr_dnn(Table::Keyed, optimizer.as_ref()).unwrap();
        let expected = on_servers(&model, &batches, states * WIDTH);
        let on_card = || in_passes(&model, &batches, 3, states * WIDTH, Some(&card), None);
        let first = on_card();
        first.close(&expected);
        assert_eq!(first, on_card(), "two runs on a card are the same to the bit");
    }
}

#[test]
fn rows_that_do_not_fit_leave_and_come_back() {
    let adam = Adam::new(0.01);
    let model = ctr_dnn(Table::Keyed, &adam).unwrap();
    let batches = ctr_batches(10, 8);
    let roomy = in_passes(&model, &batches, 1, 12, None, None);
    // Two passes have more keys than so few bytes hold.
    let narrow = in_passes(&model, &batches, 1, 12, None, Some(30 * (12 * 4 + 64)));
    assert_eq!(roomy, narrow, "where rows lie changes nothing");
    on_servers(&model, &batches, 12).close(&roomy);
}

#[test]
fn a_job_goes_on_from_its_last_saved_pass() {
    let adam = Adam::new(0.01);
    let model = ctr_dnn(Table::Keyed, &adam).unwrap();
    let batches = ctr_batches(9, 8);
    let expected = in_passes(&model, &batches, 3, 12, None, None);
    let folder = tempfile::tempdir().unwrap();
    // It dies at some batch of the second pass, after the first was saved.
    for dies_after in 0..3 {
        let mut job = Job::start(&model, None, None);
        let saved = folder.path().join(dies_after.to_string());
        job.pass(&model, &batches[..3], None);
        save(&job, &saved);
        job.pass(&model, &batches[3..3 + dies_after], None);
        drop(job);
        let mut job = Job::start(&model, None, None);
        job.fleet.load_model(&saved, SaveMode::Full).unwrap();
        job.pass(&model, &batches[3..6], Some(&batches[6..]));
        job.pass(&model, &batches[6..], None);
        assert_eq!(job.left(&model, 12), expected, "died after batch {dies_after}");
        job.fleet.stop_worker().unwrap();
    }
}

fn save(job: &Job, folder: &Path) {
    let scope = job.executor.scope();
    job.fleet.save_persistables(folder, scope, SaveMode::Full).unwrap();
}

#[test]
fn what_cannot_be_trained_so_is_refused() {
    let refused = |model: &Model, strategy: &Strategy| {
        let transport = Arc::new(Memory::new(0));
        let mut fleet = Fleet::with_transport(RoleMaker::alone(), transport, Settings::default());
        fleet.distribute(&model.main, &model.startup, strategy).unwrap_err().to_string()
    };
    let model = ctr_dnn(Table::Keyed, &Momentum::new(0.1, 0.9)).unwrap();
    let error = refused(&model, &Strategy::gpubox());
    assert!(error.contains("table `emb`: `momentum` changes rows"), "{error}");
    let mut model = ctr_dnn(Table::Keyed, &Adam::new(0.1)).unwrap();
    let lookup = model.main.global_mut().ops.iter_mut().find(|op| op.kind.starts_with("lookup"));
    let entry = Attr::String("count_filter_entry:3".to_owned());
    lookup.unwrap().attrs.insert("entry".to_owned(), entry);
    let error = refused(&model, &Strategy::gpubox());
    assert!(error.contains("entry `count_filter_entry:3` and with ``: give all"), "{error}");
}

#[test]
fn a_key_that_the_pass_does_not_have_is_named() {
    let model = ctr_dnn(Table::Keyed, &Sgd::new(0.1)).unwrap();
    let batches = ctr_batches(2, 8);
    let job = Job::start(&model, None, None);
    let part = KeyedPart { batches: 2, ids: 1, keys: vec![vec![7]], most: Vec::new() };
    job.fleet.passes().unwrap().begin(&part).unwrap();
    let program = job.fleet.main_program().unwrap();
    let feeds: Vec<&str> = model.feeds.iter().map(String::as_str).collect();
    let mut step = job.executor.prepare(program, &feeds, &[&model.loss]).unwrap();
    let error = step.run(&batches[0].iter().collect::<Vec<&Tensor>>()).unwrap_err().to_string();
    assert!(error.contains("is not among the keys of this pass"), "{error}");
}
