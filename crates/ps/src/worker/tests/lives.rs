//! Servers that are restarted alone: a job must not train on with one half new.

use std::sync::Arc;

use bireme_comm::{Memory, Transport};
use bireme_engine::Value;
use bireme_engine::remote::{Piece, Remote, Sending};
use bireme_engine::tensor::Tensor;

use super::fake::settings;
use super::real::{HALF, program, scope};
use crate::Mode;
use crate::message::Format;
use crate::server::{Folders, PsServer};
use crate::worker::{Worker, WorkerConfig};

/// Two servers and the network.
struct Job {
    transport: Arc<dyn Transport>,
    endpoints: Vec<String>,
    servers: Vec<Option<PsServer>>,
}

impl Job {
    fn start(from: Option<&str>) -> Job {
        let endpoints = (0..2).map(|at| format!("10.0.0.{at}:6174")).collect();
        let mut job = Job { transport: Arc::new(Memory::new(3)), endpoints, servers: vec![] };
        job.servers = vec![None, None];
        (0..2).for_each(|at| job.restart(at, from));
        job
    }

    /// Starts a server, which forgets what it had.
    fn restart(&mut self, at: usize, from: Option<&str>) {
        self.servers[at] = None;
        let program = program(at, &self.endpoints[at], 2, Mode::Async);
        let (transport, scope) = (Arc::clone(&self.transport), scope(at));
        let folders = Folders::default();
        let started =
            PsServer::start_from(&program, &scope, from, &[], folders, transport, settings());
        self.servers[at] = Some(started.unwrap());
    }

    fn connect(&self, rank: u32) -> Result<Arc<Worker>, String> {
        let config = WorkerConfig::new(rank, 2, self.endpoints.clone(), Mode::Async);
        let connected = Worker::connect(config, Arc::clone(&self.transport), settings());
        connected.map_err(|error| error.to_string())
    }

    /// One push to both servers.
    fn step(&self, worker: &Worker) {
        let piece = |at: usize| Piece {
            name: format!("w@GRAD.block{at}"),
            endpoint: self.endpoints[at].clone(),
        };
        let how = Sending { pieces: (0..2).map(piece).collect(), merge_add: false };
        let grad = Value::Tensor(Tensor::from_slice([HALF], &[1.0f32; HALF]).unwrap());
        worker.send(&how, &[&grad, &grad]).unwrap();
        worker.flush().unwrap();
    }
}

#[test]
fn a_server_that_was_restarted_alone_is_refused_whichever_it_is() {
    for fresh in [0, 1] {
        let folder = tempfile::tempdir().unwrap();
        let saved = folder.path().join("1");
        let mut job = Job::start(None);
        let worker = job.connect(0).unwrap();
        job.step(&worker);
        worker.save(saved.to_str().unwrap(), None, 0, Format::Native).unwrap();
        job.step(&worker);
        job.restart(fresh, None);
        worker.quit("a server is lost");
        // Trainers come back one by one, and again.
        for rank in [0, 1, 0] {
            let Err(error) = job.connect(rank) else { panic!("server {fresh} is new") };
            assert!(error.contains("was started anew"), "{error}");
            let new = format!("server {fresh}");
            let at = error.find("was started anew").unwrap();
            let named = &error[..at];
            assert!(named.rfind(&new) > named.rfind(&format!("server {}", 1 - fresh)), "{error}");
            assert!(error.contains(saved.to_str().unwrap()), "{error}");
            assert!(error.contains("restart all servers and trainers"), "{error}");
        }
    }
}

#[test]
fn an_older_checkpoint_on_one_server_is_no_way_back_into_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("1").to_str().unwrap().to_owned();
    let job = Job::start(None);
    let worker = job.connect(0).unwrap();
    job.step(&worker);
    worker.save(&saved, None, 0, Format::Native).unwrap();
    drop(job);

    // All servers with the same checkpoint are one job.
    let mut job = Job::start(Some(&saved));
    let [first, second] = [job.connect(0).unwrap(), job.connect(1).unwrap()];
    job.step(&first);
    job.step(&second);
    job.restart(1, Some(&saved));
    let Err(error) = job.connect(1) else { panic!("server 1 is older than server 0") };
    assert!(error.contains("was started anew (with the checkpoint"), "{error}");
    assert!(error.contains("server 0 is at step 3"), "{error}");

    // And so are not one with it and one without.
    let mut job = Job::start(Some(&saved));
    job.restart(1, None);
    let Err(error) = job.connect(0) else { panic!("server 1 has first values") };
    assert!(error.contains("was started with first values"), "{error}");
}

#[test]
fn trainers_that_come_late_or_again_join_a_job_that_trains() {
    let job = Job::start(None);
    let first = job.connect(0).unwrap();
    job.step(&first);
    let second = job.connect(1).unwrap();
    job.step(&second);
    let again = job.connect(0).unwrap();
    job.step(&again);
    let error = first.flush().and_then(|()| first.save("x", None, 0, Format::Native));
    assert!(error.unwrap_err().to_string().contains("has joined as trainer 0 since"));
}
