//! A server in a page: plain gradient descent with rate 1 on whatever is named, over the in-memory
//! transport. It counts requests and can hold answers to pushes back.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use bireme_comm::{Body, Handler, Identity, Memory, Peer, Reply, Server, Settings, Transport};
use bireme_engine::tensor::Dims;
use bireme_ir::DType;

use crate::Mode;
use crate::message::{Answer, Array, Life, Request};
use crate::worker::{Worker, WorkerConfig};

pub(super) type Rows = HashMap<u64, Vec<f32>>;

/// Name, rows (`None` for all) and values of what a geo trainer gets.
type Changes<'a> = (&'a str, Option<Vec<i64>>, Vec<f32>);

#[derive(Default)]
pub(super) struct State {
    pub(super) dense: HashMap<String, Vec<f32>>,
    pub(super) tables: HashMap<String, Rows>,
    /// Requests by method.
    pub(super) asked: HashMap<&'static str, usize>,
    /// Keys in all pulls and pushes of rows, in order.
    pub(super) keys: Vec<u64>,
    /// Steps of the counter `@STEP`, as they came.
    pub(super) counted: Vec<f32>,
    /// Answers to pushes are kept here while this is set.
    pub(super) hold: bool,
    held: Vec<Reply>,
    /// An error for every push.
    pub(super) refuse: Option<String>,
    /// Sync: what trainers pushed, and who waits at the barrier.
    grads: HashMap<String, Vec<f32>>,
    waiting: Vec<Reply>,
    meets: HashMap<String, Vec<(u32, Vec<u8>, Reply)>>,
    /// Geo: rows changed since each trainer asked, by table.
    changed: HashMap<(u32, String), BTreeSet<u64>>,
    trainers: u32,
    mode: Option<Mode>,
    pub(super) completed: u32,
}

#[derive(Default)]
pub(super) struct Fake {
    state: Mutex<State>,
    pub(super) told: Condvar,
}

impl Fake {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn asked(&self, name: &str) -> usize {
        self.lock().asked.get(name).copied().unwrap_or(0)
    }

    /// Waits until something holds, for at most a minute.
    pub(super) fn until(&self, what: &str, ready: impl Fn(&State) -> bool) {
        let limit = Duration::from_secs(60);
        let state =
            self.told.wait_timeout_while(self.lock(), limit, |state| !ready(state)).unwrap();
        assert!(!state.1.timed_out(), "{what} did not happen");
    }

    pub(super) fn release(&self) {
        let mut state = self.lock();
        state.hold = false;
        let held = std::mem::take(&mut state.held);
        drop(state);
        held.into_iter().for_each(|reply| answer(reply, &Answer::Done));
    }
}

fn answer(reply: Reply, answer: &Answer<'_>) {
    reply.send(&answer.encode().parts());
}

fn floats(array: &Array<'_>) -> Vec<f32> {
    bytemuck::pod_collect_to_vec(array.bytes())
}

impl Handler for Fake {
    fn handle(&self, _: &Peer, method: u16, body: &Body, reply: Reply) {
        let request = Request::decode(method, body).unwrap();
        let mut state = self.lock();
        *state.asked.entry(request.name()).or_default() += 1;
        state.serve(request, reply);
        drop(state);
        self.told.notify_all();
    }
}

impl State {
    fn serve(&mut self, request: Request<'_>, reply: Reply) {
        match request {
            Request::Join { trainers, mode, .. } => {
                (self.trainers, self.mode) = (trainers, Some(mode));
                answer(reply, &Answer::Joined { server: 0, life: Life::default() });
            }
            Request::Push { values, .. } => {
                values.iter().for_each(|(name, array)| self.push(name, array));
                self.done(reply);
            }
            Request::PushRows { table, keys, grads, .. } => {
                self.keys.extend_from_slice(keys);
                let width = grads.len() / keys.len();
                for (key, grad) in keys.iter().zip(grads.chunks(width)) {
                    subtract(self.row(table, *key, width), grad, 1.0);
                }
                self.done(reply);
            }
            Request::Barrier { .. } => self.barrier(reply),
            Request::Get { names, .. } => self.get(&names, reply),
            Request::PullRows { table, keys } => {
                self.keys.extend_from_slice(keys);
                let width = 2;
                let values: Vec<f32> =
                    keys.iter().flat_map(|key| self.row(table, *key, width).clone()).collect();
                answer(reply, &Answer::Rows { values: &values });
            }
            Request::PushDelta { values, .. } => {
                values.iter().for_each(|(name, array)| self.delta(name, array));
                self.done(reply);
            }
            Request::PullGeo { trainer, names, .. } => self.pull_geo(trainer, &names, reply),
            Request::Set { values } => {
                for (name, array) in values {
                    self.dense.insert(name.to_owned(), floats(&array));
                }
                answer(reply, &Answer::Done);
            }
            Request::Meet { group, name, member, members, data } => {
                let key = format!("{group}/{name}");
                let here = self.meets.entry(key).or_default();
                here.push((member, data.to_vec(), reply));
                if here.len() == members as usize {
                    here.sort_by_key(|(member, ..)| *member);
                    let parts: Vec<Vec<u8>> =
                        here.iter().map(|(_, data, _)| data.clone()).collect();
                    let parts = parts.iter().map(Vec::as_slice).collect();
                    let gathered = Answer::Gathered { parts };
                    here.drain(..).for_each(|(.., reply)| answer(reply, &gathered));
                }
            }
            Request::Save { .. } => answer(reply, &Answer::Text { text: "saved" }),
            Request::Commit { .. } | Request::Abandon { .. } | Request::Begin => {
                answer(reply, &Answer::Done);
            }
            Request::Complete { .. } => {
                self.completed += 1;
                answer(reply, &Answer::Done);
            }
            other => reply.fail(&format!("the fake does not know {other:?}")),
        }
    }

    fn done(&mut self, reply: Reply) {
        match &self.refuse {
            Some(problem) => reply.fail(problem),
            None if self.hold => self.held.push(reply),
            None => answer(reply, &Answer::Done),
        }
    }

    fn row(&mut self, table: &str, key: u64, width: usize) -> &mut Vec<f32> {
        let table = self.tables.entry(table.to_owned()).or_default();
        table.entry(key).or_insert_with(|| vec![key as f32; width])
    }

    fn push(&mut self, name: &str, array: &Array<'_>) {
        let param = name.split("@GRAD").next().unwrap().to_owned();
        match array {
            Array::Rows { rows, .. } => {
                let values = floats(array);
                let width = values.len() / rows.len();
                for (row, grad) in rows.iter().zip(values.chunks(width)) {
                    self.keys.push(*row as u64);
                    subtract(self.row(&param, *row as u64, width), grad, 1.0);
                }
            }
            Array::Dense { .. } if name == "@STEP" => self.counted.extend(floats(array)),
            Array::Dense { .. } if matches!(self.mode, Some(Mode::Sync | Mode::Hybrid)) => {
                let sum = self.grads.entry(param).or_insert_with(|| vec![0.0; floats(array).len()]);
                subtract(sum, &floats(array), -1.0);
            }
            Array::Dense { .. } => {
                let values = self.dense.get_mut(&param).expect("a known parameter");
                subtract(values, &floats(array), 1.0);
            }
        }
    }

    fn barrier(&mut self, reply: Reply) {
        self.waiting.push(reply);
        if self.waiting.len() as u32 == self.trainers {
            for (param, grad) in std::mem::take(&mut self.grads) {
                let values = self.dense.get_mut(&param).expect("a known parameter");
                subtract(values, &grad, 1.0 / self.trainers as f32);
            }
            self.waiting.drain(..).for_each(|reply| answer(reply, &Answer::Done));
        }
    }

    fn get(&mut self, names: &[&str], reply: Reply) {
        let mut values = Vec::new();
        for name in names {
            let Some(value) = self.dense.get(*name) else {
                return reply.fail(&format!("there is no variable `{name}`"));
            };
            let (dtype, dims, bytes) =
                (DType::F32, Dims::new(&[value.len()]), bytemuck::cast_slice(value));
            values.push((*name, Array::Dense { dtype, dims, start: 0, bytes }));
        }
        // One value an answer, so that the rest must be asked for.
        values.truncate(1);
        answer(reply, &Answer::Values { values, versions: Vec::new() });
    }

    fn delta(&mut self, name: &str, array: &Array<'_>) {
        let values = floats(array);
        let Array::Rows { rows, .. } = array else {
            return subtract(self.dense.get_mut(name).unwrap(), &values, -1.0);
        };
        for (row, delta) in rows.iter().zip(values.chunks(values.len() / rows.len())) {
            subtract(self.row(name, *row as u64, delta.len()), delta, -1.0);
            for trainer in 0..self.trainers {
                let changed = self.changed.entry((trainer, name.to_owned())).or_default();
                changed.insert(*row as u64);
            }
        }
    }

    fn pull_geo(&mut self, trainer: u32, names: &[&str], reply: Reply) {
        let mut parts: Vec<Changes<'_>> = Vec::new();
        for name in names {
            match self.dense.get(*name) {
                Some(value) => parts.push((name, None, value.clone())),
                None => {
                    let key = (trainer, (*name).to_owned());
                    let rows = self.changed.remove(&key).unwrap_or_default();
                    let values = rows.iter().flat_map(|row| self.tables[*name][row].clone());
                    let values = values.collect();
                    parts.push((name, Some(rows.iter().map(|row| *row as i64).collect()), values));
                }
            }
        }
        let values = parts.iter().map(|(name, rows, values)| {
            let (dtype, bytes) = (DType::F32, bytemuck::cast_slice(values));
            let array = match rows {
                None => Array::Dense { dtype, dims: Dims::new(&[values.len()]), start: 0, bytes },
                Some(rows) => {
                    let dims = Dims::new(&[rows.len(), values.len() / rows.len().max(1)]);
                    Array::Rows { dtype, dims, height: 100, rows, bytes }
                }
            };
            (*name, array)
        });
        answer(reply, &Answer::Values { values: values.collect(), versions: Vec::new() });
    }
}

fn subtract(values: &mut [f32], grads: &[f32], rate: f32) {
    values.iter_mut().zip(grads).for_each(|(value, grad)| *value -= rate * grad);
}

/// Servers in memory.
pub(super) struct Cluster {
    pub(super) transport: Arc<dyn Transport>,
    pub(super) fakes: Vec<Arc<Fake>>,
    pub(super) servers: Vec<Server>,
    pub(super) endpoints: Vec<String>,
}

pub(super) fn settings() -> Settings {
    Settings {
        deadline: Duration::from_secs(30),
        heartbeat: Duration::from_millis(50),
        heartbeat_timeout: Duration::from_secs(2),
        ..Settings::default()
    }
}

impl Cluster {
    pub(super) fn new(servers: usize) -> Cluster {
        let transport: Arc<dyn Transport> = Arc::new(Memory::new(1));
        let fakes: Vec<Arc<Fake>> = (0..servers).map(|_| Arc::default()).collect();
        let servers: Vec<Server> = fakes
            .iter()
            .enumerate()
            .map(|(rank, fake)| {
                let me = Identity::server(rank as u32);
                let handler = Arc::clone(fake) as Arc<dyn Handler>;
                let endpoint = format!("server{rank}:1");
                Server::start(Arc::clone(&transport), &endpoint, me, settings(), handler).unwrap()
            })
            .collect();
        let endpoints = servers.iter().map(|server| server.endpoint().to_owned()).collect();
        Cluster { transport, fakes, servers, endpoints }
    }

    /// Gives a server a dense parameter.
    pub(super) fn param(&self, server: usize, name: &str, values: &[f32]) {
        self.fakes[server].lock().dense.insert(name.to_owned(), values.to_vec());
    }

    pub(super) fn value(&self, server: usize, name: &str) -> Vec<f32> {
        self.fakes[server].lock().dense[name].clone()
    }

    pub(super) fn config(&self, trainer: u32, trainers: u32, mode: Mode) -> WorkerConfig {
        WorkerConfig::new(trainer, trainers, self.endpoints.clone(), mode)
    }

    pub(super) fn worker(&self, config: WorkerConfig) -> Arc<Worker> {
        Worker::connect(config, Arc::clone(&self.transport), settings()).unwrap()
    }
}
