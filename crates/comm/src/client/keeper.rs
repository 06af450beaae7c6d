//! The connection that carries heartbeats: tells the server that this process lives, and notices
//! when the server does not. It never waits for requests, however long they take.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::shared::{Orders, Shared};
use crate::connection::{Connection, lock};
use crate::frame::{Header, Kind, MAX_STRANGER_BODY};
use crate::handshake::CONTROL;

/// A server that cannot be reached this often needs no goodbye: it has left itself.
const MAX_FAREWELLS: u32 = 5;

/// Sends heartbeats until the client ends.
pub(super) fn keep(shared: &Arc<Shared>, first: Arc<Connection>) {
    let mut control = Some(first);
    let mut pause = Duration::ZERO;
    let mut farewells = 0;
    // Once the goodbye is said the session is over: whoever came again would be refused.
    while !shared.is_over() && *lock(&shared.orders) != Orders::Stopped {
        let opened = control.take().or_else(|| shared.reopen(CONTROL, &mut pause).0);
        let Some(connection) = opened else {
            farewells += u32::from(*lock(&shared.orders) == Orders::Goodbye);
            if farewells == MAX_FAREWELLS {
                return stop(shared);
            }
            pause_for(shared, pause);
            continue;
        };
        *lock(&shared.control) = Some(connection.clone());
        let problem = beat(shared, &connection);
        connection.shutdown();
        *lock(&shared.control) = None;
        shared.check_alive(&problem);
    }
}

/// Beats over one connection until it breaks; the text says how.
fn beat(shared: &Shared, connection: &Connection) -> String {
    let interval = shared.settings.heartbeat;
    while !shared.is_over() {
        let orders = *lock(&shared.orders);
        let kind = if orders == Orders::Goodbye { Kind::Goodbye } else { Kind::Heartbeat };
        let sent = Instant::now();
        // What the server wrote last must still be there to read.
        let give_up = || Err(ErrorKind::TimedOut.into());
        if let Err(error) = connection.send_patiently(Header::new(kind), &[], give_up) {
            shared.heed_last_words(connection);
            return error.to_string();
        }
        while sent.elapsed() < interval {
            match connection.receive(MAX_STRANGER_BODY, &shared.pool) {
                Ok(Some((header, body))) => {
                    shared.heard();
                    match (header.kind, orders) {
                        // Who leaves does not mind why the server does.
                        (Kind::Goodbye, _) | (Kind::Refused, Orders::Goodbye) => {
                            stop(shared);
                            return String::new();
                        }
                        (Kind::Refused, _) => {
                            shared.ended(&body);
                            return String::new();
                        }
                        _ => {}
                    }
                    if header.kind == kind {
                        rest(shared, interval.saturating_sub(sent.elapsed()));
                        break;
                    }
                }
                Ok(None) => shared.check_alive(""),
                Err(broken) => return broken.to_string(),
            }
            if shared.is_over() {
                break;
            }
        }
        shared.check_alive("");
    }
    String::new()
}

/// Tells whoever asked for a goodbye that it is said.
fn stop(shared: &Shared) {
    *lock(&shared.orders) = Orders::Stopped;
    shared.ordered.notify_all();
}

/// Pauses unless the client ends.
fn pause_for(shared: &Shared, pause: Duration) {
    let orders = lock(&shared.orders);
    if *orders != Orders::Stopped {
        let _waited = shared.ordered.wait_timeout(orders, pause);
    }
}

/// Pauses unless there is something to do.
fn rest(shared: &Shared, pause: Duration) {
    let orders = lock(&shared.orders);
    if *orders == Orders::Beat {
        let _waited = shared.ordered.wait_timeout(orders, pause);
    }
}
