//! A client without its threads.

use super::*;
use crate::{Body, Handler, Memory, Peer, Reply, Server};

struct Silent;

impl Handler for Silent {
    fn handle(&self, _: &Peer, _: u16, _: &Body, _: Reply) {}
}

/// A server, and what the links of a client to it share.
pub(in crate::client) fn connected(settings: Settings) -> (Server, Arc<Shared>) {
    let transport = Arc::new(Memory::new(0));
    let (me, peer) = (Identity::trainer(0), Identity::server(0));
    let server =
        Server::start(transport.clone(), "host:0", peer, settings.clone(), Arc::new(Silent));
    let server = server.unwrap();
    let (shared, _control) =
        Shared::connect(transport, server.endpoint(), me, peer, settings).unwrap();
    (server, shared)
}

#[test]
fn a_server_that_answers_elsewhere_has_not_left() {
    let (heartbeat, heartbeat_timeout) = (Duration::from_millis(5), Duration::from_millis(40));
    let settings = Settings { heartbeat, heartbeat_timeout, ..Settings::default() };
    let (_server, shared) = connected(settings);
    let refused = (shared.start, REFUSALS);
    *lock(&shared.refused_since) = Some(refused);
    // Five milliseconds, an eighth of the timeout, are over when the first heartbeat comes.
    while shared.millis() < 6 {
        std::hint::spin_loop();
    }
    shared.heard();
    assert!(!shared.is_gone());
    // Nothing comes any more.
    while !shared.is_gone() {
        std::hint::spin_loop();
    }
}
