//! GPUBox on several cards, each with a part of the rows, against sync training with as many trainers on CPUs.

mod records;
mod streams;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use bireme_comm::{Memory, Settings, Transport};
use bireme_cuda::Keeping;
use bireme_cuda::driver::libraries;
use bireme_data::KeyedPart;
use bireme_engine::device::Device;
use bireme_engine::ops::owner;
use bireme_engine::optimizer::{Adagrad, Adam, Optimizer, Sgd};
use bireme_engine::remote::{RowSpread, TableRef};
use bireme_engine::tensor::Tensor;
use bireme_engine::{Executor, Place};
use bireme_fleet::collective::Road;
use bireme_fleet::{Fleet, Role, RoleMaker, SaveMode, Strategy, UserDefined};
use bireme_testkit::cluster::Cluster;
use bireme_testkit::models::{Batch, Model, Table, ctr_batches, ctr_dnn, share};
use bireme_testkit::{Params, difference};

const TOLERANCE: f32 = 1e-5;
const WIDTH: usize = 4;
const ROWS: u64 = 200;
const BATCH: usize = 16;
const SERVERS: usize = 2;

/// So many cards; none where there is no compiler for them.
fn cards(count: u32) -> Option<Vec<Arc<dyn Device>>> {
    libraries::load_from(bireme_emulator::DIR?);
    bireme_emulator::Control::open().unwrap().unwrap().set_cards(4);
    let open = |number| bireme_cuda::open_alone(number, Keeping::Driver).unwrap();
    Some((0..count).map(open).collect())
}

/// What a training leaves: parameters, and whole records of the table.
#[derive(Clone, Debug, Default, PartialEq)]
struct Left {
    params: Params,
    records: Vec<f32>,
}

impl Left {
    fn close(&self, other: &Left, what: &str) {
        let apart = difference(&self.params, &other.params);
        assert!(apart <= TOLERANCE, "{what}: parameters are {apart:e} apart");
        assert_eq!(self.records.len(), other.records.len());
        let pairs = self.records.iter().zip(&other.records);
        let apart = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart <= TOLERANCE, "{what}: records are {apart:e} apart");
    }
}

fn table(endpoints: &[String]) -> TableRef {
    TableRef {
        name: "emb".to_owned(),
        width: WIDTH,
        padding: None,
        spread: RowSpread::Keys { shards: 1000 },
        endpoints: endpoints.to_vec(),
        names: vec!["emb".to_owned(); endpoints.len()],
    }
}

/// So many trainers and two servers on CPUs, in sync.
fn on_servers(model: &Model, batches: &[Batch], trainers: usize, record: usize) -> Left {
    let records = Arc::new(Mutex::new(Vec::new()));
    let (kept, steps) = (Arc::clone(&records), batches.len());
    let cluster = Cluster::new(trainers, SERVERS).after_step(move |done| {
        if done.steps == steps && done.trainer == 0 {
            let keys: Vec<u64> = (0..ROWS).collect();
            let mut all = vec![0.0; keys.len() * record];
            let table = table(&done.worker.config().endpoints);
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

/// A GPUBox job: servers and trainers on threads, over a network in memory.
#[derive(Clone)]
struct Job {
    size: usize,
    /// Where there are none, the first trainer has the tables.
    servers: usize,
    cards: Vec<Arc<dyn Device>>,
    road: Road,
    budget: Option<usize>,
    per_pass: usize,
    /// Numbers in a record.
    record: usize,
    /// Where the job saves after its first pass, and where another begins.
    save: Option<PathBuf>,
    load: Option<PathBuf>,
    /// The rank that dies, and the batch before which it does.
    dies: Option<(usize, usize)>,
    /// Whether data is read while it is trained: what would be a pass is a call of training then.
    streams: bool,
    /// Whether the last pass is trained twice: before the second time one trainer has the servers load what was
    /// saved after the first pass, as scripts do, and tells no other.
    repeats: bool,
    /// What every rank does after a pass, by its number from 1.
    after_pass: Option<AfterPass>,
}

type AfterPass = Arc<dyn Fn(&Fleet, &Executor, usize) -> Result<()> + Send + Sync>;

impl Job {
    fn new(size: usize, record: usize) -> Job {
        let (cards, road) = (Vec::new(), Road::Auto);
        Job {
            size,
            servers: SERVERS,
            cards,
            road,
            budget: None,
            per_pass: 3,
            record,
            save: None,
            load: None,
            dies: None,
            streams: false,
            repeats: false,
            after_pass: None,
        }
    }

    fn role(&self, role: Role, id: usize) -> RoleMaker {
        let endpoints = |host: usize, count: usize| -> Vec<String> {
            (1..=count).map(|number| format!("10.0.{host}.{number}:6170")).collect()
        };
        let (server_endpoints, worker_endpoints) =
            (endpoints(1, self.servers), endpoints(2, self.size));
        if server_endpoints.is_empty() {
            return RoleMaker::user_defined_collective(id as i64, worker_endpoints).unwrap();
        }
        RoleMaker::user_defined(UserDefined {
            current_id: id as i64,
            role,
            worker_num: Some(self.size as i64),
            server_endpoints,
            worker_endpoints,
            heter_stages: Vec::new(),
        })
        .unwrap()
    }

    /// Trains, every batch divided among the ranks; what the servers have at the end.
    fn train(&self, model: &Model, batches: &[Batch]) -> Left {
        let shares: Vec<Vec<Batch>> = (0..self.size)
            .map(|rank| batches.iter().map(|batch| share(batch, rank, self.size)).collect())
            .collect();
        let left = self.train_each(model, &shares).into_iter().map(|left| left.unwrap());
        let mut left: Vec<Left> = left.collect();
        for other in &left[1..] {
            assert_eq!(left[0].params, other.params, "ranks have the same parameters");
        }
        left.swap_remove(0)
    }

    /// As [`Job::train`], with the batches of each rank and what came of it.
    fn train_each(&self, model: &Model, shares: &[Vec<Batch>]) -> Vec<Result<Left>> {
        let transport: Arc<dyn Transport> = Arc::new(Memory::new(0));
        let settings = Settings {
            deadline: Duration::from_secs(30),
            heartbeat: Duration::from_millis(200),
            ..Settings::default()
        };
        let fleet = |role, id| {
            let (transport, settings) = (Arc::clone(&transport), settings.clone());
            let fleet = Fleet::with_transport(self.role(role, id), transport, settings);
            let mut fleet = match self.budget {
                Some(bytes) => fleet.gpubox_memory(bytes),
                None => fleet,
            }
            .road(self.road);
            fleet.distribute(&model.main, &model.startup, &Strategy::gpubox())?;
            anyhow::Ok(fleet)
        };
        std::thread::scope(|scope| {
            for id in 0..self.servers {
                let fleet = &fleet;
                scope.spawn(move || {
                    let mut fleet = fleet(Role::Server, id).unwrap();
                    fleet.init_server(None).unwrap();
                    // It says that a trainer died, where one does.
                    drop(fleet.run_server(&|| false, |_| ()));
                });
            }
            let ranks: Vec<_> = shares
                .iter()
                .enumerate()
                .map(|(rank, batches)| {
                    let fleet = &fleet;
                    scope.spawn(move || {
                        let made = fleet(Role::Worker, rank)?;
                        self.run(made, rank, model, batches).with_context(|| format!("rank {rank}"))
                    })
                })
                .collect();
            let ended = ranks
                .into_iter()
                .map(|rank| rank.join().unwrap_or_else(|_| Err(anyhow!("a rank panicked"))));
            ended.collect()
        })
    }

    fn run(&self, mut fleet: Fleet, rank: usize, model: &Model, batches: &[Batch]) -> Result<Left> {
        let executor = match self.cards.get(rank) {
            Some(card) => Executor::on(Arc::clone(card)),
            None => Executor::new(Place::Cpu)?,
        };
        let executor = fleet.init_worker(executor)?;
        let passes: Vec<&[Batch]> = batches.chunks(self.per_pass).collect();
        let mut first = 0;
        if let Some(folder) = &self.load {
            fleet.load_model(folder, SaveMode::Full)?;
            first = 1;
        }
        for (at, batches) in passes.iter().enumerate().skip(first) {
            self.pass(&fleet, &executor, rank, model, (at, batches), passes.get(at + 1).copied())?;
            if let (Some(folder), 0) = (&self.save, at) {
                save(&fleet, &executor, folder)?;
            }
            if let Some(after) = &self.after_pass {
                after(&fleet, &executor, at + 1)?;
            }
        }
        if let (true, Some(folder), Some(last)) = (self.repeats, &self.save, passes.last()) {
            fleet.flush()?;
            fleet.barrier_worker()?;
            if rank == 0 {
                let worker = fleet.worker().context("it has servers")?;
                worker.load(folder.to_str().context("a plain name")?, None, 0)?;
                fleet.passes().context("it is a trainer's")?.refresh()?;
            }
            fleet.barrier_worker()?;
            self.pass(&fleet, &executor, rank, model, (passes.len(), last), None)?;
        }
        fleet.flush()?;
        fleet.barrier_worker()?;
        let worker = fleet.worker().context("it has servers")?;
        let keys: Vec<u64> = (0..ROWS).collect();
        let mut records = vec![0.0; keys.len() * self.record];
        worker.pull_records(
            &table(&worker.config().endpoints),
            self.record,
            &keys,
            &mut records,
        )?;
        let mut params = Params::new();
        for name in model.params.iter().filter(|name| *name != "emb") {
            params.insert(name.clone(), executor.scope().get(name)?.as_slice::<f32>()?.to_vec());
        }
        fleet.stop_worker()?;
        Ok(Left { params, records })
    }

    fn pass(
        &self,
        fleet: &Fleet,
        executor: &Executor,
        rank: usize,
        model: &Model,
        (number, batches): (usize, &[Batch]),
        next: Option<&[Batch]>,
    ) -> Result<()> {
        if self.streams {
            return streams::train(fleet, executor, model, batches);
        }
        let mut passes = fleet.passes().context("it is a trainer's")?;
        passes.begin(&part(batches, self.size))?;
        let ahead = next.map(|next| (passes.ahead(), part(next, self.size).keys));
        let thread = ahead.map(|(ahead, keys)| std::thread::spawn(move || ahead.prepare(keys)));
        let program = fleet.main_program()?;
        let feeds: Vec<&str> = model.feeds.iter().map(String::as_str).collect();
        let mut step = executor.prepare(program, &feeds, &[&model.loss])?;
        for (at, batch) in batches.iter().enumerate() {
            if self.dies == Some((rank, number * self.per_pass + at)) {
                return Err(anyhow!("it dies here"));
            }
            step.run(&batch.iter().collect::<Vec<&Tensor>>())?;
        }
        passes.trained(batches.len() as u64);
        drop(step);
        if let Some(thread) = thread {
            thread.join().map_err(|_| anyhow!("the thread that works ahead panicked"))?;
        }
        Ok(passes.end()?)
    }
}

fn save(fleet: &Fleet, executor: &Executor, folder: &Path) -> Result<()> {
    Ok(fleet.save_persistables(folder, executor.scope(), SaveMode::Full)?)
}

/// What a dataset would say of these batches.
fn part(batches: &[Batch], ranks: usize) -> KeyedPart {
    let distinct = |batches: &[Batch]| {
        let slots = batches.iter().flat_map(|batch| &batch[1..4]);
        let mut keys: Vec<u64> =
            slots.flat_map(|ids| ids.as_slice::<i64>().unwrap()).map(|id| *id as u64).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    };
    let of_rank = |batch: &Batch, rank: usize| {
        let keys = distinct(std::slice::from_ref(batch));
        keys.into_iter().filter(|key| owner(*key, ranks) == rank).count() as u64
    };
    let most = batches.iter().flat_map(|batch| (0..ranks).map(|rank| of_rank(batch, rank))).max();
    let ids = batches.iter().map(|batch| 3 * batch[1].rows() as u64).sum();
    let keys = vec![distinct(batches)];
    KeyedPart { batches: batches.len() as u64, ids, keys, most: vec![most.unwrap_or(0)] }
}

fn optimizers() -> Vec<(Box<dyn Optimizer>, usize)> {
    vec![
        (Box::new(Sgd::new(0.2)), 1),
        (Box::new(Adagrad::new(0.1).initial_accumulator_value(0.1)), 2),
        // Adam divides a gradient by its size: of one that is nearly nothing, rounding decides the sign.
        (Box::new(Adam::new(0.01).epsilon(1e-3)), 3),
    ]
}

#[test]
fn ranks_on_cpus_equal_sync_training() {
    let batches = ctr_batches(7, BATCH);
    for (optimizer, states) in optimizers() {
        let model = ctr_dnn(Table::Keyed, optimizer.as_ref()).unwrap();
        for size in [1, 2, 4] {
            let expected = on_servers(&model, &batches, size, states * WIDTH);
            let job = Job::new(size, states * WIDTH);
            let left = job.train(&model, &batches);
            left.close(&expected, &format!("{size} ranks"));
            assert_eq!(left, job.train(&model, &batches), "two runs are the same to the bit");
        }
    }
}

#[test]
fn ranks_on_cards_equal_sync_training() {
    let Some(cards) = cards(4) else { return };
    let batches = ctr_batches(5, BATCH);
    for (optimizer, states) in optimizers() {
        let model = ctr_dnn(Table::Keyed, optimizer.as_ref()).unwrap();
        for size in [1, 2, 4] {
            let expected = on_servers(&model, &batches, size, states * WIDTH);
            for road in [Road::Host, Road::Nccl] {
                let own = cards[..size].to_vec();
                let job = Job { cards: own, road, ..Job::new(size, states * WIDTH) };
                let left = job.train(&model, &batches);
                left.close(&expected, &format!("{size} cards, {road:?}"));
            }
        }
    }
}

#[test]
fn two_runs_on_cards_have_the_same_bits() {
    let Some(cards) = cards(2) else { return };
    let batches = ctr_batches(5, BATCH);
    let adam = Adam::new(0.01);
    let model = ctr_dnn(Table::Keyed, &adam).unwrap();
    for road in [Road::Host, Road::Nccl] {
        let job = Job { cards: cards.clone(), road, ..Job::new(2, 3 * WIDTH) };
        assert_eq!(job.train(&model, &batches), job.train(&model, &batches), "{road:?}");
    }
}

#[test]
fn rows_that_do_not_fit_leave_and_come_back() {
    let adam = Adam::new(0.01);
    let model = ctr_dnn(Table::Keyed, &adam).unwrap();
    let batches = ctr_batches(8, BATCH);
    let roomy = Job { per_pass: 1, ..Job::new(2, 3 * WIDTH) };
    let bytes = 20 * (3 * WIDTH * 4 + 64);
    let narrow = Job { budget: Some(bytes), ..roomy.clone() };
    let left = roomy.train(&model, &batches);
    assert_eq!(left, narrow.train(&model, &batches), "where rows lie changes nothing");
}

#[test]
fn a_rank_that_dies_ends_the_others_with_its_name_and_a_saved_pass_goes_on() {
    let adam = Adam::new(0.01);
    let model = ctr_dnn(Table::Keyed, &adam).unwrap();
    let batches = ctr_batches(6, BATCH);
    let job = Job::new(2, 3 * WIDTH);
    let expected = job.train(&model, &batches);
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("first");
    let shares: Vec<Vec<Batch>> =
        (0..2).map(|rank| batches.iter().map(|batch| share(batch, rank, 2)).collect()).collect();
    let dying = Job { save: Some(saved.clone()), dies: Some((1, 4)), ..job.clone() };
    let ended = dying.train_each(&model, &shares);
    let error = format!("{:#}", ended[0].as_ref().unwrap_err());
    assert!(error.contains("rank 1") || error.contains("10.0.2.2:6170"), "{error}");
    let again = Job { load: Some(saved), ..job };
    assert_eq!(again.train(&model, &batches), expected, "it goes on from its first pass");
}

#[test]
fn ranks_whose_first_has_the_tables_equal_sync_training() {
    let adam = Adam::new(0.01).epsilon(1e-3);
    let model = ctr_dnn(Table::Keyed, &adam).unwrap();
    let batches = ctr_batches(7, BATCH);
    for size in [1, 2, 4] {
        let expected = on_servers(&model, &batches, size, 3 * WIDTH);
        let job = Job { servers: 0, ..Job::new(size, 3 * WIDTH) };
        let left = job.train(&model, &batches);
        left.close(&expected, &format!("{size} ranks"));
        let with_servers = Job::new(size, 3 * WIDTH).train(&model, &batches);
        assert_eq!(left, with_servers, "where the tables are changes nothing");
    }
    let Some(cards) = cards(2) else { return };
    let expected = on_servers(&model, &batches, 2, 3 * WIDTH);
    let job = Job { servers: 0, cards, road: Road::Nccl, ..Job::new(2, 3 * WIDTH) };
    job.train(&model, &batches).close(&expected, "two cards");
}

#[test]
fn without_servers_a_rank_that_dies_ends_the_others_and_a_saved_pass_goes_on() {
    let adam = Adam::new(0.01);
    let model = ctr_dnn(Table::Keyed, &adam).unwrap();
    let batches = ctr_batches(6, BATCH);
    let job = Job { servers: 0, ..Job::new(2, 3 * WIDTH) };
    let expected = job.train(&model, &batches);
    let shares: Vec<Vec<Batch>> =
        (0..2).map(|rank| batches.iter().map(|batch| share(batch, rank, 2)).collect()).collect();
    // With the first, the tables are gone, too.
    for dying in 0..2 {
        let folder = tempfile::tempdir().unwrap();
        let saved = folder.path().join("first");
        let dies = Job { save: Some(saved.clone()), dies: Some((dying, 4)), ..job.clone() };
        let ended = dies.train_each(&model, &shares);
        let error = format!("{:#}", ended[1 - dying].as_ref().unwrap_err());
        let names = [format!("rank {dying}"), format!("10.0.2.{}:6170", dying + 1)];
        assert!(names.iter().any(|name| error.contains(name)), "{error}");
        let again = Job { load: Some(saved), ..job.clone() };
        assert_eq!(again.train(&model, &batches), expected, "it goes on from its first pass");
    }
}

#[test]
fn what_one_rank_has_the_servers_load_all_ranks_train_on() {
    let adam = Adam::new(0.01);
    let model = ctr_dnn(Table::Keyed, &adam).unwrap();
    let batches = ctr_batches(6, BATCH);
    let job = Job::new(2, 3 * WIDTH);
    let expected = job.train(&model, &batches);
    let folder = tempfile::tempdir().unwrap();
    let repeats = Job { save: Some(folder.path().join("first")), repeats: true, ..job };
    assert_eq!(
        repeats.train(&model, &batches),
        expected,
        "as if the last pass had been trained once"
    );
}
