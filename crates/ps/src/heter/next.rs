//! The way to the next stage: a connection to each of its workers.

use std::sync::Arc;

use bireme_comm::{Body, Client, Identity, Lane, Pending, Role, Settings, Transport};

use super::assigned;
use super::message::{Answer, Request, Unit};
use super::sections::StageConfig;
use crate::Result;

/// Connections to all workers of the next stage.
pub(super) struct Next {
    clients: Vec<Client>,
    micro_batches: u32,
}

/// A unit that is on its way.
pub(super) struct Sent(Pending);

impl Sent {
    /// The answer.
    ///
    /// # Errors
    /// When the worker is lost, or failed.
    pub(super) fn wait(self) -> Result<Answer> {
        Answer::decode(&self.0.wait()?)
    }
}

impl Next {
    /// Connects to the workers, which are waited for until `settings.deadline`, and greets them.
    ///
    /// # Errors
    /// When one cannot be reached, or takes the job for another one.
    pub(super) fn connect(
        config: &StageConfig,
        me: Identity,
        transport: &Arc<dyn Transport>,
        settings: &Settings,
    ) -> Result<Next> {
        let first = config.first_rank(config.stage + 1);
        let connect = |(index, endpoint): (usize, &String)| {
            let peer = Identity::new(Role::HeterWorker, first - config.trainers() + index as u32);
            Client::connect(Arc::clone(transport), endpoint, me, peer, settings.clone())
        };
        let clients = config.next.iter().enumerate().map(connect);
        let clients = clients.collect::<bireme_comm::Result<Vec<Client>>>()?;
        let next = Next { clients, micro_batches: config.micro_batches };
        next.tell_all("to join the job", &Request::hello(config))?;
        Ok(next)
    }

    /// Sends a unit to the worker that has it.
    ///
    /// # Errors
    /// When that is lost.
    pub(super) fn start(&self, unit: Unit) -> Result<Sent> {
        let workers = self.clients.len();
        let client = &self.clients[assigned(unit.trainer, unit.micro, self.micro_batches, workers)];
        let what =
            format!("micro-batch {} of step {} of trainer {}", unit.micro, unit.step, unit.trainer);
        let request = Request::Unit { unit };
        let encoded = request.encode();
        let parts = encoded.parts();
        Ok(Sent(client.start(Lane::Send, request.method(), &what, &parts, true)?))
    }

    /// Tells all workers, and waits until all have heard it.
    ///
    /// # Errors
    /// When one is lost.
    pub(super) fn tell_all(&self, what: &str, request: &Request<'_>) -> Result<()> {
        let encoded = request.encode();
        let parts = encoded.parts();
        let tell = |client: &Client| client.start(Lane::Get, request.method(), what, &parts, true);
        let told: Vec<Pending> =
            self.clients.iter().map(tell).collect::<bireme_comm::Result<_>>()?;
        for pending in told {
            let _heard: Body = pending.wait()?;
        }
        Ok(())
    }

    /// Leaves.
    pub(super) fn goodbye(&self) {
        self.clients.iter().for_each(Client::goodbye);
    }
}
