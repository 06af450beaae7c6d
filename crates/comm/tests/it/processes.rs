//! Peers that are processes of their own and stop without a word, while their sockets stay open.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bireme_comm::*;

use crate::calls::{BOUND, Echo, settings};

/// Tells the process that runs the ignored test below what it is.
const PEER: &str = "BIREME_COMM_TEST_PEER";

struct Peers(Mutex<Sender<String>>);

impl Handler for Peers {
    fn handle(&self, _: &Peer, _: u16, body: &Body, reply: Reply) {
        reply.send(&[body]);
    }

    fn joined(&self, peer: &Peer) {
        self.0.lock().unwrap().send(format!("joined {}", peer.identity)).unwrap();
    }

    fn lost(&self, peer: &Peer, _: &str) {
        self.0.lock().unwrap().send(format!("lost {}", peer.identity)).unwrap();
    }
}

fn hasty() -> Settings {
    Settings {
        heartbeat: Duration::from_millis(50),
        heartbeat_timeout: Duration::from_secs(4),
        ..settings()
    }
}

/// Not a test: the other process of the tests below.
#[test]
#[ignore = "runs in a process of its own, started by other tests"]
fn other_process() {
    let Ok(what) = std::env::var(PEER) else { return };
    let network = Arc::new(Network::default());
    let me = Identity::server(3);
    let mut line = String::new();
    if what == "server" {
        let handler = Arc::new(Echo::default());
        let server = Server::start(network, "127.0.0.1:0", me, hasty(), handler).unwrap();
        println!("\nendpoint {}", server.endpoint());
        std::io::stdin().read_line(&mut line).unwrap();
    } else {
        let trainer = Identity::trainer(5);
        let _client = Client::connect(network, &what, trainer, me, hasty()).unwrap();
        std::io::stdin().read_line(&mut line).unwrap();
    }
}

/// Ends the process when the test ends, however it does.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Guard {
    fn start(what: &str) -> Guard {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "processes::other_process", "--ignored", "--nocapture"]);
        command.env(PEER, what).stdin(Stdio::piped()).stdout(Stdio::piped());
        Guard(command.spawn().unwrap())
    }

    /// Where it listens, once it does.
    fn endpoint(&mut self) -> String {
        let output = BufReader::new(self.0.stdout.take().unwrap());
        let mut lines = output.lines();
        let found = lines.find_map(|l| l.unwrap().strip_prefix("endpoint ").map(str::to_string));
        found.unwrap()
    }

    fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }
}

#[test]
fn a_server_that_is_stopped_or_killed_is_named() {
    let how = [("-STOP", "no heartbeat for "), ("-KILL", "nothing listens there any more (")];
    for (signal, how) in how {
        let mut process = Guard::start("server");
        let endpoint = process.endpoint();
        let network = Arc::new(Network::default());
        let (me, peer) = (Identity::trainer(0), Identity::server(3));
        let client = Client::connect(network, &endpoint, me, peer, hasty()).unwrap();
        client.call(Lane::Get, 1, "an echo", &[b"a"], false).unwrap();
        process.signal(signal);
        let what = "pull of 7 rows of `emb`";
        let problem = client.call(Lane::Get, 2, what, &[b"a"], false).unwrap_err();
        let text = problem.to_string();
        let expected = format!("server 3 ({endpoint}) is lost: {how}");
        assert!(text.starts_with(&expected), "{signal}: {text}");
        assert!(text.ends_with("while waiting for pull of 7 rows of `emb`"), "{signal}: {text}");
    }
}

#[test]
fn a_server_that_slept_takes_nobody_for_lost() {
    let mut process = Guard::start("server");
    let endpoint = process.endpoint();
    let network = Arc::new(Network::default());
    let (me, peer) = (Identity::trainer(0), Identity::server(3));
    let patient = Settings { heartbeat_timeout: 2 * BOUND, ..hasty() };
    let client = Client::connect(network, &endpoint, me, peer, patient).unwrap();
    client.call(Lane::Get, 1, "an echo", &[b"a"], false).unwrap();
    process.signal("-STOP");
    // Longer than the server waits for a sign of life.
    std::thread::sleep(hasty().heartbeat_timeout + Duration::from_secs(1));
    process.signal("-CONT");
    // A session that was given up would not be resumed.
    client.call(Lane::Get, 1, "an echo", &[b"b"], true).unwrap();
    client.call(Lane::Send, 1, "an echo", &[b"c"], true).unwrap();
}

#[test]
fn a_client_that_is_stopped_is_lost() {
    let (events, received) = channel();
    let handler = Arc::new(Peers(Mutex::new(events)));
    let network = Arc::new(Network::default());
    let me = Identity::server(3);
    let server = Server::start(network, "127.0.0.1:0", me, hasty(), handler).unwrap();
    let process = Guard::start(server.endpoint());
    assert_eq!(received.recv_timeout(BOUND).unwrap(), "joined trainer 5");
    process.signal("-STOP");
    assert_eq!(received.recv_timeout(BOUND).unwrap(), "lost trainer 5");
}
