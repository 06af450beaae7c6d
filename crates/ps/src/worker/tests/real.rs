//! Workers against real servers: two trainers and two servers train a linear model as one process
//! would.

use std::sync::Arc;

use bireme_comm::{Memory, Transport};
use bireme_engine::remote::{Piece, Remote, Sending};
use bireme_engine::tensor::Tensor;
use bireme_engine::{Scope, Value};
use bireme_ir::Program;

use super::fake::settings;
use crate::Mode;
use crate::server::PsServer;
use crate::worker::{Worker, WorkerConfig};

/// Elements of each of the two pieces.
pub(super) const HALF: usize = 3;
const RATE: f32 = 0.02;

/// The program of a server with one piece of `w`, updated by SGD.
pub(super) fn program(server: usize, endpoint: &str, trainers: u32, mode: Mode) -> Program {
    let name = format!("w.block{server}");
    let grads: Vec<String> = match mode {
        Mode::Sync => {
            (0..trainers).map(|at| format!("w@GRAD.block{server}.trainer_{at}")).collect()
        }
        _ => vec![format!("w@GRAD.block{server}")],
    };
    let declare = |name: &String| {
        format!("    var {name} : LOD_TENSOR.shape({HALF},).dtype(float32).stop_gradient(True)\n")
    };
    let listed: Vec<String> = grads.iter().map(|name| format!("'{name}'")).collect();
    let (listed, merged) = (listed.join(", "), format!("w@GRAD.block{server}"));
    let merge = match mode {
        Mode::Sync => format!(
            "    {{Out=['{merged}']}} = sum(inputs={{X=[{listed}]}})
    {{Out=['{merged}']}} = scale(inputs={{X=['{merged}']}}, scale = {:?})\n",
            1.0 / trainers as f32
        ),
        _ => String::new(),
    };
    let text = format!(
        "{{ // block 0
    persist trainable param {name} : LOD_TENSOR.shape({HALF},).dtype(float32).stop_gradient(False)
    persist var rate : LOD_TENSOR.shape(1,).dtype(float32).stop_gradient(True)
{}
    {{}} = listen_and_serv(inputs={{X=[{listed}]}}, endpoint = '{endpoint}', Fanin = {trainers}, \
         distributed_mode = {}, optimize_blocks = blocks[1], pserver_id = {server})
}}
{{ // block 1
{merge}    {{ParamOut=['{name}']}} = sgd(inputs={{Param=['{name}'], Grad=['{merged}'], \
         LearningRate=['rate']}})
}}",
        grads.iter().map(declare).collect::<String>(),
        mode.code(),
    );
    Program::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Sample `step` of a trainer: features and target.
fn sample(trainer: u32, step: usize) -> ([f32; 2 * HALF], f32) {
    let features = std::array::from_fn(|at| ((at + 2 * step + trainer as usize) % 5) as f32 / 4.0);
    (features, (step % 3) as f32 + trainer as f32 / 2.0)
}

/// The gradient of the squared error of one sample.
fn gradient(w: &[f32], trainer: u32, step: usize) -> Vec<f32> {
    let (features, target) = sample(trainer, step);
    let error: f32 = w.iter().zip(features).map(|(w, x)| w * x).sum::<f32>() - target;
    features.iter().map(|x| 2.0 * error * x).collect()
}

/// The run in one process: the average of all trainers' gradients, step by step.
fn local(trainers: u32, steps: usize) -> Vec<f32> {
    let mut w = vec![0.0; 2 * HALF];
    for step in 0..steps {
        let grads: Vec<Vec<f32>> = (0..trainers).map(|t| gradient(&w, t, step)).collect();
        for (at, w) in w.iter_mut().enumerate() {
            let sum: f32 = grads.iter().map(|grad| grad[at]).sum();
            *w -= RATE * (sum * (1.0 / trainers as f32));
        }
    }
    w
}

fn train(worker: &Worker, mode: Mode, endpoints: &[String], steps: usize) -> Vec<f32> {
    let trainer = worker.config().trainer;
    let piece = |at: usize, name: String| Piece { name, endpoint: endpoints[at].clone() };
    let suffix = if mode == Mode::Sync { format!(".trainer_{trainer}") } else { String::new() };
    let params: Vec<Piece> = (0..2).map(|at| piece(at, format!("w.block{at}"))).collect();
    let grads = (0..2).map(|at| piece(at, format!("w@GRAD.block{at}{suffix}"))).collect();
    let how = Sending { pieces: grads, merge_add: false };
    let recv = || {
        let (mut a, mut b) = (Tensor::scalar(0f32), Tensor::scalar(0f32));
        worker.recv(&params, &mut [&mut a, &mut b], &mut [0; 2]).unwrap();
        [a.as_slice::<f32>().unwrap(), b.as_slice::<f32>().unwrap()].concat()
    };
    let mut w = recv();
    worker.fetch_barrier(endpoints).unwrap();
    for step in 0..steps {
        let grad = gradient(&w, trainer, step);
        let half = |range| Value::Tensor(Tensor::from_slice([HALF], &grad[range]).unwrap());
        let (a, b) = (half(0..HALF), half(HALF..2 * HALF));
        worker.send(&how, &[&a, &b]).unwrap();
        if mode != Mode::Async {
            worker.send_barrier(endpoints).unwrap();
        }
        w = recv();
        worker.fetch_barrier(endpoints).unwrap();
    }
    // Nothing was sent since: the servers' current values, with all of this trainer's steps.
    let last = recv();
    worker.complete().unwrap();
    last
}

/// First values of a server.
pub(super) fn scope(server: usize) -> Scope {
    let scope = Scope::new();
    scope.set(&format!("w.block{server}"), &Tensor::from_slice([HALF], &[0f32; HALF]).unwrap());
    scope.set("rate", &Tensor::scalar(RATE));
    scope
}

fn cluster(mode: Mode, trainers: u32, steps: usize) -> Vec<Vec<f32>> {
    let transport: Arc<dyn Transport> = Arc::new(Memory::new(3));
    let endpoints: Vec<String> = (0..2).map(|at| format!("10.0.0.{at}:6174")).collect();
    let servers = endpoints.iter().enumerate().map(|(at, endpoint)| {
        let scope = scope(at);
        let program = program(at, endpoint, trainers, mode);
        PsServer::start(&program, &scope, Arc::clone(&transport), settings()).unwrap()
    });
    let servers: Vec<PsServer> = servers.collect();
    std::thread::scope(|scope| {
        let serving: Vec<_> =
            servers.iter().map(|server| scope.spawn(|| server.run(&|| false))).collect();
        let training: Vec<_> = (0..trainers)
            .map(|rank| {
                let config = WorkerConfig::new(rank, trainers, endpoints.clone(), mode);
                let (transport, endpoints) = (Arc::clone(&transport), &endpoints);
                scope.spawn(move || {
                    let worker = Worker::connect(config, transport, settings()).unwrap();
                    train(&worker, mode, endpoints, steps)
                })
            })
            .collect();
        let results = training.into_iter().map(|trainer| trainer.join().unwrap()).collect();
        serving.into_iter().for_each(|server| server.join().unwrap().unwrap());
        results
    })
}

#[test]
fn two_trainers_and_two_servers_equal_one_process() {
    let expected = local(2, 20);
    assert!(expected.iter().any(|w| w.abs() > 0.1), "it has learned something: {expected:?}");
    for trained in cluster(Mode::Sync, 2, 20) {
        let off = expected.iter().zip(&trained).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(off <= 1e-6, "{expected:?} {trained:?}");
    }
}

#[test]
fn one_half_async_trainer_equals_one_process() {
    assert_eq!(cluster(Mode::HalfAsync, 1, 10), [local(1, 10)]);
}

#[test]
fn async_trainers_learn_the_same_function() {
    let error =
        |w: &[f32]| (0..2).map(|t| gradient(w, t, 1).iter().sum::<f32>().abs()).sum::<f32>();
    let start = error(&[0.0; 2 * HALF]);
    for trained in cluster(Mode::Async, 2, 60) {
        assert!(trained.iter().all(|w| w.is_finite()) && error(&trained) < start, "{trained:?}");
    }
}
