//! Pulls and pushes over a socket, and the same calls of a table in this process.
//!
//! Server and client live in this process, so its processor time is that of both sides. Both
//! tables hold the same rows and see the same batches of distinct keys.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use bireme_engine::Scope;
use bireme_engine::random::Philox;
use bireme_engine::tensor::Tensor;
use bireme_fleet::Mode;
use bireme_fleet::comm::{Body, Client, Identity, Lane, Network, Path, Settings};
use bireme_fleet::ps::message::{Answer, Life, Request as Message};
use bireme_fleet::ps::server::PsServer;
use bireme_fleet::ps::table::bench::process_time;
use bireme_fleet::ps::table::{PushStep, RowStore, SparseTable, TableConfig};
use bireme_ir::Program;

use crate::bench::ROUNDS;

/// Rows of the server's table.
const ROWS: usize = 1_000_000;
/// Batches to go through in turn: together they touch about half of the rows.
const BATCHES: u64 = 40;
const TABLE: &str = "emb";
/// The block of the program that describes the table.
const BLOCK: usize = 1;
const RATE: f32 = 0.01;

/// A request that is measured.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) push: bool,
    pub(super) keys: usize,
    pub(super) width: usize,
    pub(super) path: Path,
}

impl Request {
    /// Measures for about `seconds`: seconds of processor time for a request over a socket, and for
    /// the call in this process. They alternate in rounds, and the best round of each counts.
    pub(super) fn measure(&self, seconds: f64) -> Result<(f64, f64)> {
        let batches: Vec<Vec<u64>> = (0..BATCHES).map(|number| self.batch(number)).collect();
        let mut remote = Remote::start(self)?;
        let local = Local::new(self)?;
        let mut values = vec![0.001f32; self.keys * self.width];
        let round = Duration::from_secs_f64(seconds / f64::from(2 * ROUNDS));
        let (mut at, mut best) = (0usize, (f64::INFINITY, f64::INFINITY));
        for _ in 0..ROUNDS {
            let mut next = || {
                at += 1;
                (at as u64, batches[at % batches.len()].as_slice())
            };
            let cpu = cpu_per_run(round, || remote.request(next().1, &mut values, self.push))?;
            best.0 = best.0.min(cpu);
            let cpu = cpu_per_run(round, || local.call(next(), &mut values, self.push))?;
            best.1 = best.1.min(cpu);
        }
        Ok(best)
    }

    /// Distinct keys of rows that are there, drawn at random: one out of each of as many spans of
    /// rows, in no order.
    fn batch(&self, number: u64) -> Vec<u64> {
        let draw = Philox::new(1, "batches").stream(number);
        let span = ROWS / self.keys;
        let key = |at: usize| key_of(at * span + draw.u64(at as u64) as usize % span);
        let mut keys: Vec<u64> = (0..self.keys).map(key).collect();
        for at in (1..keys.len()).rev() {
            let other = draw.u64((self.keys + at) as u64) as usize % (at + 1);
            keys.swap(at, other);
        }
        keys
    }

    /// The program of a server that holds one keyed table with Adagrad.
    fn program(&self) -> Result<Program> {
        let width = self.width;
        let text = format!(
            "random_seed 1
{{ // block 0
    persist trainable param {TABLE} : LOD_TENSOR.shape({ROWS}, {width}).dtype(float32).stop_gradient(False)
    persist var rate : LOD_TENSOR.shape(1,).dtype(float32).stop_gradient(True)
    {{}} = listen_and_serv(inputs={{X=[]}}, endpoint = '127.0.0.1:0', Fanin = 1, \
             distributed_mode = {}, sparse_tables = ['{TABLE}:{BLOCK}'], pserver_id = 0)
}}
{{ // block 1, parent 0
    {{Out=['{TABLE}']}} = uniform_random(inputs={{}}, shape = [{ROWS}L, {width}L], min = -0.01, max = 0.01, dtype = 5)
    {{}} = lookup_sparse_table(inputs={{W=['{TABLE}']}}, entry = 'none')
    {{ParamOut=['{TABLE}']}} = adagrad(inputs={{Param=['{TABLE}'], Grad=['{TABLE}@GRAD'], Moment=['moment'], LearningRate=['rate']}})
}}",
            Mode::Async.code(),
        );
        Ok(Program::parse(&text)?)
    }
}

/// A server, and a trainer that talks to it.
struct Remote {
    client: Client,
    // Ends after the client.
    _server: PsServer,
    width: usize,
}

impl Remote {
    fn start(request: &Request) -> Result<Remote> {
        let scope = Scope::new();
        scope.set("rate", &Tensor::scalar(RATE));
        let (network, settings) = (Network::new(request.path), Settings::default());
        let program = request.program()?;
        let server = PsServer::start(&program, &scope, Arc::new(network), settings.clone())?;
        let (me, peer) = (Identity::trainer(0), Identity::server(0));
        let client = Client::connect(Arc::new(network), server.endpoint(), me, peer, settings)?;
        let mut remote = Remote { client, _server: server, width: request.width };
        remote.ask(&Message::Join {
            trainer: 0,
            trainers: 1,
            mode: Mode::Async,
            process: "the benchmark",
            program: Vec::new(),
            life: Life { number: 1, ..Life::default() },
        })?;
        let mut rows = vec![0.0; request.keys * request.width];
        for first in (0..ROWS).step_by(request.keys) {
            let keys: Vec<u64> = (first..ROWS.min(first + request.keys)).map(key_of).collect();
            remote.request(&keys, &mut rows[..keys.len() * request.width], false)?;
        }
        Ok(remote)
    }

    /// A pull until the rows are in `values`, or a push of `values` until the server has applied it.
    fn request(&mut self, keys: &[u64], values: &mut [f32], push: bool) -> Result<()> {
        if push {
            let (trainer, counts) = (0, None);
            let push = Message::PushRows { trainer, table: TABLE, keys, grads: values, counts };
            let body = self.ask(&push)?;
            let answer = Answer::decode(&body)?;
            ensure!(answer == Answer::Done, "the server answered a push by {answer:?}");
            return Ok(());
        }
        let body = self.ask(&Message::PullRows { table: TABLE, keys })?;
        match Answer::decode(&body)? {
            Answer::Rows { values: rows } if rows.len() == keys.len() * self.width => {
                values.copy_from_slice(rows);
            }
            other => bail!("the server answered a pull by {other:?}"),
        }
        Ok(())
    }

    fn ask(&mut self, request: &Message<'_>) -> Result<Body> {
        let (encoded, once) = (request.encode(), request.rules().once);
        let (lane, parts) = (if once { Lane::Send } else { Lane::Prefetch }, encoded.parts());
        Ok(self.client.call(lane, request.method(), "a measured request", &parts, once)?)
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // So that the server does not wait for a trainer that is gone.
        self.client.goodbye();
    }
}

/// The same table without a server.
struct Local(SparseTable);

impl Local {
    fn new(request: &Request) -> Result<Local> {
        let program = request.program()?;
        let var = program.find_var(0, TABLE).expect("the program declares the table");
        let config = TableConfig::from_block(var, &program.blocks[BLOCK])?;
        let table = SparseTable::new(TableConfig { seed: program.random_seed, ..config })?;
        let mut rows = vec![0.0; request.keys * request.width];
        for first in (0..ROWS).step_by(request.keys) {
            let keys: Vec<u64> = (first..ROWS.min(first + request.keys)).map(key_of).collect();
            table.pull(&keys, &mut rows[..keys.len() * request.width])?;
        }
        Ok(Local(table))
    }

    fn call(&self, (count, keys): (u64, &[u64]), values: &mut [f32], push: bool) -> Result<()> {
        if push {
            self.0.push(keys, values, None, &PushStep { rate: RATE, count })?;
        } else {
            self.0.pull(keys, values)?;
        }
        Ok(())
    }
}

/// Repeats `work` for about `time`, at least once; returns the seconds of processor time that one
/// took of all threads of this process.
fn cpu_per_run(time: Duration, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let (started, cpu) = (Instant::now(), process_time());
    let mut runs = 0u64;
    while runs == 0 || started.elapsed() < time {
        work()?;
        runs += 1;
    }
    Ok((process_time() - cpu).as_secs_f64() / runs as f64)
}

/// Keys all over the range of 64 bits.
fn key_of(row: usize) -> u64 {
    (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
