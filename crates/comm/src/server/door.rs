//! New connections: each proves itself on a thread of its own, which then serves it. Each cause of a
//! refusal is logged once per address.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::session::{Admission, Link, Session};
use super::{Reply, State};
use crate::connection::{Broken, Connection, lock};
use crate::frame::{Header, Kind, Malformed};
use crate::handshake::{self, CONTROL, Hello, Refusal, Welcome};
use crate::strangers::{self, PAUSE};
use crate::transport::{Listener, Stream};
use crate::{Body, Peer};

/// Addresses and causes that are remembered as logged.
const MAX_LOGGED: usize = 1024;
/// Who was refused, and how many were not.
#[derive(Default)]
pub(super) struct Door {
    logged: Mutex<HashSet<(String, Option<Refusal>)>>,
    /// Connections that carry requests, and those that carry heartbeats: a crowd of the first must
    /// not make peers seem lost.
    admitted: [AtomicUsize; 2],
}

impl Door {
    /// How many connections of the kind of `hello` have proven themselves.
    fn admitted(&self, hello: &Hello) -> &AtomicUsize {
        &self.admitted[usize::from(hello.link == CONTROL)]
    }

    /// Whether this cause is new for this address (its port does not count).
    fn is_news(&self, address: &str, refusal: Option<Refusal>) -> bool {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let mut logged = lock(&self.logged);
        logged.len() < MAX_LOGGED && logged.insert((host.to_string(), refusal))
    }
}

/// Takes connections until the listener is closed.
pub(super) fn accept(state: &Arc<State>, listener: &dyn Listener) {
    let is_over = || state.closing.load(Ordering::Acquire);
    let failed = |error| {
        if state.door.is_news("", None) {
            tracing::warn!("{} cannot take a connection: {error}", state.identity);
        }
        state.pause(PAUSE);
    };
    strangers::accept(listener, is_over, failed, |stream| {
        let served = state.clone();
        let spawned = state.threads.spawn("serve", move || serve(&served, stream));
        if let Err(error) = spawned {
            tracing::warn!("{} drops a connection: {error}", state.identity);
        }
    });
}

fn serve(state: &Arc<State>, stream: Box<dyn Stream>) {
    let connection = match state.strangers.add(stream, state.encryption.as_ref()) {
        Ok(connection) => connection,
        Err(error) => return tracing::error!("{} cannot encrypt: {error}", state.identity),
    };
    // A server that closes now may have missed this connection.
    if state.closing.load(Ordering::Acquire) {
        return;
    }
    let admitted = greet(state, &connection);
    state.strangers.remove(&connection);
    match admitted {
        Ok((session, hello)) => {
            let link = (hello.link != CONTROL).then(|| session.link(hello.link));
            let max_reply = hello.max_frame.min(state.settings.max_frame as u64) as usize;
            let served =
                Served { state, session: &session, link, connection: &connection, max_reply };
            let broken = served.read_requests();
            tracing::debug!("a connection of {} ended: {broken}", session.peer);
            connection.shutdown();
            session.remove(&connection);
            state.door.admitted(&hello).fetch_sub(1, Ordering::AcqRel);
        }
        Err((refusal, problem)) => {
            let address = connection.stream().address();
            // Whoever waits for a port opens a connection and closes it again.
            let said_nothing = problem == Broken::Closed.to_string();
            if said_nothing {
                tracing::debug!("{address} connected and left again");
            } else if state.door.is_news(&address, Some(refusal)) {
                tracing::warn!("{} refused a connection from {address}: {problem}", state.identity);
                if matches!(refusal, Refusal::Secret | Refusal::Version) {
                    state.handler.refused(&address, &problem);
                }
            }
            handshake::refuse(&connection, refusal, &problem, state.incarnation);
        }
    }
}

type Refused = (Refusal, String);

fn greet(state: &State, connection: &Arc<Connection>) -> Result<(Arc<Session>, Hello), Refused> {
    let settings = &state.settings;
    let failed = |error: std::io::Error| (Refusal::Late, error.to_string());
    connection.stream().set_write_timeout(Some(settings.handshake)).map_err(failed)?;
    let (hello, challenge) =
        handshake::challenge(connection, &settings.secret, settings.handshake, &state.pool)?;
    if hello.peer != state.identity {
        let problem = format!("{} looks for {} at {}", hello.me, hello.peer, state.identity);
        return Err((Refusal::Identity, problem));
    }
    let count = state.door.admitted(&hello);
    let admitted = count.fetch_add(1, Ordering::AcqRel);
    let joined = if admitted < settings.max_connections {
        join(state, connection, &hello)
    } else {
        Err((Refusal::Full, format!("all {} connections are taken", settings.max_connections)))
    };
    let welcomed = joined.and_then(|session| {
        // Before the client hears that it is welcome: from now on it is told why if the server ends.
        state.strangers.remove(connection);
        let welcome = Welcome {
            incarnation: state.incarnation,
            me: state.identity,
            max_frame: settings.max_frame as u64,
        };
        let stream = connection.stream();
        let sent = stream
            .set_read_timeout(None)
            .and_then(|()| stream.set_write_timeout(Some(settings.heartbeat_timeout)))
            .and_then(|()| {
                handshake::welcome(connection, &settings.secret, &challenge, &hello, &welcome)
            });
        sent.map_err(|error| {
            session.remove(connection);
            failed(error)
        })?;
        Ok(session)
    });
    match welcomed {
        Ok(session) => Ok((session, hello)),
        Err(refused) => {
            count.fetch_sub(1, Ordering::AcqRel);
            Err(refused)
        }
    }
}

fn join(
    state: &State,
    connection: &Arc<Connection>,
    hello: &Hello,
) -> Result<Arc<Session>, Refused> {
    let over = || {
        let problem = format!("its session is over: {} gave it up or restarted", state.identity);
        (Refusal::Session, problem)
    };
    let mut sessions = lock(&state.sessions);
    let (session, new) = match sessions.get(&hello.session) {
        Some(session) => (session.clone(), false),
        None if hello.resume || state.closing.load(Ordering::Acquire) => return Err(over()),
        None => {
            let (identity, session) = (hello.me, hello.session);
            let stream = connection.stream();
            let (address, is_same_user) = (stream.address(), stream.is_same_user());
            let peer = Peer { identity, session, address, is_same_user };
            let session = Arc::new(Session::new(peer, state.settings.max_frame));
            sessions.insert(hello.session, session.clone());
            (session, true)
        }
    };
    if !session.has_room(hello.link, state.settings.max_connections) {
        return Err((Refusal::Full, "the session has too many links".to_owned()));
    }
    let added = session.add(hello.link, connection);
    drop(sessions);
    if !added {
        return Err(over());
    }
    session.touch();
    if new {
        tracing::debug!("{} joined {}", session.peer, state.identity);
        state.handler.joined(&session.peer);
    }
    Ok(session)
}

/// A connection that has proven itself.
struct Served<'a> {
    state: &'a State,
    session: &'a Session,
    /// None on the connection that carries heartbeats.
    link: Option<Arc<Link>>,
    connection: &'a Arc<Connection>,
    max_reply: usize,
}

impl Served<'_> {
    /// Reads and answers until the connection ends.
    fn read_requests(&self) -> Broken {
        let Served { state, session, connection, .. } = self;
        loop {
            let (header, body) = match connection.receive(state.settings.max_frame, &state.pool) {
                Ok(Some(frame)) => frame,
                Ok(None) => continue,
                Err(broken) => return broken,
            };
            session.touch();
            let echo = |kind| connection.send(Header::new(kind), &[]).map_err(Broken::Io);
            let done = match (header.kind, &self.link) {
                (Kind::Request | Kind::RequestOnce, Some(link)) => {
                    self.request(link, &header, &body);
                    Ok(())
                }
                (Kind::Ping, _) => echo(Kind::Pong),
                (Kind::Heartbeat, _) => echo(Kind::Heartbeat),
                (Kind::Goodbye, _) => {
                    if lock(&state.sessions).remove(&session.peer.session).is_none() {
                        return Broken::Closed;
                    }
                    tracing::debug!("{} said goodbye to {}", session.peer, state.identity);
                    // Before the answer: whoever has it may tell others that it is gone.
                    state.handler.left(&session.peer);
                    let answered = echo(Kind::Goodbye);
                    session.close();
                    answered
                }
                (Kind::Received, Some(link)) => {
                    link.acknowledge(header.acknowledged);
                    Ok(())
                }
                (kind, _) => Err(Broken::Malformed(Malformed::Kind(kind as u8))),
            };
            if let Err(broken) = done {
                return broken;
            }
        }
    }

    fn request(&self, link: &Arc<Link>, header: &Header, body: &Body) {
        let Served { state, session, connection, .. } = self;
        let mut reply = Reply::new(connection, header.number, self.max_reply);
        if header.kind == Kind::RequestOnce {
            let limit = 2 * state.settings.max_pending;
            match link.admit(header.number, header.acknowledged, connection, limit) {
                Admission::Execute => reply.keep(link),
                Admission::Repeat(kind, bytes) => return reply.repeat(kind, &bytes),
                Admission::Ignore => return reply.forget(),
                Admission::ReplyNotKept => {
                    return reply.fail(
                        "the request was executed, but its reply was lost when a connection \
                         broke; it was too large to keep for a retry",
                    );
                }
                Admission::Full => {
                    return reply.fail(&format!("{limit} requests are unanswered already"));
                }
            }
        }
        let handle = || state.handler.handle(&session.peer, header.method, body, reply);
        if catch_unwind(AssertUnwindSafe(handle)).is_err() {
            tracing::error!("a request of {} made its handler panic", session.peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_news_once_per_host() {
        let door = Door::default();
        assert!(door.is_news("10.0.0.1:5000", Some(Refusal::Secret)));
        assert!(!door.is_news("10.0.0.1:5001", Some(Refusal::Secret)));
        assert!(door.is_news("10.0.0.1:5001", Some(Refusal::Version)));
        assert!(door.is_news("10.0.0.2:5000", Some(Refusal::Secret)));
        for host in 0..2 * MAX_LOGGED {
            door.is_news(&format!("host{host}:1"), None);
        }
        assert_eq!(lock(&door.logged).len(), MAX_LOGGED);
    }
}
