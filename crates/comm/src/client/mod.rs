//! Asks one server: calls over several connections, one more that carries heartbeats.
//! Every wait ends: by the reply, by the deadline, or because the server is lost.

mod keeper;
mod link;
mod pending;
mod shared;

use std::sync::Arc;

pub use pending::Pending;

use crate::{Body, Identity, Lane, Result, Settings, Transport};
use link::{Link, Until};
use shared::Shared;

/// The way to one server; share it by `Arc`. Closed when dropped, which is no goodbye: the server
/// takes the client for lost.
pub struct Client {
    shared: Arc<Shared>,
}

impl Client {
    /// Connects to the process `peer` at `endpoint`; a server that is not there yet is tried until
    /// `settings.deadline`.
    pub fn connect(
        transport: Arc<dyn Transport>,
        endpoint: &str,
        me: Identity,
        peer: Identity,
        settings: Settings,
    ) -> Result<Client> {
        let (shared, control) = Shared::connect(transport, endpoint, me, peer, settings)?;
        let client = Client { shared };
        let shared = client.shared.clone();
        client.shared.threads.spawn("keeper", move || keeper::keep(&shared, control))?;
        Ok(client)
    }

    /// Sends a request and waits for its reply. `what` names it in errors ("pull of 9 rows of
    /// `emb`"); `once` says that it changes state and must not be executed twice.
    pub fn call(
        &self,
        lane: Lane,
        method: u16,
        what: &str,
        parts: &[&[u8]],
        once: bool,
    ) -> Result<Body> {
        let link = self.link(lane, what, parts)?;
        let number = link.register(method, once, None);
        let reply = link.wait(number, what, Some(parts), Until::Deadline)?;
        Ok(reply.expect("waited to the end"))
    }

    /// As [`Client::call`] for requests that take as long as they take (others' arrival, a
    /// checkpoint): waits as long as the server shows signs of life.
    pub fn call_until_lost(
        &self,
        lane: Lane,
        method: u16,
        what: &str,
        parts: &[&[u8]],
        once: bool,
    ) -> Result<Body> {
        let link = self.link(lane, what, parts)?;
        let number = link.register(method, once, None);
        let reply = link.wait_until_lost(number, what, parts)?;
        Ok(reply.expect("waited to the end"))
    }

    /// Sends a request; its reply is read by [`Pending::wait`], and meanwhile received.
    pub fn start(
        &self,
        lane: Lane,
        method: u16,
        what: &str,
        parts: &[&[u8]],
        once: bool,
    ) -> Result<Pending> {
        let link = self.link(lane, what, parts)?;
        // Memory that the pool has already: fresh pages would cost as much as the copy.
        let payload = Arc::new(self.shared.pool.copy(parts));
        let number = link.register(method, once, Some(payload));
        link.send_owned(number);
        Ok(Pending::new(link, number, what))
    }

    /// Leaves on purpose, so that the server does not take this client for lost; calls fail from
    /// now on. Waits for the server to know, at most for the handshake's time.
    pub fn goodbye(&self) {
        self.shared.say_goodbye();
        self.shared.close();
    }

    /// Where the server is.
    pub fn endpoint(&self) -> &str {
        &self.shared.endpoint
    }

    /// Who the server is.
    pub fn peer(&self) -> Identity {
        self.shared.peer
    }

    /// A link of the lane with nothing in flight, a new one, or the one with the least.
    fn link(&self, lane: Lane, what: &str, parts: &[&[u8]]) -> Result<Arc<Link>> {
        self.shared.check_size(what, parts)?;
        self.shared.reserve(what)?;
        self.shared.pick(lane).inspect_err(|_| self.shared.release())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.close();
        // Threads that are in the middle of connecting end by themselves a little later.
        self.shared.threads.join(std::time::Duration::from_secs(1));
    }
}
