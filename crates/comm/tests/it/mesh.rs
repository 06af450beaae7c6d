//! Meshes of equals: messages, goodbyes, aborts, strangers, encryption.

use std::sync::mpsc::{Receiver as Received, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bireme_comm::*;

use crate::calls::{BOUND, settings};

/// Hands on what arrives.
struct Events(Mutex<Sender<(usize, Event)>>);

#[derive(Debug, PartialEq, Eq)]
enum Event {
    Message(u16, u64, u64, Vec<u8>),
    Ended(Ended),
}

impl Receiver for Events {
    fn message(&self, from: usize, message: Message) {
        let Message { method, number, note, body } = message;
        let event = Event::Message(method, number, note, body.to_vec());
        let _ = self.0.lock().unwrap().send((from, event));
    }

    fn ended(&self, from: usize, why: Ended) {
        let _ = self.0.lock().unwrap().send((from, Event::Ended(why)));
    }
}

type Joined = (Result<Mesh>, Received<(usize, Event)>);

fn join(
    transport: &Arc<dyn Transport>,
    rank: usize,
    endpoints: &[String],
    settings: Settings,
) -> Joined {
    let (events, received) = channel();
    let place = Place { role: Role::Trainer, rank, endpoints: endpoints.to_vec(), session: 17 };
    let receiver = Arc::new(Events(Mutex::new(events)));
    (Mesh::connect(place, settings, transport, receiver), received)
}

/// All ranks of a mesh in memory.
fn mesh(ranks: usize, change: impl Fn(usize, &mut Settings) + Sync) -> Vec<Joined> {
    let transport: Arc<dyn Transport> = Arc::new(Memory::new(0));
    let endpoints: Vec<_> = (1..=ranks).map(|port| format!("host:{port}")).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks)
            .map(|rank| {
                let (transport, endpoints, change) = (&transport, &endpoints, &change);
                scope.spawn(move || {
                    let mut settings = settings();
                    change(rank, &mut settings);
                    join(transport, rank, endpoints, settings)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn messages_arrive_in_order_from_everyone() {
    let all = mesh(3, |_, _| {});
    let meshes: Vec<_> = all.iter().map(|(mesh, _)| mesh.as_ref().unwrap()).collect();
    for (rank, mesh) in meshes.iter().enumerate() {
        for to in (0..3).filter(|to| *to != rank) {
            for step in 0..10 {
                mesh.send(to, 7, step, 8, &[b"part ", &[rank as u8]]).unwrap();
            }
        }
    }
    for (rank, (_, events)) in all.iter().enumerate() {
        let mut next = [0; 3];
        for _ in 0..20 {
            let (from, event) = events.recv_timeout(BOUND).unwrap();
            let body = [b"part ", &[from as u8][..]].concat();
            assert_eq!(event, Event::Message(7, next[from], 8, body));
            next[from] += 1;
        }
        assert_eq!(next[rank], 0);
        assert!(meshes[rank].bytes_sent() >= 20 * 46);
        assert!(meshes[rank].is_there((rank + 1) % 3));
    }
}

#[test]
fn who_leaves_says_goodbye_after_its_last_message() {
    let mut all = mesh(2, |_, _| {});
    let (leaver, _) = all.remove(0);
    let leaver = leaver.unwrap();
    leaver.send(1, 1, 2, 3, &[&[9; 100_000]]).unwrap();
    drop(leaver);
    let (mesh, events) = &all[0];
    let (_, event) = events.recv_timeout(BOUND).unwrap();
    assert_eq!(event, Event::Message(1, 2, 3, vec![9; 100_000]));
    assert_eq!(events.recv_timeout(BOUND).unwrap(), (0, Event::Ended(Ended::Left)));
    let mesh = mesh.as_ref().unwrap();
    assert!(!mesh.is_there(0));
    assert!(mesh.send(0, 1, 2, 3, &[]).is_err());
}

/// Hands on what arrives, but not before it may.
struct Held {
    events: Events,
    gate: Mutex<Received<()>>,
}

impl Receiver for Held {
    fn message(&self, from: usize, message: Message) {
        // An end of the gate lets everything through.
        let _ = self.gate.lock().unwrap().recv();
        self.events.message(from, message);
    }

    fn ended(&self, from: usize, why: Ended) {
        self.events.ended(from, why);
    }
}

/// Two ranks, of which the second reads no message before the gate opens.
fn held_pair(network: &Memory) -> (Mesh, Mesh, Sender<()>, Received<(usize, Event)>) {
    let transport: Arc<dyn Transport> = Arc::new(network.clone());
    let endpoints: Vec<_> = (1..=2).map(|port| format!("host:{port}")).collect();
    // A slow reader may take far longer than a handshake.
    let short = Settings { handshake: Duration::from_millis(100), ..settings() };
    let (gate, held) = channel();
    let (events, received) = channel();
    let receiver = Arc::new(Held { events: Events(Mutex::new(events)), gate: Mutex::new(held) });
    let place = Place { role: Role::Trainer, rank: 1, endpoints: endpoints.clone(), session: 17 };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| join(&transport, 0, &endpoints, short.clone()).0.unwrap());
        let second = Mesh::connect(place, short.clone(), &transport, receiver).unwrap();
        (first.join().unwrap(), second, gate, received)
    })
}

#[test]
fn who_leaves_waits_until_everything_is_read() {
    let (leaver, _reader, gate, events) = held_pair(&Memory::new(0));
    for step in 0..2 {
        leaver.send(1, 1, step, 0, &[b"last"]).unwrap();
    }
    let (closed, is_closed) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            drop(leaver);
            closed.send(()).unwrap();
        });
        assert!(is_closed.recv_timeout(Duration::from_millis(500)).is_err(), "it left too soon");
        drop(gate);
        is_closed.recv_timeout(BOUND).unwrap();
    });
    for step in 0..2 {
        let (_, event) = events.recv_timeout(BOUND).unwrap();
        assert_eq!(event, Event::Message(1, step, 0, b"last".to_vec()));
    }
    assert_eq!(events.recv_timeout(BOUND).unwrap(), (0, Event::Ended(Ended::Left)));
}

#[test]
fn who_leaves_does_not_wait_for_a_peer_that_is_gone() {
    let network = Memory::new(0);
    let (leaver, _reader, gate, events) = held_pair(&network);
    leaver.send(1, 1, 0, 0, &[b"last"]).unwrap();
    let (closed, is_closed) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            drop(leaver);
            closed.send(()).unwrap();
        });
        network.cut("host:1");
        is_closed.recv_timeout(BOUND / 2).unwrap();
        drop(gate);
    });
    drop(events);
}

/// A network whose readers get few bytes at a time, and wait for them.
struct Trickle(Memory);

struct TrickleStream(Box<dyn Stream>);

impl Transport for Trickle {
    fn listen(&self, endpoint: &str) -> Result<Bound> {
        self.0.listen(endpoint)
    }

    fn connect(&self, endpoint: &str, timeout: Duration) -> Result<Box<dyn Stream>> {
        Ok(Box::new(TrickleStream(self.0.connect(endpoint, timeout)?)))
    }
}

impl Stream for TrickleStream {
    fn read(&self, buffer: &mut [u8]) -> std::io::Result<usize> {
        // The time that the link takes; only what is larger than its buffer is slow.
        let most = 1 << 16;
        if buffer.len() > most {
            std::thread::sleep(Duration::from_millis(50));
        }
        let length = buffer.len().min(most);
        self.0.read(&mut buffer[..length])
    }

    fn write(&self, parts: &mut [std::io::IoSlice<'_>]) -> std::io::Result<()> {
        self.0.write(parts)
    }

    fn try_write(&self, frame: &[u8]) -> std::io::Result<bool> {
        self.0.try_write(frame)
    }

    fn set_read_timeout(&self, timeout: Option<Duration>) -> std::io::Result<()> {
        self.0.set_read_timeout(timeout)
    }

    fn set_write_timeout(&self, timeout: Option<Duration>) -> std::io::Result<()> {
        self.0.set_write_timeout(timeout)
    }

    fn shutdown(&self) {
        self.0.shutdown();
    }

    fn address(&self) -> String {
        self.0.address()
    }
}

#[test]
fn a_message_that_arrives_slowly_is_a_sign_of_life() {
    let transport: Arc<dyn Transport> = Arc::new(Trickle(Memory::new(0)));
    let endpoints: Vec<_> = (1..=2).map(|port| format!("host:{port}")).collect();
    let settings = Settings {
        heartbeat: Duration::from_millis(100),
        heartbeat_timeout: Duration::from_secs(1),
        ..settings()
    };
    std::thread::scope(|scope| {
        let (transport, endpoints) = (&transport, &endpoints);
        let first = scope.spawn(|| join(transport, 0, endpoints, settings.clone()));
        // Rank 1 connects to rank 0, so it is the one that reads slowly.
        let (_second, events) = join(transport, 1, endpoints, settings.clone());
        let first = first.join().unwrap().0.unwrap();
        let data = vec![7; 3 << 20];
        first.send(1, 0, 0, 0, &[&data]).unwrap();
        let (_, event) = events.recv_timeout(BOUND).unwrap();
        assert_eq!(event, Event::Message(0, 0, 0, data));
    });
}

#[test]
fn an_abort_carries_its_reason() {
    let all = mesh(3, |_, _| {});
    all[1].0.as_ref().unwrap().abort("no more memory");
    for rank in [0, 2] {
        let (from, event) = all[rank].1.recv_timeout(BOUND).unwrap();
        let expected = Event::Ended(Ended::Aborted("no more memory".into()));
        assert_eq!((from, event), (1, expected));
    }
}

#[test]
fn two_write_large_messages_to_each_other() {
    let all = mesh(2, |_, _| {});
    let data = vec![5; 20 << 20];
    std::thread::scope(|scope| {
        for (rank, (mesh, _)) in all.iter().enumerate() {
            let (mesh, data) = (mesh.as_ref().unwrap(), &data);
            scope.spawn(move || {
                for _ in 0..3 {
                    mesh.send(1 - rank, 0, 0, 0, &[data]).unwrap();
                }
            });
        }
    });
    for (_, events) in &all {
        for _ in 0..3 {
            let (_, event) = events.recv_timeout(BOUND).unwrap();
            assert!(matches!(event, Event::Message(0, 0, 0, body) if body == data));
        }
    }
}

#[test]
fn a_message_that_is_too_large_is_refused_where_it_is_sent() {
    let all = mesh(2, |_, settings| settings.max_frame = 1000);
    let problem = all[0].0.as_ref().unwrap().send(1, 0, 0, 0, &[&[0; 1001]]).unwrap_err();
    assert!(problem.to_string().contains("1001 bytes"), "{problem}");
    all[0].0.as_ref().unwrap().send(1, 0, 0, 0, &[&[0; 1000]]).unwrap();
    all[1].1.recv_timeout(BOUND).unwrap();
}

#[test]
fn another_secret_ends_in_an_error_on_both_sides() {
    let all = mesh(2, |rank, settings| {
        settings.secret = Secret::new(&[rank as u8]);
        settings.deadline = Duration::from_secs(2);
    });
    for (mesh, _) in &all {
        let text = mesh.as_ref().err().unwrap().to_string();
        assert!(text.contains("the secrets differ"), "{text}");
    }
}

#[test]
fn two_processes_with_one_rank_are_told() {
    let transport: Arc<dyn Transport> = Arc::new(Memory::new(0));
    let endpoints: Vec<_> = (1..=3).map(|port| format!("host:{port}")).collect();
    let short = Settings { deadline: Duration::from_secs(2), ..settings() };
    std::thread::scope(|scope| {
        let (transport, endpoints) = (&transport, &endpoints);
        let first = scope.spawn(|| join(transport, 0, endpoints, short.clone()).0.err());
        let second = scope.spawn(|| join(transport, 1, endpoints, short.clone()).0.err());
        let twin = scope.spawn(|| join(transport, 1, endpoints, short.clone()).0.err());
        let texts = [second, twin].map(|thread| thread.join().unwrap().unwrap().to_string());
        assert!(texts.iter().any(|text| text.contains("cannot listen on `host:2`")), "{texts:?}");
        let text = first.join().unwrap().unwrap().to_string();
        assert!(text.contains("trainer 2 (host:3)") || text.contains("trainer 1"), "{text}");
    });
}

/// A free port, and a socket that is bound to it but does not listen: nobody else gets it.
fn held_port() -> (String, rustix::fd::OwnedFd) {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket, sockopt};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    bind(&socket, &std::net::SocketAddrV4::new([127, 0, 0, 1].into(), 0)).unwrap();
    let address: std::net::SocketAddr = getsockname(&socket).unwrap().try_into().unwrap();
    (address.to_string(), socket)
}

#[test]
fn an_encrypted_mesh_beats_and_talks_both_ways() {
    let transport: Arc<dyn Transport> = Arc::new(Network::new(Path::Tcp));
    let [first, second] = [held_port(), held_port()];
    let endpoints = [first.0, second.0];
    let _held = [first.1, second.1];
    let settings = Settings {
        heartbeat: Duration::from_millis(20),
        heartbeat_timeout: Duration::from_secs(2),
        ..crate::tls::tls("authority.pem")
    };
    let all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|rank| {
                let (transport, endpoints, settings) = (&transport, &endpoints, settings.clone());
                scope.spawn(move || join(transport, rank, endpoints, settings))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let data = vec![3; 3 << 20];
    std::thread::scope(|scope| {
        for (rank, (mesh, _)) in all.iter().enumerate() {
            let (mesh, data) = (mesh.as_ref().unwrap(), &data);
            scope.spawn(move || mesh.send(1 - rank, 0, 0, 0, &[data]).unwrap());
        }
    });
    for (_, events) in &all {
        assert!(matches!(events.recv_timeout(BOUND).unwrap().1, Event::Message(..)));
    }
    // Longer than the timeout without a message: the heartbeats keep it alive.
    assert!(all[0].1.recv_timeout(Duration::from_secs(3)).is_err());
    assert!(all[1].1.try_recv().is_err());
}

#[test]
fn strangers_that_stay_silent_keep_nobody_out() {
    let transport: Arc<dyn Transport> = Arc::new(Memory::new(0));
    let endpoints: Vec<_> = (1..=2).map(|port| format!("host:{port}")).collect();
    let few = Settings { max_handshakes: 2, ..settings() };
    std::thread::scope(|scope| {
        let (transport, endpoints) = (&transport, &endpoints);
        let first = scope.spawn(|| join(transport, 0, endpoints, few.clone()));
        let mut silent = Vec::new();
        while silent.len() < 10 {
            // Rank 0 may not listen yet.
            match transport.connect("host:1", BOUND) {
                Ok(stream) => silent.push(stream),
                Err(_) => std::thread::yield_now(),
            }
        }
        let (second, _events) = join(transport, 1, endpoints, few.clone());
        assert!(second.is_ok() && first.join().unwrap().0.is_ok());
    });
}
