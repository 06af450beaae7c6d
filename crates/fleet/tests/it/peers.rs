//! Trainers that shuffle their samples together and share their files, in jobs with servers and in
//! collective ones.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bireme_comm::{Bound, Listener, Memory, Settings, Stream, Transport};
use bireme_data::{
    Batch, Batches, Input, MemoryDataset, MemorySettings, QueueDataset, QueueSettings, Rows,
    Samples, Slot, Training, Values, train,
};
use bireme_engine::graph::Graph;
use bireme_engine::layers::{self, Act};
use bireme_engine::optimizer::Sgd;
use bireme_engine::{DType, Executor, Place};
use bireme_fleet::{Environment, Fleet, Mode, Role, RoleMaker, Strategy, UserDefined};

const TRAINERS: usize = 3;

/// Files with one id in each sample, and a number that is a tenth of it.
struct Ids(Vec<std::ops::Range<u64>>);

struct Open(std::ops::Range<u64>);

impl Input for Ids {
    fn files(&self) -> usize {
        self.0.len()
    }

    fn open(&self, file: usize) -> bireme_data::Result<Box<dyn Rows>> {
        Ok(Box::new(Open(self.0[file].clone())))
    }
}

impl Rows for Open {
    fn read(&mut self, out: &mut Samples, _: usize) -> bireme_data::Result<bool> {
        for id in self.0.clone() {
            let [x, y] = out.columns_mut() else { panic!("two columns") };
            let (Values::Ids(x), Values::Floats(y)) = (x.values_mut(), y.values_mut()) else {
                panic!("ids and floats")
            };
            x.push(id);
            y.push(id as f32 / 10.0);
            out.end_row();
        }
        Ok(false)
    }
}

fn slots() -> Vec<Slot> {
    vec![Slot::id("x"), Slot::floats("y", 1)]
}

fn ids(batches: Vec<Box<dyn Batches>>) -> Vec<i64> {
    let (mut all, mut batch) = (Vec::new(), Batch::of(&slots()));
    for mut batches in batches {
        while batches.next(&mut batch).unwrap() {
            all.extend(batch.tensors()[0].as_slice::<i64>().unwrap());
        }
    }
    all
}

/// A network on which a port that is given up has a new owner at once.
struct Contested {
    network: Memory,
    taken: Arc<Mutex<Vec<Bound>>>,
}

struct ContestedListener {
    listener: Box<dyn Listener>,
    network: Memory,
    endpoint: String,
    taken: Arc<Mutex<Vec<Bound>>>,
}

impl Transport for Contested {
    fn listen(&self, endpoint: &str) -> bireme_comm::Result<Bound> {
        let Bound { endpoint, listeners } = self.network.listen(endpoint)?;
        let contest = |listener| -> Box<dyn Listener> {
            let (network, taken) = (self.network.clone(), self.taken.clone());
            Box::new(ContestedListener { listener, network, endpoint: endpoint.clone(), taken })
        };
        let listeners = listeners.into_iter().map(contest).collect();
        Ok(Bound { endpoint, listeners })
    }

    fn connect(&self, endpoint: &str, timeout: Duration) -> bireme_comm::Result<Box<dyn Stream>> {
        self.network.connect(endpoint, timeout)
    }
}

impl Listener for ContestedListener {
    fn accept(&self) -> std::io::Result<Box<dyn Stream>> {
        self.listener.accept()
    }

    fn close(&self) {
        self.listener.close();
        self.taken.lock().unwrap().extend(self.network.listen(&self.endpoint));
    }
}

/// What a trainer does once it is connected.
type Work<'a, T> = &'a (dyn Fn(&Fleet, &Executor) -> T + Sync);

fn minimize(fleet: &mut Fleet, strategy: &Strategy) {
    let graph = Graph::new();
    graph.set_random_seed(3);
    let y = layers::data(&graph, "y", [1], DType::F32);
    let guess = layers::fc(&y, 1, Act::None).unwrap();
    let loss = layers::mean(&layers::square_error_cost(&guess, &y).unwrap()).unwrap();
    fleet.minimize(&loss, &Sgd::new(1e-9), strategy).unwrap();
}

fn settings() -> Settings {
    Settings { deadline: Duration::from_secs(60), ..Settings::default() }
}

fn trainer<T>(mut fleet: Fleet, strategy: &Strategy, work: Work<'_, T>) -> T {
    minimize(&mut fleet, strategy);
    let executor = fleet.init_worker(Executor::new(Place::Cpu).unwrap()).unwrap();
    let done = work(&fleet, &executor);
    fleet.barrier_worker().unwrap();
    fleet.stop_worker().unwrap();
    done
}

/// A job with one server; trainers know each other's addresses, or not.
fn with_server<T: Send>(known: bool, work: Work<'_, T>) -> Vec<T> {
    with_server_over(Arc::new(Memory::new(7)), known, work)
}

fn with_server_over<T: Send>(
    network: Arc<dyn Transport>,
    known: bool,
    work: Work<'_, T>,
) -> Vec<T> {
    let fleet = |role, index: usize| {
        let endpoints = (0..TRAINERS).map(|trainer| format!("trainer{trainer}:1")).collect();
        let role = RoleMaker::user_defined(UserDefined {
            current_id: index as i64,
            role,
            worker_num: Some(TRAINERS as i64),
            server_endpoints: vec!["server0:1".to_owned()],
            worker_endpoints: if known { endpoints } else { Vec::new() },
            heter_stages: Vec::new(),
        });
        Fleet::with_transport(role.unwrap(), network.clone(), settings())
    };
    let strategy = &Strategy::new(Mode::Async);
    std::thread::scope(|scope| {
        let mut server = fleet(Role::Server, 0);
        let serving = scope.spawn(move || {
            minimize(&mut server, strategy);
            server.init_server(None).unwrap();
            server.run_server(&|| false, |_| ()).unwrap();
        });
        let start = |rank| {
            let fleet = fleet(Role::Worker, rank);
            scope.spawn(move || trainer(fleet, strategy, work))
        };
        let trainers: Vec<_> = (0..TRAINERS).map(start).collect();
        let done = trainers.into_iter().map(|trainer| trainer.join().unwrap()).collect();
        serving.join().unwrap();
        done
    })
}

/// A collective job.
fn with_ranks<T: Send>(work: Work<'_, T>) -> Vec<T> {
    let network = Arc::new(Memory::new(7));
    let endpoints = (0..TRAINERS).map(|rank| format!("trainer{rank}:1")).collect::<Vec<_>>();
    let endpoints = endpoints.join(",");
    std::thread::scope(|scope| {
        let start = |rank: usize| {
            let id = rank.to_string();
            let names = [("PADDLE_TRAINER_ENDPOINTS", endpoints.as_str())];
            let names = names.into_iter().chain([("PADDLE_TRAINER_ID", id.as_str())]);
            let role = RoleMaker::collective(&Environment::of(names).unwrap()).unwrap();
            let fleet = Fleet::with_transport(role, network.clone(), settings());
            scope.spawn(move || trainer(fleet, &Strategy::sync(), work))
        };
        let trainers: Vec<_> = (0..TRAINERS).map(start).collect();
        trainers.into_iter().map(|trainer| trainer.join().unwrap()).collect()
    })
}

#[test]
fn a_global_shuffle_keeps_every_sample_and_repeats() {
    let work = |fleet: &Fleet, _: &Executor| {
        let first = u64::from(fleet.worker_index()) * 5000;
        let input = Arc::new(Ids(vec![first..first + 3000, first + 3000..first + 5000]));
        let settings = MemorySettings { batch_size: 64, ..MemorySettings::new(input, slots()) };
        let mut dataset = MemoryDataset::new(settings).unwrap();
        dataset.load().unwrap();
        dataset.global_shuffle(&fleet.peers().unwrap(), 17).unwrap();
        let once = ids(dataset.open(1).unwrap());
        dataset.load().unwrap();
        dataset.global_shuffle(&fleet.peers().unwrap(), 17).unwrap();
        assert_eq!(ids(dataset.open(1).unwrap()), once);
        once
    };
    let over_server = with_server(false, &work);
    assert_eq!(with_server(true, &work), over_server);
    assert_eq!(with_ranks(&work), over_server);
    for part in &over_server {
        assert!((4600..5400).contains(&part.len()), "{}", part.len());
        let strangers = part.iter().filter(|id| **id / 5000 != part[0] / 5000).count();
        assert!(strangers > 3000, "{strangers} samples of other trainers");
    }
    let mut all = over_server.concat();
    all.sort_unstable();
    assert_eq!(all, (0..15_000).collect::<Vec<_>>());
}

#[test]
fn a_port_that_others_were_told_of_is_not_given_up() {
    let network = Contested { network: Memory::new(7), taken: Arc::default() };
    let done = with_server_over(Arc::new(network), true, &|fleet, _| {
        let input = Arc::new(Ids(std::iter::once(0..10).collect()));
        let mut dataset = MemoryDataset::new(MemorySettings::new(input, slots())).unwrap();
        dataset.load().unwrap();
        dataset.global_shuffle(&fleet.peers().unwrap(), 17).unwrap();
        ids(dataset.open(1).unwrap()).len()
    });
    assert_eq!(done.iter().sum::<usize>(), 10 * TRAINERS);
}

#[test]
fn trainers_share_their_files() {
    let files: Vec<_> = (0..40).map(|file| file * 10..file * 10 + 10).collect();
    let work = |fleet: &Fleet, _: &Executor| {
        let share = fleet.file_share().unwrap();
        let input = Arc::new(Ids(files.clone()));
        let settings = QueueSettings { share: Some(share), ..QueueSettings::new(input, slots()) };
        let mut dataset = QueueDataset::new(QueueSettings { readers: 2, ..settings }).unwrap();
        let both: [Vec<i64>; 2] = [0, 1].map(|epoch| {
            dataset.set_epoch(epoch);
            ids(dataset.open(2).unwrap())
        });
        // The one that counts stays until all have drawn.
        fleet.barrier_worker().unwrap();
        both
    };
    for done in [with_server(true, &work), with_ranks(&work)] {
        for epoch in 0..2 {
            let mut all: Vec<i64> = done.iter().flat_map(|both| both[epoch].clone()).collect();
            all.sort_unstable();
            assert_eq!(all, (0..400).collect::<Vec<_>>());
        }
    }
}

#[test]
fn threads_of_a_trainer_train_at_once_with_servers() {
    let done = with_server(true, &|fleet, executor| {
        let input = Arc::new(Ids((0..8).map(|file| file * 100..file * 100 + 100).collect()));
        let settings = QueueSettings { batch_size: 10, ..QueueSettings::new(input, slots()) };
        let dataset = QueueDataset::new(QueueSettings { readers: 2, ..settings }).unwrap();
        let slots = slots();
        let training = Training {
            remote: fleet.worker().map(|worker| Arc::clone(worker) as _),
            ..Training::new(fleet.main_program().unwrap(), executor.scope(), &slots)
        };
        train(&training, dataset.open(2).unwrap()).unwrap()
    });
    for summary in done {
        assert_eq!((summary.batches, summary.samples), (80, 800));
    }
}

#[test]
fn ranks_with_different_numbers_of_batches_end_together() {
    let done = with_ranks(&|fleet, executor| {
        let rows = 100 + 20 * u64::from(fleet.worker_index());
        let input = Arc::new(Ids(vec![0..50, 50..rows]));
        let settings = QueueSettings { batch_size: 10, ..QueueSettings::new(input, slots()) };
        let batches = QueueDataset::new(settings).unwrap().open(1).unwrap();
        let (slots, rings) = (slots(), fleet.rings());
        let told = |error: bireme_fleet::Error| bireme_data::Error::Peers(error.to_string());
        let agree = |mine: bool| fleet.util().all_agree(mine).map_err(told);
        let training = Training {
            collective: rings.map(|rings| rings as _),
            agree: Some(&agree),
            ..Training::new(fleet.main_program().unwrap(), executor.scope(), &slots)
        };
        train(&training, batches).unwrap().batches
    });
    assert_eq!(done, [10, 10, 10]);
}
