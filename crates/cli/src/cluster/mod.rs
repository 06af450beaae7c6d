//! A local cluster: servers and trainers in processes of their own, started, watched and ended by
//! this one.
//!
//! Whatever happens, nothing is left running: members end when their stdin does, and who does not
//! is killed when the [`Cluster`] is dropped.

pub(crate) mod brake;
pub(crate) mod member;
pub(crate) mod message;
mod process;

use std::fs::File;
use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use bireme_fleet::environment::variables as v;

use crate::interrupt::Interrupt;
use crate::units::plural;
use message::{Order, Report};
use process::{Event, Member, ending};
pub(crate) use process::{Recipe, Who};

/// What servers say of a trainer that told them of its end.
const HEARSAY: &str = "it ended with an error";
/// How long the member that failed first may take to end.
const GRACE: Duration = Duration::from_secs(2);

/// How long servers may take until they listen.
const START: Duration = Duration::from_secs(120);
/// How often Ctrl-C is looked for while nothing happens.
const TICK: Duration = Duration::from_millis(50);

/// Processes that train together.
pub(crate) struct Cluster {
    recipe: Recipe,
    servers: usize,
    trainers: usize,
    /// What the members prove to each other.
    secret: String,
    members: Vec<Member>,
    events: Receiver<(Who, Event)>,
    sender: Sender<(Who, Event)>,
}

impl Cluster {
    /// A cluster of so many processes, none of which runs yet.
    ///
    /// # Errors
    /// When there is no randomness for its secret.
    pub(crate) fn new(mut recipe: Recipe, servers: usize, trainers: usize) -> Result<Cluster> {
        // A cluster inside a job must not take itself for a part of it.
        let inherited = v::GROUPS[..2].iter().flat_map(|group| group.variables);
        recipe.unset.extend(inherited.map(|variable| variable.name));
        let (sender, events) = channel();
        let members = Vec::new();
        Ok(Cluster { recipe, servers, trainers, secret: secret()?, members, events, sender })
    }

    /// Starts the servers and waits until they listen; returns their endpoints, or `None` when the
    /// user did not want to wait.
    ///
    /// # Errors
    /// When one cannot be started, or ends.
    pub(crate) fn start_servers(&mut self, interrupt: &Interrupt) -> Result<Option<Vec<String>>> {
        // Servers take any free port; until it is known, each has a name of its own.
        let names: Vec<String> = (1..=self.servers).map(|i| format!("127.0.0.1:{i}")).collect();
        let list = names.join(",");
        for rank in 0..self.servers {
            let variables = [
                (v::TRAINING_ROLE.name, "PSERVER".to_owned()),
                (v::SERVERS.name, list.clone()),
                (v::SERVER_ID.name, rank.to_string()),
            ];
            self.start(Who::Server(rank), &variables)?;
        }
        let mut endpoints = vec![None; self.servers];
        let deadline = Instant::now() + START;
        while endpoints.contains(&None) {
            if interrupt.is_raised() {
                return Ok(None);
            }
            if Instant::now() > deadline {
                let missing = endpoints.iter().position(Option::is_none).unwrap_or(0);
                bail!("server {missing} does not listen after {} s", START.as_secs());
            }
            if let Some((Who::Server(rank), Report::Listening(endpoint))) = self.next()? {
                endpoints[rank] = Some(endpoint);
            }
        }
        Ok(Some(endpoints.into_iter().flatten().collect()))
    }

    /// Starts the trainers of these servers.
    ///
    /// # Errors
    /// When one cannot be started.
    pub(crate) fn start_trainers(&mut self, endpoints: &[String]) -> Result<()> {
        for rank in 0..self.trainers {
            let variables = [
                (v::TRAINING_ROLE.name, "TRAINER".to_owned()),
                (v::SERVERS.name, endpoints.join(",")),
                (v::TRAINER_ID.name, rank.to_string()),
            ];
            self.start(Who::Trainer(rank), &variables)?;
        }
        Ok(())
    }

    fn start(&mut self, who: Who, variables: &[(&str, String)]) -> Result<()> {
        let common = [
            (v::TRAINERS_NUM.name, self.trainers.to_string()),
            (v::JOB_SECRET.name, self.secret.clone()),
        ];
        let variables = [variables, &common].concat();
        self.members.push(Member::start(who, &self.recipe, &variables, &self.sender)?);
        Ok(())
    }

    /// The next thing that a member says; `None` when it ended as it should, or nothing happened
    /// for a moment.
    ///
    /// # Errors
    /// When a member failed: who, how, and the end of its log.
    pub(crate) fn next(&mut self) -> Result<Option<(Who, Report)>> {
        let (who, event) = match self.events.recv_timeout(TICK) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => unreachable!("we hold a sender ourselves"),
        };
        match event {
            Event::Said(report) => Ok(Some((who, report))),
            Event::Closed => match self.ended(who) {
                Ok(()) => Ok(None),
                Err(error) => Err(self.cause(error)),
            },
        }
    }

    /// The error that explains `error`: members that hear of another's failure may end before it
    /// does, but its own log says more.
    fn cause(&mut self, mut error: anyhow::Error) -> anyhow::Error {
        let is_hearsay = |error: &anyhow::Error| error.to_string().contains(HEARSAY);
        let end = Instant::now() + GRACE;
        while is_hearsay(&error) {
            let left = end.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok((who, Event::Closed)) => match self.ended(who) {
                    Err(other) if !is_hearsay(&other) => error = other,
                    _ => {}
                },
                Ok(_) => {}
                Err(_) => break,
            }
        }
        error
    }

    /// Takes the leave of a member that has closed its stdout.
    fn ended(&mut self, who: Who) -> Result<()> {
        let Some(at) = self.members.iter().position(|member| member.who == who) else {
            return Ok(());
        };
        let mut member = self.members.swap_remove(at);
        let status = member.finish().with_context(|| format!("cannot see how {who} ended"))?;
        if status.success() {
            return Ok(());
        }
        let of = match who {
            Who::Server(_) => plural(self.servers, "server"),
            Who::Trainer(_) => plural(self.trainers, "trainer"),
        };
        let log = match member.tail() {
            empty if empty.is_empty() => "; it wrote nothing".to_owned(),
            lines => format!("; the end of its log:{lines}"),
        };
        Err(anyhow!("{who} (of {of}) {}{log}", ending(status)))
    }

    /// Tells every trainer that runs.
    pub(crate) fn order_trainers(&mut self, order: &Order) {
        let trainers = self.members.iter_mut().filter(|m| matches!(m.who, Who::Trainer(_)));
        trainers.for_each(|member| member.order(order));
    }

    /// Trainers that run.
    pub(crate) fn running_trainers(&self) -> usize {
        self.members.iter().filter(|member| matches!(member.who, Who::Trainer(_))).count()
    }

    /// Whether every member has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.members.is_empty()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // All at once, so that each has the whole grace.
        self.members.iter_mut().for_each(Member::release);
    }
}

/// A word that nobody else on this machine knows.
fn secret() -> Result<String> {
    let mut bytes = [0; 32];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.context("cannot read random bytes for the cluster's secret from /dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
