//! One node's view of the meeting: joining it, waiting for the others, and the job's news after that.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use bireme_comm::{Client, Error, Identity, Interrupt, Lane, Settings, Transport};

use super::board::Board;
use super::host::{Host, IDENTITY};
use super::message::{Card, Entry, Failure, Request, decode, encode};
use super::waiting::Waiting;
use super::{Event, Peers};

/// Longest pause between two looks at the clock.
const SLICE: Duration = Duration::from_millis(100);

/// Who takes part in a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The nodes with these addresses, in the order of their ranks.
    Listed(Vec<String>),
    /// A number of nodes (`--nnodes`), whoever they are.
    Counted {
        /// The job does not start with fewer.
        least: usize,
        /// More are refused.
        most: usize,
        /// Ranks follow addresses (`--sort_ip`) and not arrival.
        by_address: bool,
        /// With `least` nodes there, how long after the last arrival the job starts without more
        /// (`--elastic_timeout`).
        patience: Duration,
    },
}

impl Expected {
    /// The largest number of nodes.
    pub(super) fn most(&self) -> usize {
        match self {
            Expected::Listed(nodes) => nodes.len(),
            Expected::Counted { most, .. } => *most,
        }
    }
}

/// Where the meeting is, seen from this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// This node hosts it.
    Here,
    /// Another node does.
    There,
    /// On this machine: this node hosts it, unless another one of this machine does already.
    Either,
}

/// What a node needs to take part.
#[derive(Clone)]
pub struct Config {
    /// `ip:port` of the meeting.
    pub endpoint: String,
    /// Who hosts it.
    pub place: Place,
    /// Whom it waits for.
    pub expected: Expected,
    /// This node.
    pub card: Card,
    /// How often all processes of all nodes are started again after a failure; the host's counts.
    pub restarts: u32,
    /// How long to wait for the others.
    pub start_timeout: Duration,
    /// Of the connections between launchers, from [`super::settings`].
    pub settings: Settings,
    /// Where lines for the user go.
    pub say: Arc<dyn Fn(&str) + Send + Sync>,
    /// Ends the wait when the user wants it.
    pub interrupt: Option<Interrupt>,
}

/// A node among others, from the start of the job on.
pub struct Membership {
    client: Arc<Client>,
    host: Mutex<Option<Host>>,
    follower: Mutex<Option<JoinHandle<()>>>,
    news: Arc<News>,
    session: u64,
    node: usize,
    roster: Vec<Card>,
    endpoint: String,
    patience: Duration,
    /// This node has taken leave.
    gone: AtomicBool,
}

/// Entries of the log that nobody has looked at yet.
#[derive(Default)]
struct News {
    entries: Mutex<VecDeque<Entry>>,
    arrived: Condvar,
    /// The last entry is here, or this node has left.
    over: AtomicBool,
}

/// Takes part in the meeting and returns when all nodes are there.
///
/// # Errors
/// When the port is taken, nodes contradict each other or do not come in time, or the user does not
/// want to wait.
pub fn join(config: &Config, transport: &Arc<dyn Transport>) -> Result<Membership> {
    let host = open(config, transport)?;
    let endpoint = host.as_ref().map_or(config.endpoint.as_str(), |host| host.endpoint());
    let endpoint = endpoint.to_owned();
    let waiting = Arc::new(Waiting::new(config, &endpoint));
    let client = connect(config, transport, &endpoint, &waiting)?;
    let session = register(config, &client, &waiting)?;
    // From here on the wait is this function's: the connection must outlive it, to say why it ends.
    waiting.is_connected();
    let news = Arc::new(News::default());
    let follower = follow(&client, &news, &endpoint)?;
    let roster = match wait_for_start(&news, &waiting) {
        Ok(roster) => roster,
        Err(problem) => {
            // Others need not wait for this node any more, and those who wait with it neither.
            if waiting.is_late() {
                post(&client, &Request::GiveUp(problem.to_string()));
            }
            let patience = config.settings.heartbeat_timeout;
            finish(&client, &news, Some(follower), patience);
            wait_for_others(host.as_ref(), session, patience);
            return Err(problem);
        }
    };
    let node = roster.iter().position(|(other, _)| *other == session);
    Ok(Membership {
        client,
        host: Mutex::new(host),
        follower: Mutex::new(Some(follower)),
        news,
        session,
        node: node.context("the rendezvous started the job without this node")?,
        roster: roster.into_iter().map(|(_, card)| card).collect(),
        endpoint,
        patience: config.settings.heartbeat_timeout,
        gone: AtomicBool::new(false),
    })
}

/// The board, if it is this node's to host.
fn open(config: &Config, transport: &Arc<dyn Transport>) -> Result<Option<Host>> {
    if config.place == Place::There {
        return Ok(None);
    }
    let board = Board::new(config.expected.clone(), config.card.clone(), config.restarts);
    match Host::start(transport, &config.endpoint, &config.settings, board) {
        Ok(host) => Ok(Some(host)),
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::AddrInUse => {
            if config.place == Place::Either {
                return Ok(None);
            }
            bail!(
                "the port of the rendezvous, {}, is taken by another program: choose another one \
                 with `--http_port`, the same on all nodes",
                config.endpoint
            )
        }
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::AddrNotAvailable => bail!(
            "the rendezvous is to be at {}, but no such address is on this machine",
            config.endpoint
        ),
        Err(error) => Err(anyhow!(error).context("the rendezvous cannot be opened")),
    }
}

fn connect(
    config: &Config,
    transport: &Arc<dyn Transport>,
    endpoint: &str,
    waiting: &Arc<Waiting>,
) -> Result<Arc<Client>> {
    let asked = waiting.clone();
    let settings = Settings {
        interrupt: Some(Interrupt::new(move || asked.ends_connecting())),
        // One connection, so that requests arrive in their order.
        send_connections: 1,
        ..config.settings.clone()
    };
    let me = Identity { rank: place_in(&config.expected, &config.card), ..IDENTITY };
    match Client::connect(transport.clone(), endpoint, me, IDENTITY, settings) {
        Ok(client) => Ok(Arc::new(client)),
        Err(Error::Interrupted { .. }) => Err(waiting.problem()),
        Err(Error::Refused { problem, .. }) => bail!(
            "the rendezvous at {endpoint} refused this node: {problem} (`BIREME_JOB_SECRET`, or \
             where it is not set `--job_id`, must be the same on all nodes)"
        ),
        Err(error) => Err(anyhow!(error).context("the rendezvous cannot be reached")),
    }
}

/// The number of a node in log lines of its connections, where it is known.
fn place_in(expected: &Expected, card: &Card) -> u32 {
    match expected {
        Expected::Listed(nodes) => nodes.iter().position(|node| *node == card.address),
        Expected::Counted { .. } => card.rank,
    }
    .unwrap_or_default() as u32
}

/// Presents this node; the number of its session.
fn register(config: &Config, client: &Client, waiting: &Waiting) -> Result<u64> {
    let request = Request::Join(config.card.clone());
    let bytes = encode(&request);
    let mut pending = client.start(Lane::Send, 0, request.name(), &[&bytes], true)?;
    loop {
        match pending.wait_for(SLICE) {
            Ok(Some(session)) => return decode(&session).map_err(|problem| anyhow!(problem)),
            Ok(None) if waiting.is_over() => return Err(waiting.problem()),
            Ok(None) => {}
            Err(Error::Remote { problem, .. }) => bail!("{problem}"),
            Err(Error::Interrupted { .. }) => return Err(waiting.problem()),
            Err(error) => return Err(anyhow!(error)),
        }
    }
}

/// Reads the log in a thread of its own, until its last entry.
fn follow(client: &Arc<Client>, news: &Arc<News>, endpoint: &str) -> Result<JoinHandle<()>> {
    let (client, news, endpoint) = (client.clone(), news.clone(), endpoint.to_owned());
    std::thread::Builder::new()
        .name("news".into())
        .spawn(move || {
            let (mut seen, mut is_last) = (0, false);
            while !news.over.load(Ordering::Acquire) {
                let entries = watch(&client, seen).unwrap_or_else(|problem| {
                    vec![Entry::Lost { node: host_of(&endpoint).to_owned(), why: problem }]
                });
                seen += entries.len();
                is_last = news.push(entries);
            }
            // The host waits for this, so it must not wait for the processes of this node.
            if is_last {
                take_leave(&client);
            }
        })
        .context("cannot start a thread")
}

fn watch(client: &Client, seen: usize) -> Result<Vec<Entry>, String> {
    let request = Request::Watch(seen);
    let lost = |error: Error| match error {
        Error::Lost { problem, .. } => {
            let problem = problem.split(", while waiting").next().unwrap_or_default().to_owned();
            format!(
                "this node follows the job there and hears nothing: {problem}; it was switched \
                 off, its `fleetrun` was killed, or the network between it and this node is cut"
            )
        }
        other => other.to_string(),
    };
    let reply = client.call(Lane::Get, 0, request.name(), &[&encode(&request)], false);
    decode(&reply.map_err(lost)?)
}

impl News {
    /// Takes entries in; true if the last one is there, and nobody has left before it.
    fn push(&self, news: Vec<Entry>) -> bool {
        let mut entries = self.entries.lock().unwrap_or_else(|poison| poison.into_inner());
        let mut is_last = false;
        for entry in news {
            is_last = entry.is_last();
            if self.over.fetch_or(is_last, Ordering::AcqRel) {
                return false;
            }
            entries.push_back(entry);
            if is_last {
                break;
            }
        }
        self.arrived.notify_all();
        is_last
    }

    fn next(&self, patience: Duration) -> Option<Entry> {
        let entries = self.entries.lock().unwrap_or_else(|poison| poison.into_inner());
        let waited = self.arrived.wait_timeout_while(entries, patience, |news| news.is_empty());
        waited.unwrap_or_else(|poison| poison.into_inner()).0.pop_front()
    }
}

fn wait_for_start(news: &News, waiting: &Waiting) -> Result<Vec<(u64, Card)>> {
    loop {
        match news.next(SLICE) {
            Some(Entry::Joined(node)) => waiting.joined(node),
            Some(Entry::Left(node)) => waiting.left(&node),
            Some(Entry::Note(text)) => waiting.say(&text),
            Some(Entry::Started(roster)) => return Ok(roster),
            Some(Entry::Refused(problem)) => bail!("{problem}"),
            Some(Entry::Lost { node, why }) => bail!("node {node} is lost: {why}"),
            Some(entry) => bail!("the rendezvous said {entry:?} before the job started"),
            None if waiting.is_over() => return Err(waiting.problem()),
            None => {}
        }
    }
}

/// Sends a report without waiting for its arrival; a host that is lost needs none.
fn post(client: &Client, request: &Request) {
    let sent = client.start(Lane::Send, 0, request.name(), &[&encode(request)], true);
    if let Err(error) = sent {
        tracing::debug!("{} was not sent: {error}", request.name());
    }
}

/// Tells the host that this node needs nothing more of it, and ends the connection.
fn take_leave(client: &Client) {
    let request = Request::Leave;
    if let Err(error) = client.call(Lane::Send, 0, request.name(), &[&encode(&request)], true) {
        tracing::debug!("the host does not need to know: {error}");
    }
    client.goodbye();
}

/// Leaves the meeting, if the last entry of the log has not ended it.
fn finish(client: &Client, news: &News, follower: Option<JoinHandle<()>>, patience: Duration) {
    if !news.over.swap(true, Ordering::AcqRel) {
        let request = Request::Leave;
        // Answered after the reports that were sent before; ends the follower's wait too.
        let _ = client
            .start(Lane::Send, 0, request.name(), &[&encode(&request)], true)
            .and_then(|mut pending| pending.wait_for(patience));
    }
    if let Some(Err(_)) = follower.map(JoinHandle::join) {
        tracing::debug!("the thread that follows the job has failed");
    }
    client.goodbye();
}

/// The host goes last, when all know how the job ended; but it does not wait for the lost.
fn wait_for_others(host: Option<&Host>, session: u64, patience: Duration) {
    if host.is_some_and(|host| !host.wait_for_others(session, patience)) {
        tracing::warn!("some nodes did not say that they know how the job ended");
    }
}

/// The host of `host:port`.
pub(super) fn host_of(endpoint: &str) -> &str {
    endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host)
}

impl Membership {
    /// All nodes in the order of their ranks.
    pub fn roster(&self) -> &[Card] {
        &self.roster
    }

    /// The secret of the job, made by the first node; `None` where the environment has one.
    pub fn secret(&self) -> Option<&str> {
        let first = self.roster.first().map(|card| card.secret.0.as_str());
        first.filter(|secret| !secret.is_empty())
    }

    /// The rank of this node.
    pub fn node(&self) -> usize {
        self.node
    }

    /// Where the meeting is, with its real port.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }
}

impl Peers for Membership {
    fn local_failed(&self, failure: &Failure) {
        post(&self.client, &Request::Failed(failure.clone()));
    }

    fn local_workers_done(&self) {
        post(&self.client, &Request::WorkersDone);
    }

    fn local_stopped(&self, round: u32, checkpoint: Option<String>) {
        post(&self.client, &Request::Stopped { round, checkpoint });
    }

    fn next_event(&self, patience: Duration) -> Option<Event> {
        let end = Instant::now() + patience;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let event = match self.news.next(left)? {
                Entry::Failed(failure) => Event::Failed(failure),
                Entry::Lost { node, why } => Event::NodeLost { node, why },
                Entry::WorkersDone => Event::AllWorkersDone,
                Entry::Restart { round, failure } => Event::Restart { round, failure },
                Entry::Begin { round, checkpoint } => Event::Begin { round, checkpoint },
                Entry::Refused(problem) => {
                    Event::NodeLost { node: host_of(&self.endpoint).to_owned(), why: problem }
                }
                Entry::Joined(_) | Entry::Left(_) | Entry::Note(_) | Entry::Started(_) => continue,
            };
            return Some(event);
        }
    }

    fn leave(&self) {
        if self.gone.swap(true, Ordering::AcqRel) {
            return;
        }
        let host = self.host.lock().unwrap_or_else(|poison| poison.into_inner()).take();
        let follower = self.follower.lock().unwrap_or_else(|poison| poison.into_inner()).take();
        finish(&self.client, &self.news, follower, self.patience);
        wait_for_others(host.as_ref(), self.session, self.patience);
    }
}

impl Drop for Membership {
    /// A node that goes without a word would look to the others as if it were still there.
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests;
