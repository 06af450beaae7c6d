//! Encrypted connections, with the certificates of `tests/tls`.

use std::path::PathBuf;
use std::sync::Arc;

use bireme_comm::*;

use crate::calls::{Echo, settings};

fn file(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/tls", name].iter().collect()
}

pub(crate) fn tls(authority: &str) -> Settings {
    let tls = Tls {
        certificate: file("certificate.pem"),
        key: file("key.pem"),
        authority: file(authority),
        name: None,
    };
    Settings { tls: Some(tls), get_connections: 1, ..settings() }
}

fn server(path: Path, settings: Settings) -> Server {
    let network = Arc::new(Network::new(path));
    let handler = Arc::new(Echo::default());
    Server::start(network, "127.0.0.1:0", Identity::server(0), settings, handler).unwrap()
}

fn client(path: Path, server: &Server, settings: Settings) -> Result<Client> {
    let network = Arc::new(Network::new(path));
    let (me, peer) = (Identity::trainer(0), Identity::server(0));
    Client::connect(network, server.endpoint(), me, peer, settings)
}

#[test]
fn calls_are_answered_over_tls() {
    for path in [Path::Tcp, Path::Unix] {
        let server = server(path, tls("authority.pem"));
        let client = client(path, &server, tls("authority.pem")).unwrap();
        let reply = client.call(Lane::Get, 1, "an echo", &[b"a", b"b"], false).unwrap();
        assert_eq!(&*reply, b"ab!");
        // Large both ways and pipelined on one connection: reads go on while writes wait.
        let big: Vec<u8> = (0..3_000_000u32).map(|step| (step % 251) as u8).collect();
        let start = |_| client.start(Lane::Get, 1, "a big echo", &[&big], true).unwrap();
        let pending: Vec<_> = (0..8).map(start).collect();
        for pending in pending {
            let reply = pending.wait().unwrap();
            assert!(reply[..big.len()] == big && reply.len() == big.len() + 1);
        }
        client.goodbye();
    }
}

#[test]
fn a_certificate_of_another_authority_is_refused_on_both_sides() {
    let server = server(Path::Tcp, tls("authority.pem"));
    let problem = client(Path::Tcp, &server, tls("other_authority.pem")).err().unwrap();
    assert!(matches!(problem, Error::Refused { .. }), "{problem}");
    assert!(problem.to_string().contains("UnknownIssuer"), "{problem}");
    let server = self::server(Path::Tcp, tls("other_authority.pem"));
    let problem = client(Path::Tcp, &server, tls("authority.pem")).err().unwrap();
    assert!(matches!(problem, Error::Refused { .. }), "{problem}");
}

#[test]
fn the_name_in_the_certificate_counts() {
    let server = server(Path::Tcp, tls("authority.pem"));
    let named = |name: &str| {
        let mut settings = tls("authority.pem");
        settings.tls.as_mut().unwrap().name = Some(name.into());
        client(Path::Tcp, &server, settings)
    };
    assert!(named("bireme.test").is_ok());
    let problem = named("elsewhere.test").err().unwrap();
    assert!(matches!(problem, Error::Refused { .. }), "{problem}");
}

#[test]
fn plain_and_encrypted_do_not_mix() {
    let plain = server(Path::Tcp, settings());
    let problem = client(Path::Tcp, &plain, tls("authority.pem")).err().unwrap();
    assert!(problem.to_string().contains("TLS"), "{problem}");
}

#[test]
fn a_file_that_is_missing_is_named() {
    let problem = Server::start(
        Arc::new(Memory::new(0)),
        "host:0",
        Identity::server(0),
        tls("nowhere.pem"),
        Arc::new(Echo::default()),
    );
    let problem = problem.err().unwrap().to_string();
    assert!(problem.contains("nowhere.pem` for TLS"), "{problem}");
}
