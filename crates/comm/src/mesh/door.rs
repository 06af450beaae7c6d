//! Takes the connections of the ranks above; strangers are refused.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::State;
use crate::connection::{Broken, Connection, lock};
use crate::handshake::{self, Refusal, Welcome};
use crate::strangers::{self, PAUSE};
use crate::transport::{Listener, Stream};

/// Takes connections until the listener is closed.
pub(super) fn accept(state: &Arc<State>, listener: &dyn Listener) {
    let failed = |error| {
        tracing::warn!("{} cannot take a connection: {error}", state.me());
        state.pause(PAUSE);
    };
    strangers::accept(
        listener,
        || is_complete(state),
        failed,
        |stream| {
            let greeter = state.clone();
            let spawned = state.threads.spawn("greet", move || greet(&greeter, stream));
            if let Err(error) = spawned {
                tracing::warn!("{} drops a connection: {error}", state.me());
            }
        },
    );
}

fn is_complete(state: &State) -> bool {
    let awaited = &state.channels[state.place.rank + 1..];
    state.closing.load(Ordering::Acquire) || awaited.iter().all(|channel| channel.get().is_some())
}

fn greet(state: &Arc<State>, stream: Box<dyn Stream>) {
    let connection = match state.strangers.add(stream, state.dialer.encryption()) {
        Ok(connection) => connection,
        Err(error) => return tracing::error!("{} cannot encrypt: {error}", state.me()),
    };
    // A mesh that closes now may have missed this connection.
    if state.closing.load(Ordering::Acquire) {
        return;
    }
    let admitted = admit(state, &connection);
    state.strangers.remove(&connection);
    if let Err((refusal, problem)) = admitted {
        let address = connection.stream().address();
        // Whoever waits for a port opens a connection and closes it again.
        if problem != Broken::Closed.to_string() {
            let text = format!("a connection from {address} was refused: {problem}");
            tracing::debug!("{}: {text}", state.me());
            // That a connection broke off says less than what was wrong with one before.
            let refused = &mut lock(&state.forming).refused;
            if refusal != Refusal::Session && (refusal != Refusal::Late || refused.is_none()) {
                *refused = Some(text);
            }
        }
        handshake::refuse(&connection, refusal, &problem, state.place.session);
    }
}

fn admit(state: &Arc<State>, connection: &Arc<Connection>) -> Result<(), (Refusal, String)> {
    let settings = &state.settings;
    let failed = |error: std::io::Error| (Refusal::Late, error.to_string());
    connection.stream().set_write_timeout(Some(settings.handshake)).map_err(failed)?;
    let (hello, challenge) =
        handshake::challenge(connection, &settings.secret, settings.handshake, &state.pool)?;
    if hello.session != state.place.session {
        let problem = format!("{} forms another group here", state.me());
        return Err((Refusal::Session, problem));
    }
    let rank = hello.me.rank as usize;
    let expected = rank > state.place.rank && rank < state.channels.len();
    if hello.peer != state.me() || hello.me.role != state.place.role || !expected {
        let problem = format!(
            "{} looks for {} at {}, which is one of {}",
            hello.me,
            hello.peer,
            state.me(),
            state.channels.len()
        );
        return Err((Refusal::Identity, problem));
    }
    if state.channels[rank].get().is_some() {
        let problem = format!("{} is here already: two processes have this rank", hello.me);
        return Err((Refusal::Identity, problem));
    }
    let welcome = Welcome {
        incarnation: state.place.session,
        me: state.me(),
        max_frame: settings.max_frame as u64,
    };
    handshake::welcome(connection, &settings.secret, &challenge, &hello, &welcome)
        .and_then(|()| connection.stream().set_write_timeout(Some(state.tick())))
        .and_then(|()| connection.stream().set_read_timeout(None))
        .map_err(failed)?;
    match state.add(rank, connection.clone()) {
        Ok(true) => Ok(()),
        Ok(false) => Err((Refusal::Identity, format!("{} is here already", hello.me))),
        Err(error) => Err((Refusal::Full, error.to_string())),
    }
}
