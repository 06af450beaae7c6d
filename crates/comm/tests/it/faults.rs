//! What the network does to calls, and what calls make of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bireme_comm::*;

use crate::calls::{BOUND, Echo, pair, settings};

/// Adds the body's number to a counter and answers with the sum.
#[derive(Default)]
struct Counter {
    sum: AtomicU64,
    calls: AtomicU64,
}

impl Handler for Counter {
    fn handle(&self, _: &Peer, _: u16, body: &Body, reply: Reply) {
        let number = u64::from_le_bytes(body[..8].try_into().unwrap());
        self.calls.fetch_add(1, Ordering::SeqCst);
        let sum = self.sum.fetch_add(number, Ordering::SeqCst) + number;
        // A large reply now and then, so that cuts hit bodies too.
        let padding = vec![0; if number % 7 == 0 { 20_000 } else { 0 }];
        reply.send(&[&sum.to_le_bytes(), &padding]);
    }
}

/// Tells of peers that come and go; keeps replies of method 2 without answering.
struct Watch {
    events: Mutex<Sender<String>>,
    kept: Mutex<Vec<Reply>>,
}

fn watch() -> (Arc<Watch>, Receiver<String>) {
    let (events, received) = channel();
    (Arc::new(Watch { events: Mutex::new(events), kept: Mutex::default() }), received)
}

impl Watch {
    fn tell(&self, event: String) {
        self.events.lock().unwrap().send(event).unwrap();
    }
}

impl Handler for Watch {
    fn handle(&self, _: &Peer, method: u16, body: &Body, reply: Reply) {
        match method {
            2 => {
                self.kept.lock().unwrap().push(reply);
                self.tell("kept".into());
            }
            _ => reply.send(&[body]),
        }
    }

    fn joined(&self, peer: &Peer) {
        self.tell(format!("joined {}", peer.identity));
    }

    fn lost(&self, peer: &Peer, why: &str) {
        self.tell(format!("lost {}: {why}", peer.identity));
    }
}

/// Without a sign of life for so long a peer is lost, in tests that wait for it. A busy machine may
/// keep a thread waiting for a second.
const SHORT: Duration = Duration::from_secs(2);

/// Times short enough for tests, with room for a machine that is busy.
fn hasty() -> Settings {
    Settings {
        heartbeat: Duration::from_millis(20),
        heartbeat_timeout: Duration::from_secs(10),
        handshake: Duration::from_millis(250),
        retries: 10_000,
        send_connections: 3,
        ..settings()
    }
}

fn connect(transport: &Memory, server: &Server, settings: Settings) -> Result<Client> {
    let transport = Arc::new(transport.clone());
    let (me, peer) = (Identity::trainer(1), Identity::server(0));
    Client::connect(transport, server.endpoint(), me, peer, settings)
}

/// Connects with a deadline that a busy machine may miss: until it does not.
fn connect_hastily(transport: &Memory, server: &Server, settings: &Settings) -> Client {
    loop {
        match connect(transport, server, settings.clone()) {
            Ok(client) => return client,
            Err(error) => assert!(matches!(error, Error::Lost { .. }), "{error}"),
        }
    }
}

fn serve(transport: &Memory, settings: Settings, handler: Arc<dyn Handler>) -> Server {
    serve_at(transport, "host:0", settings, handler)
}

fn serve_at(
    transport: &Memory,
    endpoint: &str,
    settings: Settings,
    handler: Arc<dyn Handler>,
) -> Server {
    let transport = Arc::new(transport.clone());
    Server::start(transport, endpoint, Identity::server(0), settings, handler).unwrap()
}

/// 120 calls by three threads over a network with this seed; each must count once.
fn count_over_faults(seed: u64) -> (u64, u64) {
    let chance = [0.0, 0.005, 0.02, 0.05];
    let choose = |shift: u64| chance[(seed >> shift) as usize % 4];
    let network = Memory::new(seed).faults(Faults {
        drop: choose(0),
        cut: choose(1),
        duplicate: choose(2) * 4.0,
        delay: choose(3),
        max_delay: Duration::from_millis(3),
    });
    let counter = Arc::new(Counter::default());
    let server = serve(&network, hasty(), counter.clone());
    let client = connect(&network, &server, hasty()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let client = &client;
            scope.spawn(move || {
                let mut pending = Vec::new();
                for step in 0..40u64 {
                    let number = (1000 * thread + step).to_le_bytes();
                    let what = format!("step {step} of thread {thread}, seed {seed}");
                    if step % 3 == 0 {
                        pending.push(client.start(Lane::Send, 0, &what, &[&number], true).unwrap());
                    } else {
                        client.call(Lane::Send, 0, &what, &[&number], true).unwrap();
                    }
                }
                pending.into_iter().for_each(|pending| drop(pending.wait().unwrap()));
            });
        }
    });
    (counter.sum.load(Ordering::SeqCst), counter.calls.load(Ordering::SeqCst))
}

#[test]
fn once_is_once_whatever_the_network_does() {
    let expected: u64 =
        (0..3).flat_map(|thread| (0..40).map(move |step| 1000 * thread + step)).sum();
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= 50 {
                        break;
                    }
                    assert_eq!(count_over_faults(seed), (expected, 120), "seed {seed}");
                }
            });
        }
    });
}

#[test]
fn a_cut_connection_comes_back_without_a_second_execution() {
    let network = Memory::new(0);
    let (handler, events) = watch();
    let server = serve(&network, hasty(), handler.clone());
    let client = connect(&network, &server, hasty()).unwrap();
    assert_eq!(events.recv_timeout(BOUND).unwrap(), "joined trainer 1");
    let started = client.start(Lane::Send, 2, "a barrier", &[], true).unwrap();
    std::thread::scope(|scope| {
        let called = scope.spawn(|| client.call(Lane::Send, 2, "a barrier", &[], true));
        assert_eq!(events.recv_timeout(BOUND).unwrap(), "kept");
        assert_eq!(events.recv_timeout(BOUND).unwrap(), "kept");
        network.cut(server.endpoint());
        // A call that goes through shows that the client is back.
        client.call(Lane::Get, 1, "an echo", &[], false).unwrap();
        for reply in handler.kept.lock().unwrap().drain(..) {
            reply.send(&[b"open"]);
        }
        assert_eq!(&*called.join().unwrap().unwrap(), b"open");
    });
    assert_eq!(&*started.wait().unwrap(), b"open");
    // Neither was executed again, and nobody joined or was lost.
    assert!(events.try_recv().is_err());
}

#[test]
fn work_that_takes_long_is_waited_for_while_the_server_lives() {
    let network = Memory::new(0);
    let (handler, events) = watch();
    let settings = Settings { deadline: Duration::from_millis(200), ..hasty() };
    let server = serve(&network, settings.clone(), handler.clone());
    let client = connect_hastily(&network, &server, &settings);
    events.recv_timeout(BOUND).unwrap();
    let long = client.start(Lane::Send, 2, "a checkpoint", &[], true).unwrap();
    assert_eq!(events.recv_timeout(BOUND).unwrap(), "kept");
    std::thread::scope(|scope| {
        let called = scope.spawn(|| client.call_until_lost(Lane::Send, 2, "a meeting", &[], true));
        assert_eq!(events.recv_timeout(BOUND).unwrap(), "kept");
        // A request that is late shows that the deadline of the others has passed as well.
        let late = client.call(Lane::Send, 2, "a push", &[], true).unwrap_err();
        assert!(matches!(late, Error::Deadline { .. }), "{late}");
        for reply in handler.kept.lock().unwrap().drain(..) {
            reply.send(&[b"done"]);
        }
        assert_eq!(&*called.join().unwrap().unwrap(), b"done");
    });
    assert_eq!(&*long.wait_until_lost().unwrap(), b"done");
}

#[test]
fn a_request_is_sent_again_however_many_connections_break() {
    let network = Memory::new(0);
    let (handler, events) = watch();
    let server = serve(&network, hasty(), handler.clone());
    let client = connect(&network, &server, Settings { retries: 1, ..hasty() }).unwrap();
    events.recv_timeout(BOUND).unwrap();
    let pending = client.start(Lane::Send, 2, "a pull", &[], false).unwrap();
    for _ in 0..6 {
        assert_eq!(events.recv_timeout(BOUND).unwrap(), "kept");
        network.cut(server.endpoint());
    }
    assert_eq!(events.recv_timeout(BOUND).unwrap(), "kept");
    handler.kept.lock().unwrap().drain(..).for_each(|reply| reply.send(&[b"done"]));
    assert_eq!(&*pending.wait().unwrap(), b"done");
}

#[test]
fn a_wait_without_a_limit_ends_when_connections_do_nothing_but_break() {
    let network = Memory::new(0);
    let (handler, events) = watch();
    let server = serve(&network, hasty(), handler);
    // No ping shows meanwhile that a connection works.
    let (deadline, heartbeat) = (Duration::from_millis(300), Duration::from_secs(5));
    let short = Settings { retries: 1, deadline, heartbeat, ..hasty() };
    let client = connect_hastily(&network, &server, &short);
    let (stop, network, endpoint) = (AtomicBool::new(false), &network, server.endpoint());
    let stop = &stop;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                // Whoever asks again has a connection again.
                let event = events.recv_timeout(Duration::from_millis(10));
                if event.is_ok_and(|event| event == "kept") {
                    network.cut(endpoint);
                }
            }
        });
        let called = client.call_until_lost(Lane::Send, 2, "a meeting", &[], false);
        stop.store(true, Ordering::SeqCst);
        let problem = called.unwrap_err().to_string();
        assert!(problem.contains("connections in a row broke within"), "{problem}");
        assert!(problem.ends_with("while waiting for a meeting"), "{problem}");
    });
}

#[test]
fn a_large_reply_is_kept_until_it_has_arrived() {
    let network = Memory::new(0);
    let server = serve(&network, hasty(), Arc::new(Echo::default()));
    let client = connect(&network, &server, hasty()).unwrap();
    let large = vec![7; 1 << 20];
    for _ in 0..3 {
        client.call(Lane::Get, 1, "an echo", &[&large], true).unwrap();
    }
    // No request follows.
    let start = std::time::Instant::now();
    while server.kept_reply_bytes() > 1000 {
        assert!(start.elapsed() < BOUND, "{} bytes", server.kept_reply_bytes());
        std::thread::yield_now();
    }
}

/// A network that counts the frames which say that replies have arrived.
struct Counting(Memory, Arc<AtomicU64>);

struct CountingStream(Box<dyn Stream>, Arc<AtomicU64>);

impl Transport for Counting {
    fn listen(&self, endpoint: &str) -> Result<Bound> {
        self.0.listen(endpoint)
    }

    fn connect(&self, endpoint: &str, timeout: Duration) -> Result<Box<dyn Stream>> {
        Ok(Box::new(CountingStream(self.0.connect(endpoint, timeout)?, self.1.clone())))
    }
}

impl Stream for CountingStream {
    fn read(&self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }

    fn write(&self, parts: &mut [std::io::IoSlice<'_>]) -> std::io::Result<()> {
        self.0.write(parts)
    }

    fn try_write(&self, frame: &[u8]) -> std::io::Result<bool> {
        let is_received = frame[6] == frame::Kind::Received as u8;
        self.1.fetch_add(is_received.into(), Ordering::SeqCst);
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
fn only_replies_that_are_kept_are_acknowledged() {
    let (network, count) = (Memory::new(0), Arc::new(AtomicU64::new(0)));
    let transport = Arc::new(Counting(network, count.clone()));
    let (_server, client) = pair(transport, Arc::new(Echo::default()));
    let large = vec![7; 1 << 20];
    for (once, expected) in [(false, 0), (true, 1), (false, 1)] {
        client.call(Lane::Get, 1, "an echo", &[&large], once).unwrap();
        assert_eq!(count.load(Ordering::SeqCst), expected);
    }
}

#[test]
fn a_goodbye_is_told() {
    struct Door(Mutex<Sender<String>>);
    impl Handler for Door {
        fn handle(&self, _: &Peer, _: u16, _: &Body, reply: Reply) {
            reply.send(&[]);
        }

        fn left(&self, peer: &Peer) {
            self.0.lock().unwrap().send(peer.identity.to_string()).unwrap();
        }
    }
    let (events, received) = channel();
    let network = Memory::new(0);
    let server = serve(&network, hasty(), Arc::new(Door(Mutex::new(events))));
    connect(&network, &server, hasty()).unwrap().goodbye();
    assert_eq!(received.recv_timeout(BOUND).unwrap(), "trainer 1");
    assert!(server.peers().is_empty());
}

#[test]
fn a_request_for_which_there_is_no_connection_goes_over_another() {
    let network = Memory::new(0);
    let few = Settings { max_connections: 1, ..hasty() };
    let (handler, events) = watch();
    let server = serve(&network, few, handler.clone());
    let client = connect(&network, &server, hasty()).unwrap();
    assert_eq!(events.recv_timeout(BOUND).unwrap(), "joined trainer 1");
    let waits = client.start(Lane::Send, 2, "a barrier", &[], true).unwrap();
    assert_eq!(events.recv_timeout(BOUND).unwrap(), "kept");
    // The only connection is in use, and there will be no other.
    for once in [true, false] {
        assert_eq!(&*client.call(Lane::Send, 1, "an echo", &[b"a"], once).unwrap(), b"a");
        let started = client.start(Lane::Send, 1, "an echo", &[b"b"], once).unwrap();
        assert_eq!(&*started.wait().unwrap(), b"b");
        drop(client.start(Lane::Send, 1, "an echo", &[b"c"], once).unwrap());
    }
    handler.kept.lock().unwrap().drain(..).for_each(|reply| reply.send(&[b"open"]));
    assert_eq!(&*waits.wait().unwrap(), b"open");
}

#[test]
fn heartbeats_have_room_beside_requests() {
    let network = Memory::new(0);
    let few = Settings { max_connections: 1, ..hasty() };
    let (handler, events) = watch();
    let server = serve(&network, few, handler);
    let first = connect(&network, &server, hasty()).unwrap();
    assert_eq!(events.recv_timeout(BOUND).unwrap(), "joined trainer 1");
    first.call(Lane::Get, 1, "an echo", &[], false).unwrap();
}

#[test]
fn a_restarted_server_is_another_one() {
    let network = Memory::new(0);
    let (handler, events) = watch();
    let server = serve(&network, hasty(), handler.clone());
    let client = connect(&network, &server, hasty()).unwrap();
    events.recv_timeout(BOUND).unwrap();
    let pending = client.start(Lane::Send, 2, "a push of 3 rows of `emb`", &[], true).unwrap();
    assert_eq!(events.recv_timeout(BOUND).unwrap(), "kept");
    network.restart(server.endpoint());
    let again = serve_at(&network, server.endpoint(), hasty(), handler);
    let problem = pending.wait().unwrap_err();
    assert!(matches!(problem, Error::Lost { .. }));
    assert_eq!(
        problem.to_string(),
        "server 0 (host:1) is lost: it was restarted, while waiting for a push of 3 rows of `emb`"
    );
    assert!(client.call(Lane::Send, 1, "x", &[], false).is_err());
    drop((server, again));
}

#[test]
fn a_deadline_names_the_request() {
    let network = Memory::new(0);
    let (handler, _events) = watch();
    let server = serve(&network, hasty(), handler);
    let short = Settings { deadline: Duration::from_millis(50), ..hasty() };
    let client = connect_hastily(&network, &server, &short);
    for once in [true, false] {
        let problem = client.call(Lane::Send, 2, "the send barrier", &[], once).unwrap_err();
        assert_eq!(
            problem.to_string(),
            "server 0 (host:1) did not answer the send barrier within 0.1 s"
        );
        let pending = client.start(Lane::Send, 2, "the barrier", &[], once).unwrap();
        assert!(matches!(pending.wait(), Err(Error::Deadline { .. })));
    }
}

#[test]
fn waiting_for_a_while_is_no_error() {
    let (_server, client) = pair(Arc::new(Memory::new(0)), Arc::new(Echo::default()));
    let mut pending = client.start(Lane::Send, 2, "a kept one", &[b"k"], true).unwrap();
    assert!(pending.wait_for(Duration::from_millis(1)).unwrap().is_none());
    client.call(Lane::Get, 3, "the kept one", &[b"k"], false).unwrap();
    assert_eq!(&*pending.wait_for(BOUND).unwrap().unwrap(), b"k");
    assert!(pending.is_ready());
    assert!(pending.wait_for(BOUND).is_err());
}

#[test]
fn a_server_that_goes_away_is_named() {
    let network = Memory::new(0);
    let (handler, events) = watch();
    let server = serve(&network, hasty(), handler);
    let short = Settings { heartbeat_timeout: SHORT, ..hasty() };
    let client = connect(&network, &server, short).unwrap();
    events.recv_timeout(BOUND).unwrap();
    let pending = client.start(Lane::Send, 2, "the send barrier", &[], true).unwrap();
    assert_eq!(events.recv_timeout(BOUND).unwrap(), "kept");
    drop(server);
    let problem = pending.wait().unwrap_err().to_string();
    assert_eq!(
        problem,
        "server 0 (host:1) is lost: nothing listens there any more (connection refused), while \
         waiting for the send barrier"
    );
}

#[test]
fn a_client_that_goes_away_is_lost_unless_it_says_goodbye() {
    let network = Memory::new(0);
    let (handler, events) = watch();
    let short = Settings { heartbeat_timeout: SHORT, ..hasty() };
    let server = serve(&network, short, handler);
    let client = connect(&network, &server, hasty()).unwrap();
    assert_eq!(events.recv_timeout(BOUND).unwrap(), "joined trainer 1");
    client.goodbye();
    assert!(matches!(client.call(Lane::Get, 1, "x", &[], false), Err(Error::Closed { .. })));
    let client = connect(&network, &server, hasty()).unwrap();
    assert_eq!(events.recv_timeout(BOUND).unwrap(), "joined trainer 1");
    drop(client);
    let event = events.recv_timeout(BOUND).unwrap();
    assert!(event.starts_with("lost trainer 1: nothing was heard of trainer 1 (memory"), "{event}");
    assert!(server.peers().is_empty());
}

#[test]
fn nobody_there_is_an_error_after_the_deadline() {
    let settings = Settings { deadline: Duration::from_millis(30), ..hasty() };
    let network = Arc::new(Memory::new(0));
    let (me, peer) = (Identity::trainer(1), Identity::server(2));
    let problem = Client::connect(network, "host:9", me, peer, settings).err().unwrap();
    assert_eq!(
        problem.to_string(),
        "server 2 (host:9) is lost: no connection within 0.0 s (`FLAGS_rpc_deadline`): connection \
         refused"
    );
}

#[test]
fn too_much_is_refused_here_and_there() {
    let network = Memory::new(0);
    let small = Settings { max_frame: 1000, ..hasty() };
    let server = serve(&network, small.clone(), Arc::new(Echo::default()));
    let client = connect(&network, &server, small).unwrap();
    let problem = client.call(Lane::Get, 1, "an echo", &[&[0; 1001]], true).unwrap_err();
    assert_eq!(
        problem.to_string(),
        "trainer 1 sent an echo with 1001 bytes, but a frame has at most 1000: split it"
    );
    // The echo has one byte more than the request.
    let problem = client.call(Lane::Get, 1, "an echo", &[&[0; 1000]], true).unwrap_err();
    assert!(problem.to_string().contains("the reply has 1001 bytes"), "{problem}");
    let generous = connect(&network, &server, hasty()).unwrap();
    let problem = generous.call(Lane::Get, 1, "an echo", &[&[0; 2000]], true).unwrap_err();
    assert!(problem.to_string().contains("but a frame has at most 1000"), "{problem}");
}

#[test]
fn requests_beyond_the_limit_wait_for_room() {
    let network = Memory::new(0);
    let few = Settings { max_pending: 2, ..hasty() };
    let server = serve(&network, few.clone(), Arc::new(Echo::default()));
    let client = connect(&network, &server, few).unwrap();
    let start = |step: u8| client.start(Lane::Send, 1, "an echo", &[&[step]], true).unwrap();
    let pending: Vec<_> = (0..50).map(start).collect();
    for (step, pending) in pending.into_iter().enumerate() {
        assert_eq!(pending.wait().unwrap()[0], step as u8);
    }
}

#[test]
fn a_dropped_client_leaves_nothing_behind() {
    let network = Memory::new(0);
    let (handler, events) = watch();
    let server = serve(&network, hasty(), handler);
    let client = connect(&network, &server, hasty()).unwrap();
    events.recv_timeout(BOUND).unwrap();
    let pending = client.start(Lane::Send, 2, "a barrier", &[], true).unwrap();
    assert_eq!(events.recv_timeout(BOUND).unwrap(), "kept");
    drop(client);
    assert!(matches!(pending.wait(), Err(Error::Closed { .. })));
    drop(server);
}

#[test]
fn a_wait_ends_when_the_user_wants_it() {
    let network = Memory::new(0);
    let (handler, _events) = watch();
    let server = serve(&network, hasty(), handler);
    let flag = Arc::new(AtomicBool::new(false));
    let asked = flag.clone();
    let interrupt = Interrupt::new(move || asked.load(Ordering::SeqCst));
    let settings = Settings { interrupt: Some(interrupt), ..hasty() };
    let client = connect(&network, &server, settings.clone()).unwrap();
    client.call(Lane::Get, 1, "an echo", &[], false).unwrap();
    flag.store(true, Ordering::SeqCst);
    let problem = client.call(Lane::Get, 2, "the barrier", &[], true).unwrap_err().to_string();
    assert_eq!(problem, "interrupted while waiting for the barrier of server 0 (host:1)");
    let pending = client.start(Lane::Get, 2, "the barrier", &[], true).unwrap();
    assert!(matches!(pending.wait(), Err(Error::Interrupted { .. })));
    let (me, peer) = (Identity::trainer(1), Identity::server(2));
    let nobody = Client::connect(Arc::new(network), "host:9", me, peer, settings);
    assert!(matches!(nobody, Err(Error::Interrupted { .. })));
}

#[test]
fn an_interrupt_does_not_concern_threads_in_the_background() {
    let interrupt = Interrupt::new(|| true);
    let asked = interrupt.clone();
    let background = std::thread::spawn(move || {
        Interrupt::ignore_on_this_thread();
        asked.is_wanted()
    });
    assert!(!background.join().unwrap());
    assert!(interrupt.is_wanted());
}

#[test]
fn a_server_that_ends_says_why() {
    let transports: [Arc<dyn Transport>; 3] = [
        Arc::new(Network::new(Path::Tcp)),
        Arc::new(Network::new(Path::Unix)),
        Arc::new(Memory::new(0)),
    ];
    // The thread of heartbeats looks soon, or long after somebody asks for something.
    let cases = transports.iter().enumerate();
    for (case, transport, soon) in
        cases.flat_map(|(at, each)| [(at, each, true), (at, each, false)])
    {
        let heartbeat = Duration::from_millis(if soon { 20 } else { 5000 });
        let settings = Settings { heartbeat, ..hasty() };
        let (me, it) = (Identity::trainer(1), Identity::server(0));
        let echo = Arc::new(Echo::default());
        let server = Server::start(transport.clone(), "127.0.0.1:0", it, hasty(), echo).unwrap();
        let client = Client::connect(transport.clone(), server.endpoint(), me, it, settings);
        let client = client.unwrap();
        client.call(Lane::Get, 1, "an echo", &[], false).unwrap();
        server.shutdown_because("server 0: trainer 7 is lost");
        let problem = client.call(Lane::Get, 1, "the next", &[], false).unwrap_err();
        let (of, problem) = match problem {
            Error::Lost { peer, problem } => (peer, problem),
            other => panic!("{other}"),
        };
        assert!(of.starts_with("server 0 ("), "{of}");
        let way = ["TCP", "Unix sockets", "memory"][case];
        assert_eq!(problem, "trainer 7 is lost, while waiting for the next", "{way}, {soon}");
    }
}

/// Shuts its server down when a peer is lost.
struct Quitter {
    server: Mutex<Option<Server>>,
    done: Mutex<Sender<()>>,
}

impl Handler for Quitter {
    fn handle(&self, _: &Peer, _: u16, _: &Body, reply: Reply) {
        reply.send(&[]);
    }

    fn lost(&self, _: &Peer, _: &str) {
        drop(self.server.lock().unwrap().take());
        self.done.lock().unwrap().send(()).unwrap();
    }
}

#[test]
fn a_handler_may_drop_its_server() {
    let network = Memory::new(0);
    let (done, received) = channel();
    let handler = Arc::new(Quitter { server: Mutex::default(), done: Mutex::new(done) });
    let short = Settings { heartbeat_timeout: SHORT, ..hasty() };
    let server = serve(&network, short, handler.clone());
    let client = connect(&network, &server, hasty()).unwrap();
    *handler.server.lock().unwrap() = Some(server);
    drop(client);
    received.recv_timeout(BOUND).unwrap();
}

#[test]
fn goodbye_to_a_server_that_left_is_short() {
    let network = Memory::new(0);
    let (handler, _events) = watch();
    let server = serve(&network, hasty(), handler);
    let settings = Settings { handshake: BOUND * 10, ..hasty() };
    let client = connect(&network, &server, settings).unwrap();
    drop(server);
    let start = std::time::Instant::now();
    client.goodbye();
    assert!(start.elapsed() < BOUND);
}

/// Keeps what is logged.
struct Logged(Arc<Mutex<Vec<String>>>);

struct Text(String);

impl tracing::field::Visit for Text {
    fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{value:?}");
    }
}

impl tracing::Subscriber for Logged {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn who_waits_for_a_server_says_so() {
    let lines = Arc::default();
    let settings = Settings { deadline: Duration::from_secs(4), ..settings() };
    let (me, peer) = (Identity::trainer(1), Identity::server(0));
    let connected = tracing::subscriber::with_default(Logged(Arc::clone(&lines)), || {
        Client::connect(Arc::new(Memory::new(0)), "host:1", me, peer, settings)
    });
    assert!(connected.is_err());
    let lines = lines.lock().unwrap();
    let expected = "trainer 1 is waiting for server 0 (host:1): ";
    assert!(lines.iter().any(|line| line.starts_with(expected)), "{lines:?}");
}
