//! Calls that work: replies in any order, over every transport.

use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bireme_comm::*;

/// No wait of these tests is longer.
pub(crate) const BOUND: Duration = Duration::from_secs(20);

/// Echoes (method 1), keeps the reply until asked for it (2: keep as the body's name, 3: answer the
/// kept reply of that name), fails (4), drops the reply (5), panics (6).
#[derive(Default)]
pub(crate) struct Echo {
    kept: Mutex<HashMap<Vec<u8>, Reply>>,
    keeping: Condvar,
    events: Option<Mutex<Sender<String>>>,
}

impl Handler for Echo {
    fn handle(&self, peer: &Peer, method: u16, body: &Body, reply: Reply) {
        match method {
            1 => reply.send(&[body, b"!"]),
            2 => {
                self.kept.lock().unwrap().insert(body.to_vec(), reply);
                self.keeping.notify_all();
            }
            3 => {
                let kept = self.kept.lock().unwrap();
                let absent = |kept: &mut HashMap<Vec<u8>, Reply>| !kept.contains_key(&**body);
                let waited = self.keeping.wait_timeout_while(kept, BOUND, absent);
                let kept = waited.unwrap().0.remove(&**body);
                kept.expect("kept in time").send(&[body]);
                reply.send(&[]);
            }
            4 => reply.fail(&format!("{} may not", peer.identity)),
            5 => drop(reply),
            _ => panic!("an expected panic"),
        }
    }

    fn joined(&self, peer: &Peer) {
        if let Some(events) = &self.events {
            events.lock().unwrap().send(format!("{} joined", peer.identity)).unwrap();
        }
    }
}

pub(crate) fn settings() -> Settings {
    Settings { deadline: BOUND, ..Settings::default() }
}

pub(crate) fn pair(transport: Arc<dyn Transport>, handler: Arc<dyn Handler>) -> (Server, Client) {
    let me = Identity::server(0);
    let server = Server::start(transport.clone(), "127.0.0.1:0", me, settings(), handler).unwrap();
    let trainer = Identity::trainer(1);
    let client = Client::connect(transport, server.endpoint(), trainer, me, settings()).unwrap();
    (server, client)
}

fn transports() -> Vec<Arc<dyn Transport>> {
    vec![
        Arc::new(Network::new(Path::Tcp)),
        Arc::new(Network::new(Path::Unix)),
        Arc::new(Memory::new(0)),
    ]
}

#[test]
fn a_call_is_answered_over_every_transport() {
    for transport in transports() {
        let (server, client) = pair(transport, Arc::new(Echo::default()));
        let big = vec![7; 3_000_000];
        for once in [false, true] {
            let reply = client.call(Lane::Get, 1, "an echo", &[b"a", b"", b"bc"], once).unwrap();
            assert_eq!(&*reply, b"abc!");
            let reply = client.call(Lane::Send, 1, "a big echo", &[&big, &big], once).unwrap();
            assert_eq!(reply.len(), 6_000_001);
        }
        assert_eq!(server.peers()[0].identity, Identity::trainer(1));
        client.goodbye();
        assert!(server.peers().is_empty());
        server.shutdown();
    }
}

#[test]
fn replies_come_in_any_order() {
    for transport in transports() {
        let (_server, client) = pair(transport, Arc::new(Echo::default()));
        // More than the lane has connections, so that requests share them.
        let names: Vec<_> = (0..40).map(|name: u32| name.to_le_bytes()).collect();
        let start = |name: &[u8; 4]| client.start(Lane::Send, 2, "to be kept", &[name], true);
        let pending: Vec<_> = names.iter().map(|name| start(name).unwrap()).collect();
        assert!(!pending[0].is_ready());
        for name in names.iter().rev() {
            client.call(Lane::Get, 3, "the kept one", &[name], false).unwrap();
        }
        for (name, pending) in names.iter().zip(pending) {
            assert_eq!(&*pending.wait().unwrap(), name);
        }
    }
}

#[test]
fn failures_are_the_peers_words() {
    let (server, client) = pair(Arc::new(Network::default()), Arc::new(Echo::default()));
    let call = |method| client.call(Lane::Send, method, "it", &[], true).unwrap_err().to_string();
    let peer = format!("server 0 ({})", server.endpoint());
    assert_eq!(call(4), format!("{peer}: trainer 1 may not"));
    assert_eq!(call(5), format!("{peer}: the request was dropped without an answer"));
    assert_eq!(call(6), format!("{peer}: the request was dropped without an answer"));
    assert!(client.call(Lane::Send, 1, "it", &[], true).is_ok());
}

#[test]
fn joined_comes_before_requests() {
    let (events, received) = channel();
    let handler = Echo { events: Some(Mutex::new(events)), ..Echo::default() };
    let (_server, _client) = pair(Arc::new(Memory::new(0)), Arc::new(handler));
    assert_eq!(received.recv().unwrap(), "trainer 1 joined");
}

#[test]
fn many_threads_share_a_client() {
    let (_server, client) = pair(Arc::new(Network::default()), Arc::new(Echo::default()));
    std::thread::scope(|scope| {
        for thread in 0..20u8 {
            let client = &client;
            scope.spawn(move || {
                for step in 0..200u8 {
                    let reply = client
                        .call(Lane::Prefetch, 1, "an echo", &[&[thread, step]], step % 2 == 0)
                        .unwrap();
                    assert_eq!(&*reply, [thread, step, b'!']);
                }
            });
        }
    });
}
