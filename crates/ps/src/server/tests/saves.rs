//! Saves that are completed, given up, stuck, or asked for by a trainer that is gone.

use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bireme_comm::{Body, Client, Handler, Identity, Lane, Peer, Reply, Server, Settings};

use super::cluster::*;
use crate::Mode;
use crate::checkpoint::{complete_request, read_manifest};
use crate::message::{Answer, Format, Request};

/// Asks for a save, and returns what the server wrote.
fn save(trainer: &Trainer, dir: &Path, number: u64, mode: u32) -> Vec<u8> {
    let (directory, format) = (dir.to_str().unwrap(), Format::Native);
    let request = Request::Save { number, directory, table: None, mode, format };
    let body = trainer.ask(&request).unwrap();
    let Answer::Text { text } = Answer::decode(&body).unwrap() else { panic!("no text") };
    text.as_bytes().to_vec()
}

fn complete(dir: &Path, written: Vec<u8>) -> u64 {
    complete_request(dir, &[written]).unwrap();
    read_manifest(dir).unwrap().saves.last().unwrap().tables[0].rows
}

#[test]
fn rows_count_as_saved_when_their_checkpoint_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(Mode::Async, 2);
    let run = cluster.run();
    let [first, second] = [cluster.trainer(0), cluster.trainer(1)];
    first.push_keys(&[1, 2, 3], &[1.0; 6]);
    assert_eq!(complete(dir.path(), save(&first, dir.path(), 1, 2)), 3);
    first.ask(&Request::Commit { number: 1 }).unwrap();
    first.push_keys(&[2], &[1.0; 2]);
    // The asker is gone before it has completed it.
    save(&first, dir.path(), 2, 1);
    drop(first);
    second.push_keys(&[3], &[1.0; 2]);
    let written = save(&second, dir.path(), 3, 1);
    // Late news of another save change nothing.
    second.ask(&Request::Commit { number: 2 }).unwrap();
    second.ask(&Request::Abandon { number: 3 }).unwrap();
    drop(written);
    assert_eq!(complete(dir.path(), save(&second, dir.path(), 4, 1)), 2);
    second.ask(&Request::Commit { number: 4 }).unwrap();
    assert_eq!(complete(dir.path(), save(&second, dir.path(), 5, 1)), 0);
    second.complete();
    let ended = run.join().unwrap().unwrap_err().to_string();
    assert!(ended.contains("trainer 0 was lost"), "{ended}");
}

#[test]
fn a_save_that_makes_no_progress_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    // A file that nobody reads: opening it to write takes for ever, like a disk that is gone.
    let folder = dir.path().join("001");
    std::fs::create_dir(&folder).unwrap();
    let pipe = folder.join(".part-000.tmp");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let settings = Settings { deadline: Duration::from_secs(2), ..settings() };
    let cluster = Cluster::with(Mode::Sync, 2, &program(Mode::Sync, 2, ""), settings);
    let run = cluster.run();
    let [first, second] = [cluster.trainer(0), cluster.trainer(1)];
    let (directory, format) = (dir.path().to_str().unwrap(), Format::Text);
    let request = Request::Save { number: 1, directory, table: None, mode: 0, format };
    let encoded = request.encode();
    let ask = |trainer: &Trainer, request: &Request<'_>, parts: &[&[u8]]| {
        let client = &trainer.client;
        let called = client.call_until_lost(Lane::Get, request.method(), "a wait", parts, true);
        called.unwrap_err().to_string()
    };
    std::thread::scope(|scope| {
        let saved = scope.spawn(|| ask(&first, &request, &encoded.parts()));
        let barrier = Request::Barrier { trainer: 1 };
        let waited = ask(&second, &barrier, &barrier.encode().parts());
        assert!(waited.contains("trainer 0") && waited.contains("did not arrive"), "{waited}");
        let saved = saved.join().unwrap();
        assert!(saved.contains("saving to `") && saved.contains("no progress for"), "{saved}");
    });
    let ended = run.join().unwrap().unwrap_err().to_string();
    assert!(ended.contains("send barrier"), "{ended}");
    // The thread that is stuck goes on.
    drop(std::fs::File::open(&pipe).unwrap());
}

/// A handler whose work ends by a panic.
struct Panics(Arc<super::super::service::Service>);

impl Handler for Panics {
    fn handle(&self, _: &Peer, _: u16, _: &Body, reply: Reply) {
        self.0.work("saving", true, reply, || panic!("an expected panic"));
    }
}

#[test]
fn work_that_panics_is_answered_and_over() {
    let cluster = Cluster::start(Mode::Sync, 1);
    let handler = Arc::new(Panics(Arc::clone(&cluster.server.service)));
    let (memory, me) = (Arc::new(cluster.memory.clone()), Identity::server(7));
    let server = Server::start(memory.clone(), "other:0", me, settings(), handler).unwrap();
    let trainer = Identity::trainer(0);
    let client = Client::connect(memory, server.endpoint(), trainer, me, settings()).unwrap();
    let error = client.call_until_lost(Lane::Get, 1, "a save", &[], true).unwrap_err().to_string();
    assert!(error.contains("panic"), "{error}");
    let start = std::time::Instant::now();
    let waited = cluster.server.service.roster().waited(start, start + Duration::from_secs(9));
    assert!(waited > Duration::ZERO, "nothing is worked on any more");
}

/// A handler whose work waits for a lock: method 1 on the disk, others on tables.
struct Waits(Arc<super::super::service::Service>, Sender<()>, Arc<Mutex<()>>);

impl Handler for Waits {
    fn handle(&self, _: &Peer, method: u16, _: &Body, reply: Reply) {
        self.0.work("work", method == 1, reply, || {
            self.1.send(()).unwrap();
            drop(self.2.lock().unwrap());
            Ok(Vec::new())
        });
    }
}

#[test]
fn work_on_tables_that_waits_for_a_stuck_disk_is_answered() {
    let cluster = Cluster::start(Mode::Sync, 1);
    let service = &cluster.server.service;
    let ((begun, received), gate) = (channel(), Arc::new(Mutex::new(())));
    let handler = Arc::new(Waits(Arc::clone(service), begun, Arc::clone(&gate)));
    let (memory, me) = (Arc::new(cluster.memory.clone()), Identity::server(7));
    let server = Server::start(memory.clone(), "other:0", me, settings(), handler).unwrap();
    let trainer = Identity::trainer(0);
    let client = Client::connect(memory, server.endpoint(), trainer, me, settings()).unwrap();
    let held = gate.lock().unwrap();
    let start = |lane, method| {
        let pending = client.start(lane, method, "work", &[], true).unwrap();
        received.recv().unwrap();
        pending
    };
    let long = Duration::from_secs(100);
    let shrink = start(Lane::Send, 2);
    // Alone it computes, however long that takes.
    let now = std::time::Instant::now();
    assert!(service.roster().stalled(long, now + 2 * long).is_empty());
    assert_eq!(service.roster().waited(now, now + 2 * long), Duration::ZERO);
    let save = start(Lane::Get, 1);
    let now = std::time::Instant::now();
    let failing = service.roster().stalled(long, now + 2 * long);
    failing.into_iter().for_each(|failing| failing.deliver());
    for pending in [save, shrink] {
        let error = pending.wait().unwrap_err().to_string();
        assert!(error.contains("has made no progress"), "{error}");
    }
    assert!(service.roster().waited(now, now + 2 * long) > Duration::ZERO);
    drop(held);
}

#[test]
fn a_goodbye_before_the_end_is_a_loss() {
    let cluster = Cluster::start(Mode::Async, 1);
    let run = cluster.run();
    cluster.trainer(0).client.goodbye();
    let ended = run.join().unwrap().unwrap_err().to_string();
    assert!(ended.contains("it left before it had completed"), "{ended}");
    let cluster = Cluster::start(Mode::Sync, 2);
    let run = cluster.run();
    let [first, second] = [cluster.trainer(0), cluster.trainer(1)];
    let wait = first.begin(&Request::Barrier { trainer: 0 });
    second.client.goodbye();
    let error = wait.wait().unwrap_err().to_string();
    assert!(error.contains("trainer 1") && error.contains("it left before"), "{error}");
    run.join().unwrap().unwrap_err();
}
