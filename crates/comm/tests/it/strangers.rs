//! Connections that are none of the job's: refused, bounded, and no trouble for those that are.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use bireme_comm::frame::{HEADER, Header, Kind, VERSION};
use bireme_comm::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::calls::{BOUND, Echo, settings};

fn tcp() -> Arc<Network> {
    Arc::new(Network::new(Path::Tcp))
}

fn server(settings: Settings) -> Server {
    let me = Identity::server(0);
    Server::start(tcp(), "127.0.0.1:0", me, settings, Arc::new(Echo::default())).unwrap()
}

fn client(server: &Server, settings: Settings) -> Result<Client> {
    let (me, peer) = (Identity::trainer(0), Identity::server(0));
    Client::connect(tcp(), server.endpoint(), me, peer, settings)
}

fn stranger(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.endpoint()).unwrap();
    stream.set_read_timeout(Some(BOUND)).unwrap();
    stream
}

/// Reads until the server closes; what came after the challenge is the refusal.
fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is as good as an end.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes[bytes.len().min(HEADER + 32 + HEADER)..]).into_owned()
}

#[test]
fn another_secret_is_refused_at_once() {
    let server = server(Settings { secret: Secret::new(b"ours"), ..settings() });
    let problem = client(&server, settings()).err().unwrap();
    assert_eq!(
        problem.to_string(),
        format!(
            "server 0 ({}) refused the connection: the secrets differ: give all processes of the \
             job the same one",
            server.endpoint()
        )
    );
    assert!(client(&server, Settings { secret: Secret::new(b"ours"), ..settings() }).is_ok());
}

#[test]
fn the_wrong_process_is_refused_at_once() {
    let server = server(settings());
    let (me, peer) = (Identity::trainer(0), Identity::server(1));
    let problem = Client::connect(tcp(), server.endpoint(), me, peer, settings()).err().unwrap();
    assert!(problem.to_string().contains("trainer 0 looks for server 1 at server 0"), "{problem}");
}

#[test]
fn a_server_that_cannot_prove_itself_is_refused() {
    // Repeats the client's own bytes, which hold a proof, but not the server's.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    let fake = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let head = Header { length: 32, ..Header::new(Kind::Challenge) };
        stream.write_all(&[&head.encode()[..], &[0; 32]].concat()).unwrap();
        let mut hello = [0; HEADER + 104];
        stream.read_exact(&mut hello).unwrap();
        let head = Header { sequence: 1, length: 56, ..Header::new(Kind::Welcome) };
        let mut claims = [0; 24];
        claims[8] = 1;
        let proof = &hello[HEADER + 32..HEADER + 64];
        stream.write_all(&[&head.encode()[..], proof, &claims].concat()).unwrap();
        let _ = stream.read(&mut hello);
    });
    let (me, peer) = (Identity::trainer(0), Identity::server(0));
    let problem = Client::connect(tcp(), &endpoint, me, peer, settings()).err().unwrap();
    assert!(problem.to_string().contains("did not prove that it knows the secret"), "{problem}");
    fake.join().unwrap();
}

#[test]
fn wrong_versions_sizes_and_kinds_are_refused() {
    let server = server(settings());
    let refused = |header: Header| {
        let mut stream = stranger(&server);
        stream.write_all(&header.encode()).unwrap();
        rest(stream)
    };
    let version = refused(Header { version: 9, ..Header::new(Kind::Hello) });
    assert!(version.contains(&format!("it speaks version 9, this process {VERSION}")), "{version}");
    let large = refused(Header { length: 4 << 30, ..Header::new(Kind::Hello) });
    assert!(large.contains("a frame of 4294967296 bytes where at most 1024"), "{large}");
    let early = refused(Header::new(Kind::Request));
    assert!(early.contains("its hello is not ours"), "{early}");
}

#[test]
fn random_bytes_are_refused_and_disturb_nobody() {
    let server = server(settings());
    let client = client(&server, settings()).unwrap();
    let mut runner = TestRunner::new(Config { cases: 64, ..Config::default() });
    let bytes = (any::<bool>(), prop::collection::vec(any::<u8>(), HEADER..2000));
    runner
        .run(&bytes, |(head, mut bytes)| {
            if head {
                let header = Header { length: 104, ..Header::new(Kind::Hello) };
                bytes[..HEADER].copy_from_slice(&header.encode());
            }
            let mut stream = stranger(&server);
            stream.write_all(&bytes).unwrap();
            let _ = stream.shutdown(std::net::Shutdown::Write);
            // Comes back only when the server has closed.
            rest(stream);
            prop_assert!(client.call(Lane::Get, 1, "an echo", &[b"a"], false).is_ok());
            Ok(())
        })
        .unwrap();
    assert_eq!(server.peers().len(), 1);
}

fn idle_strangers(count: usize) {
    let server = server(settings());
    let client = client(&server, settings()).unwrap();
    let mut idle = Vec::new();
    let mut refused = 0;
    for step in 0..count {
        // The system may have no descriptors left; the server must live with that too.
        match TcpStream::connect(server.endpoint()) {
            Ok(stream) => idle.push(stream),
            Err(_) => refused += 1,
        }
        if step % 50 == 0 {
            client.call(Lane::Get, 1, "an echo", &[&[0; 9]], false).unwrap();
        }
    }
    let second = self::client(&server, settings());
    assert!(second.is_ok() || refused > 0);
    client.call(Lane::Get, 1, "an echo", &[&[0; 9]], true).unwrap();
    drop(idle);
}

#[test]
fn idle_strangers_keep_nobody_out() {
    idle_strangers(300);
}

#[test]
#[ignore = "needs 20,000 file descriptors"]
fn ten_thousand_idle_strangers_keep_nobody_out() {
    idle_strangers(10_000);
}

#[test]
fn slow_strangers_are_dropped() {
    let server = server(Settings { handshake: Duration::from_millis(50), ..settings() });
    let text = rest(stranger(&server));
    assert!(text.contains("it said nothing in time") || text.is_empty(), "{text}");
}

#[test]
fn strangers_that_drip_bytes_are_dropped() {
    let server = server(Settings {
        handshake: Duration::from_millis(200),
        heartbeat: Duration::from_millis(20),
        ..settings()
    });
    let mut stream = stranger(&server);
    // Often enough that no read of the server times out, and for 20 times as long as it allows.
    stream.set_read_timeout(Some(Duration::from_millis(40))).unwrap();
    let header = Header { length: 104, ..Header::new(Kind::Hello) };
    let bytes = [&header.encode()[..], &[0; 103]].concat();
    let mut buffer = [0; 1024];
    let ended = bytes.iter().any(|byte| {
        let written = stream.write_all(&[*byte]);
        // Also the clock of this loop: it returns when the challenge, nothing or the end came.
        let end = matches!(stream.read(&mut buffer), Ok(0));
        written.is_err() || end
    });
    assert!(ended);
}

#[test]
fn connections_are_bounded() {
    // As many for heartbeats as for calls.
    let few = Settings { max_connections: 2, deadline: Duration::from_secs(2), ..settings() };
    let server = server(few.clone());
    let first = client(&server, few.clone()).unwrap();
    first.call(Lane::Get, 1, "an echo", &[], false).unwrap();
    first.call(Lane::Send, 1, "an echo", &[], false).unwrap();
    let second = client(&server, few.clone()).unwrap();
    let problem = client(&server, few).err().unwrap().to_string();
    assert!(problem.contains("all 2 connections are taken"), "{problem}");
    let problem = second.call(Lane::Get, 1, "an echo", &[], false).unwrap_err();
    assert!(matches!(problem, Error::Deadline { .. }), "{problem}");
}

/// A program that has the name of a server's Unix socket, and what it says to those who come.
fn squat(name: String, answer: &'static [u8]) {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    let name = SocketAddr::from_abstract_name(name).unwrap();
    let listener = UnixListener::bind_addr(&name).unwrap();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            // One that is gone needs no answer.
            let _ = stream.write_all(answer);
            held.push(stream);
        }
    });
}

#[test]
fn a_squatted_name_is_passed_by() {
    let page = b"HTTP/1.1 400 Bad Request\r\n\r\nno frame of ours begins like that";
    for answer in [&b""[..], page] {
        // The server's own socket has another name, as it listens on all addresses.
        let (me, auto) = (Identity::server(0), Arc::new(Network::new(Path::Auto)));
        let echo = Arc::new(Echo::default());
        let server = Server::start(auto.clone(), "0.0.0.0:0", me, settings(), echo).unwrap();
        let port = server.endpoint().rsplit_once(':').unwrap().1.to_owned();
        squat(format!("bireme/127.0.0.1:{port}"), answer);
        let endpoint = format!("127.0.0.1:{port}");
        let client =
            Client::connect(auto, &endpoint, Identity::trainer(0), me, settings()).unwrap();
        assert_eq!(&*client.call(Lane::Get, 1, "an echo", &[b"a"], true).unwrap(), b"a!");
    }
}
