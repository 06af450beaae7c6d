//! A server and hand-made trainers in one process.

use std::sync::Arc;
use std::time::Duration;

use bireme_comm::{Body, Client, Identity, Lane, Memory, Settings};
use bireme_engine::Scope;
use bireme_engine::tensor::{SelectedRows, Tensor};
use bireme_ir::Program;

use crate::message::{Answer, Array, Life, Request};
use crate::server::PsServer;
use crate::{Mode, Result};

/// Times that keep tests short, with room for a machine that is busy.
pub(super) fn settings() -> Settings {
    Settings {
        deadline: Duration::from_secs(20),
        heartbeat: Duration::from_millis(20),
        heartbeat_timeout: Duration::from_secs(2),
        ..Settings::default()
    }
}

/// A server's program with `w` (3 rows of 2) and a keyed table `emb` of width 2, both by SGD.
pub(super) fn program(mode: Mode, trainers: u32, attrs: &str) -> Program {
    let summed = trainers > 1 && matches!(mode, Mode::Sync | Mode::Hybrid);
    let names: Vec<String> = match summed {
        true => (0..trainers).map(|at| format!("w@GRAD.trainer_{at}")).collect(),
        false => vec!["w@GRAD".to_owned()],
    };
    let declare = |name: &String| {
        format!("    var {name} : LOD_TENSOR.shape(3, 2).dtype(float32).stop_gradient(True)\n")
    };
    let received = if mode == Mode::Geo { vec!["w.delta".to_owned()] } else { names.clone() };
    let listed: Vec<String> = received.iter().map(|name| format!("'{name}'")).collect();
    let listed = listed.join(", ");
    let merge = match summed {
        true => format!(
            "    {{Out=['w@GRAD']}} = sum(inputs={{X=[{listed}]}})
    {{Out=['w@GRAD']}} = scale(inputs={{X=['w@GRAD']}}, scale = {:?})\n",
            1.0 / trainers as f32
        ),
        false => String::new(),
    };
    let update = match mode {
        Mode::Geo => "    {Out=['w']} = sum(inputs={X=['w', 'w.delta']})\n".to_owned(),
        _ => format!(
            "{merge}    {{ParamOut=['w']}} = sgd(inputs={{Param=['w'], Grad=['w@GRAD'], \
             LearningRate=['rate']}})\n"
        ),
    };
    let text = format!(
        "random_seed 7
{{ // block 0
    persist trainable param w : LOD_TENSOR.shape(3, 2).dtype(float32).stop_gradient(False)
    persist trainable param emb : LOD_TENSOR.shape(100, 2).dtype(float32).stop_gradient(False)
    persist var rate : LOD_TENSOR.shape(1,).dtype(float32).stop_gradient(True)
{}
    {{}} = listen_and_serv(inputs={{X=[{listed}]}}, endpoint = '127.0.0.1:0', Fanin = {trainers}, \
         distributed_mode = {}, optimize_blocks = blocks[1], sparse_tables = ['emb:2'], \
         pserver_id = 0{attrs})
}}
{{ // block 1, parent 0
{update}}}
{{ // block 2, parent 0
    {{Out=['emb']}} = fill_constant(inputs={{}}, shape = [100L, 2L], value = 1.0, dtype = 5)
    {{}} = lookup_sparse_table(inputs={{W=['emb']}}, entry = 'none')
    {{ParamOut=['emb']}} = sgd(inputs={{Param=['emb'], Grad=['emb@GRAD'], LearningRate=['rate']}})
}}",
        received.iter().map(declare).collect::<String>(),
        mode.code(),
    );
    Program::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Initial values: `w` is 0, the rate 1.
pub(super) fn scope() -> Scope {
    let scope = Scope::new();
    scope.set("w", &dense(&[0.0; 6]));
    scope.set("rate", &Tensor::scalar(1.0f32));
    scope
}

pub(super) fn dense(values: &[f32]) -> Tensor {
    Tensor::from_slice([values.len() / 2, 2], values).unwrap()
}

pub(super) fn rows(numbers: &[i64], values: &[f32]) -> SelectedRows {
    SelectedRows { rows: numbers.to_vec(), height: 3, value: dense(values) }
}

/// A server that runs, and the network.
pub(super) struct Cluster {
    pub(super) memory: Memory,
    pub(super) server: Arc<PsServer>,
    pub(super) scope: Scope,
    pub(super) settings: Settings,
    mode: Mode,
    trainers: u32,
}

impl Cluster {
    pub(super) fn start(mode: Mode, trainers: u32) -> Cluster {
        Cluster::with(mode, trainers, &program(mode, trainers, ""), settings())
    }

    pub(super) fn with(
        mode: Mode,
        trainers: u32,
        program: &Program,
        settings: Settings,
    ) -> Cluster {
        let (memory, scope) = (Memory::new(1), scope());
        let transport = Arc::new(memory.clone());
        let server = PsServer::start(program, &scope, transport, settings.clone()).unwrap();
        Cluster { memory, server: Arc::new(server), scope, settings, mode, trainers }
    }

    /// Runs the server on a thread of its own.
    pub(super) fn run(&self) -> std::thread::JoinHandle<Result<()>> {
        let server = Arc::clone(&self.server);
        std::thread::spawn(move || server.run(&|| false))
    }

    /// A trainer that has joined.
    pub(super) fn trainer(&self, rank: u32) -> Trainer {
        let trainer = self.stranger(rank);
        trainer.ask(&join(rank, self.trainers, self.mode)).unwrap();
        trainer
    }

    /// A trainer that has not joined.
    pub(super) fn stranger(&self, rank: u32) -> Trainer {
        let client = Client::connect(
            Arc::new(self.memory.clone()),
            self.server.endpoint(),
            Identity::trainer(rank),
            Identity::server(0),
            self.settings.clone(),
        );
        Trainer { client: client.unwrap(), rank }
    }
}

/// The request of a trainer that says nothing of its program.
pub(super) fn join(trainer: u32, trainers: u32, mode: Mode) -> Request<'static> {
    let life = Life { number: 1, ..Life::default() };
    Request::Join { trainer, trainers, mode, process: "a process", program: Vec::new(), life }
}

/// One trainer's connection.
pub(super) struct Trainer {
    pub(super) client: Client,
    pub(super) rank: u32,
}

impl Trainer {
    pub(super) fn ask(&self, request: &Request<'_>) -> bireme_comm::Result<Body> {
        let (encoded, once) = (request.encode(), request.rules().once);
        self.client.call(Lane::Send, request.method(), "a request", &encoded.parts(), once)
    }

    /// Sends a request and reads its answer later.
    pub(super) fn begin(&self, request: &Request<'_>) -> bireme_comm::Pending {
        let (encoded, once) = (request.encode(), request.rules().once);
        let parts = encoded.parts();
        self.client.start(Lane::Send, request.method(), "a request", &parts, once).unwrap()
    }

    pub(super) fn fails(&self, request: &Request<'_>) -> String {
        self.ask(request).unwrap_err().to_string()
    }

    /// Pushes the gradient of `w` under the name it has on the server.
    pub(super) fn push(&self, name: &str, array: Array<'_>) {
        let values = vec![(name, array)];
        self.ask(&Request::Push { trainer: self.rank, values }).unwrap();
    }

    pub(super) fn push_own(&self, values: &[f32]) {
        let name = format!("w@GRAD.trainer_{}", self.rank);
        self.push(&name, Array::of_tensor(&dense(values)));
    }

    pub(super) fn push_keys(&self, keys: &[u64], grads: &[f32]) {
        let (trainer, table, counts) = (self.rank, "emb", None);
        self.ask(&Request::PushRows { trainer, table, keys, grads, counts }).unwrap();
    }

    pub(super) fn barrier(&self) -> bireme_comm::Result<Body> {
        self.ask(&Request::Barrier { trainer: self.rank })
    }

    pub(super) fn get(&self, name: &str) -> Vec<f32> {
        let (names, versions) = (vec![name], Vec::new());
        let get = Request::Get { trainer: self.rank, names, start: 0, versions, ahead: false };
        let body = self.ask(&get).unwrap();
        let Answer::Values { values, .. } = Answer::decode(&body).unwrap() else {
            panic!("no values")
        };
        assert_eq!(values[0].0, name);
        bytemuck::cast_slice(values[0].1.bytes()).to_vec()
    }

    pub(super) fn pull(&self, table: &str, keys: &[u64]) -> Vec<f32> {
        let body = self.ask(&Request::PullRows { table, keys }).unwrap();
        let Answer::Rows { values } = Answer::decode(&body).unwrap() else { panic!("no rows") };
        values.to_vec()
    }

    /// Finishes and leaves.
    pub(super) fn complete(self) {
        self.ask(&Request::Complete { trainer: self.rank }).unwrap();
        self.client.goodbye();
    }
}
