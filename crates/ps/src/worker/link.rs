//! The worker's connections: one client for each server, and requests to several servers in flight
//! at once. The first error of a background thread is kept here until a step's thread asks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bireme_comm::{Body, Client, Identity, Interrupt, Lane, Pending, Settings, Transport};

use super::WorkerConfig;
use super::outbox::spawn;
use crate::message::{Answer, Life, Pace, Request};
use crate::{Error, Result};

/// Connections to all servers of a job.
pub(crate) struct Links {
    clients: Vec<Client>,
    index: HashMap<String, usize>,
    /// This trainer.
    pub(crate) trainer: u32,
    /// How long any wait may take.
    pub(crate) deadline: Duration,
    /// Bytes of arrays that one message may carry; the frame's head comes on top.
    pub(crate) max_bytes: usize,
    /// What a background thread failed with first.
    fault: OnceLock<String>,
    /// The first error that the trainer was told.
    told: OnceLock<String>,
    /// Whether the user wants waits to end.
    interrupt: Option<Interrupt>,
}

/// How long a wait sleeps before it asks whether it shall end.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// A request to one server.
pub(crate) struct Ask<'a> {
    pub(crate) server: usize,
    pub(crate) lane: Lane,
    /// The request in words, for errors.
    pub(crate) what: String,
    pub(crate) request: Request<'a>,
}

impl Links {
    /// Connects to all servers at once and introduces this trainer to them.
    pub(crate) fn connect(
        config: &WorkerConfig,
        transport: &Arc<dyn Transport>,
        settings: &Settings,
    ) -> Result<Links> {
        let clients = connect_all(config, transport, settings)?;
        let names = config.endpoints.iter().cloned();
        let links = Links {
            clients,
            index: names.enumerate().map(|(server, name)| (name, server)).collect(),
            trainer: config.trainer,
            deadline: settings.deadline,
            max_bytes: (settings.max_frame / 4 * 3).max(1 << 16),
            fault: OnceLock::new(),
            told: OnceLock::new(),
            interrupt: settings.interrupt.clone(),
        };
        match links.join(config) {
            Ok(()) => Ok(links),
            Err(error) => {
                // So that nobody waits for it, on those servers that have taken it.
                links.quit(Some(&error.to_string()));
                links.goodbye();
                Err(error)
            }
        }
    }

    /// Joins server 0 first, which says of which life of the job the others must be; then says
    /// that all are.
    fn join(&self, config: &WorkerConfig) -> Result<()> {
        let process = this_process();
        let ask = |server, life| Ask {
            server,
            lane: Lane::Get,
            what: "to join the job".to_owned(),
            request: Request::Join {
                trainer: config.trainer,
                trainers: config.trainers,
                mode: config.mode,
                process: &process,
                program: config.program.iter().map(String::as_str).collect(),
                life,
            },
        };
        let body = self.ask(&ask(0, Life { number: bireme_comm::random(), ..Life::default() }))?;
        let life = match Answer::decode(&body)? {
            Answer::Joined { life, .. } => life,
            other => return Err(unexpected("a request to join", &other)),
        };
        if self.len() == 1 {
            return Ok(());
        }
        let others: Vec<Ask<'_>> = (1..self.len()).map(|server| ask(server, life)).collect();
        for body in self.ask_each(&others)? {
            match Answer::decode(&body)? {
                Answer::Joined { .. } => {}
                other => return Err(unexpected("a request to join", &other)),
            }
        }
        let (what, request) = ("to begin the job".to_owned(), Request::Begin);
        check_done(&self.ask(&Ask { server: 0, lane: Lane::Get, what, request })?)
    }

    /// The number of servers.
    pub(crate) fn len(&self) -> usize {
        self.clients.len()
    }

    /// Which server listens on `endpoint`.
    pub(crate) fn server(&self, endpoint: &str) -> Result<usize> {
        self.index.get(endpoint).copied().ok_or_else(|| {
            let known: Vec<&str> = self.clients.iter().map(Client::endpoint).collect();
            Error::Config(format!(
                "the program names a server `{endpoint}`, but this worker is connected to {}",
                known.join(", ")
            ))
        })
    }

    /// Sends a request and returns before the answer is here; its arrays are copied.
    pub(crate) fn start(&self, ask: &Ask<'_>) -> Result<Pending> {
        let (client, body) = (&self.clients[ask.server], ask.request.encode());
        let once = ask.request.rules().once;
        Ok(client.start(ask.lane, ask.request.method(), &ask.what, &body.parts(), once)?)
    }

    /// Sends a request and waits for the answer; its arrays are sent from where they lie.
    pub(crate) fn ask(&self, ask: &Ask<'_>) -> Result<Body> {
        let (client, body) = (&self.clients[ask.server], ask.request.encode());
        let (method, once) = (ask.request.method(), ask.request.rules().once);
        let call = match ask.request.rules().pace {
            Pace::Quick => Client::call,
            Pace::Others | Pace::Files => Client::call_until_lost,
        };
        Ok(call(client, ask.lane, method, &ask.what, &body.parts(), once)?)
    }

    /// Makes all requests at once; the answers in their order.
    pub(crate) fn ask_each(&self, asks: &[Ask<'_>]) -> Result<Vec<Body>> {
        let Some((last, others)) = asks.split_last() else { return Ok(Vec::new()) };
        let pending = others.iter().map(|ask| self.start(ask)).collect::<Result<Vec<_>>>()?;
        // The last one can be waited for at once, and needs no copy: the usual case, since most
        // jobs have one server.
        let last = self.ask(last)?;
        let wait = |(ask, pending): (&Ask<'_>, Pending)| match ask.request.rules().pace {
            Pace::Quick => Ok(pending.wait()?),
            Pace::Others | Pace::Files => Ok(pending.wait_until_lost()?),
        };
        let mut bodies = others.iter().zip(pending).map(wait).collect::<Result<Vec<_>>>()?;
        bodies.push(last);
        Ok(bodies)
    }

    /// Asks all servers the same at once; their answers in order.
    pub(crate) fn ask_all(
        &self,
        lane: Lane,
        what: &str,
        request: &Request<'_>,
    ) -> Result<Vec<Body>> {
        let ask = |server| Ask { server, lane, what: what.to_owned(), request: request.clone() };
        self.ask_each(&(0..self.len()).map(ask).collect::<Vec<_>>())
    }

    /// Says goodbye to all servers, so that nobody misses this trainer.
    pub(crate) fn goodbye(&self) {
        self.clients.iter().for_each(Client::goodbye);
    }

    /// Remembers what the trainer was told, for [`Links::quit`].
    pub(crate) fn note(&self, error: &Error) {
        self.told.get_or_init(|| error.to_string());
    }

    /// Tells the servers that can be told that this trainer ends with an error: another server may
    /// know better who was missing first.
    pub(crate) fn quit(&self, problem: Option<&str>) {
        let known = self.told.get().or(self.fault.get()).map(String::as_str);
        let problem = problem.or(known).unwrap_or("it stopped before it had completed");
        let request = Request::Quit { problem };
        let encoded = request.encode();
        let (parts, method) = (encoded.parts(), request.method());
        let tell = |client: &Client| {
            client.start(Lane::Send, method, "to hear of its end", &parts, true).ok()
        };
        let told: Vec<Pending> = self.clients.iter().filter_map(tell).collect();
        let end = Instant::now() + Duration::from_secs(1);
        for mut pending in told {
            let left = end.saturating_duration_since(Instant::now());
            // A server that cannot be told finds out by itself.
            let _ = pending.wait_for(left);
        }
    }

    /// Keeps the first error of a background thread.
    pub(crate) fn fail(&self, error: &Error) {
        if self.fault.set(error.to_string()).is_ok() {
            tracing::error!("trainer {}: {error}", self.trainer);
        }
    }

    /// The first error of a background thread, again and again.
    pub(crate) fn check(&self) -> Result<()> {
        match self.fault.get() {
            Some(problem) => Err(Error::Missing(problem.clone())),
            None => Ok(()),
        }
    }

    /// An error when the user wants waits to end.
    pub(crate) fn check_interrupt(&self) -> Result<()> {
        match self.interrupt.as_ref().is_some_and(Interrupt::is_wanted) {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }

    /// Whether a background thread has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.fault.get().is_some()
    }
}

/// Clients of all servers, which are reached at the same time.
fn connect_all(
    config: &WorkerConfig,
    transport: &Arc<dyn Transport>,
    settings: &Settings,
) -> Result<Vec<Client>> {
    // The user is asked on the caller's thread: a signal may concern that one alone.
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, user) = (Arc::clone(&stop), settings.interrupt.clone());
    let asked = Interrupt::new(move || {
        stopped.load(Ordering::Relaxed) || user.as_ref().is_some_and(Interrupt::is_wanted)
    });
    let connecting = Settings { interrupt: Some(asked), ..settings.clone() };
    let (sender, arrivals) = mpsc::channel();
    for (rank, endpoint) in config.endpoints.iter().enumerate() {
        let (transport, endpoint, me) =
            (Arc::clone(transport), endpoint.clone(), config.identity());
        let (settings, sender) = (connecting.clone(), sender.clone());
        // They may have to stop with the caller, unlike those that work in the background.
        spawn(&format!("trainer{}-connect", config.trainer), move || {
            let server = Identity::server(rank as u32);
            let client = Client::connect(transport, &endpoint, me, server, settings);
            // Nobody may wait for it any more.
            let _ = sender.send((rank, client));
        })?;
    }
    drop(sender);
    let mut clients: Vec<Option<bireme_comm::Result<Client>>> = Vec::new();
    clients.resize_with(config.endpoints.len(), || None);
    while clients.iter().any(Option::is_none) {
        match arrivals.recv_timeout(TICK) {
            Ok((rank, client)) => clients[rank] = Some(client),
            Err(RecvTimeoutError::Timeout) => {
                if settings.interrupt.as_ref().is_some_and(Interrupt::is_wanted) {
                    // Their threads may sit in a system call; they end by themselves.
                    stop.store(true, Ordering::Relaxed);
                    return Err(Error::Interrupted);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::Config("a thread that connects has ended early".to_owned()));
            }
        }
    }
    Ok(clients.into_iter().flatten().collect::<bireme_comm::Result<Vec<_>>>()?)
}

/// This process, in words that tell it from another one of the same job.
fn this_process() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match host.trim() {
        "" => format!("process {}", std::process::id()),
        host => format!("process {} on `{host}`", std::process::id()),
    }
}

/// Waits until all of them are done.
pub(crate) fn wait_done(pending: impl IntoIterator<Item = Pending>) -> Result<()> {
    pending.into_iter().try_for_each(|pending| check_done(&pending.wait()?))
}

/// Checks that a push was done.
pub(crate) fn check_done(body: &[u8]) -> Result<()> {
    match Answer::decode(body)? {
        Answer::Done => Ok(()),
        other => Err(unexpected("a push", &other)),
    }
}

/// The error of an answer of the wrong kind.
pub(crate) fn unexpected(request: &str, answer: &Answer<'_>) -> Error {
    Error::Request(format!(
        "a server answered {request} by `{}`: do all run the same version?",
        answer.name()
    ))
}
