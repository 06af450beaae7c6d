//! A command line and a machine make a job: who runs where, under which number, port and variables.
//!
//! Nothing here talks to anybody: what is to be known of the machine comes as [`Facts`], ports come
//! from [`Ports`], and machines that have to meet first come as the [`Card`]s they laid down. Every
//! machine of a job makes the same job of the same command line.

mod devices;
mod layout;
mod mode;
mod variables;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use bireme_fleet::environment::variables as v;

use crate::addresses::Machine;
use crate::arguments::{Options, Variables};
use crate::job::{Job, Mode, Process, Role};
use crate::ports::Ports;
use crate::rendezvous::{Card, Seat};

pub use devices::{Devices, emulated_cards, is_emulated};

use layout::{Layout, Place};

/// What a plan has to know of the machine.
#[derive(Debug)]
pub struct Facts {
    /// Its addresses.
    pub machine: Machine,
    /// Its environment.
    pub variables: Variables,
    /// Processors that a process may use.
    pub cores: usize,
    /// GPUs that the machine has, whatever the environment says about them.
    pub gpus: usize,
    /// The folder in which relative paths begin.
    pub folder: PathBuf,
    /// A fresh secret, used where the environment has none.
    pub secret: String,
}

/// A job as far as this machine knows it.
#[derive(Debug)]
pub enum Plan {
    /// All of it.
    Whole(Draft),
    /// Its own part: the machines have to meet for the rest.
    Part {
        /// How the job works.
        mode: Mode,
        /// What this machine brings along.
        seats: Vec<Seat>,
    },
}

/// A job with what is told about it.
#[derive(Debug)]
pub struct Draft {
    /// The job.
    pub job: Job,
    /// Lines for the user: how it was understood.
    pub notes: Vec<Note>,
}

impl Draft {
    /// Gives all processes the secret on which the machines of the job have agreed.
    pub(crate) fn share_secret(&mut self, secret: Option<&str>) {
        let Some(secret) = secret else { return };
        for process in &mut self.job.processes {
            process.variables.push((v::JOB_SECRET.name.to_owned(), secret.to_owned()));
        }
    }
}

/// A line for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// What was decided.
    Info(String),
    /// What may be wrong.
    Warning(String),
}

/// The secret for a job whose environment has none.
pub fn fresh_secret(facts: &Facts) -> Option<String> {
    variables::unset(facts, &v::JOB_SECRET).then(|| facts.secret.clone())
}

/// Whether the machines of the job are only known when they have met.
pub fn must_meet(options: &Options) -> bool {
    let listed = !options.ips.is_empty() || !options.servers.is_empty();
    !listed && (options.master.is_some() || options.nnodes.is_some_and(|(_, most)| most > 1))
}

/// Plans a job. `address` is this machine's for the others, where they have to meet.
///
/// # Errors
/// When flags contradict each other or the machine: a [`Usage`](crate::arguments::Usage) where the
/// command line alone is wrong.
pub fn plan(
    options: &Options,
    facts: &Facts,
    address: Option<&str>,
    command: Vec<OsString>,
    ports: &mut dyn Ports,
) -> Result<Plan> {
    let devices = Devices::choose(options, facts)?;
    let (mode, mut notes) = mode::choose(options, &devices)?;
    let layout = match (mode, address) {
        (_, Some(address)) => {
            let seats = layout::seats(options, mode, &devices, address, ports)?;
            return Ok(Plan::Part { mode, seats });
        }
        (Mode::Collective, None) => layout::collective(options, facts, &devices, ports)?,
        (_, None) => layout::servers(options, facts, mode, &devices, ports)?,
    };
    notes.extend(layout.notes.iter().cloned());
    Ok(Plan::Whole(draft(options, facts, mode, &devices, &layout, command, notes)))
}

/// The job of machines that have met, from what each of them laid down, `own` being this one's.
///
/// # Errors
/// When together they make no job.
pub fn met(
    options: &Options,
    facts: &Facts,
    mode: Mode,
    cards: &[Card],
    own: usize,
    command: Vec<OsString>,
) -> Result<Draft> {
    let devices = Devices::choose(options, facts)?;
    let layout = layout::of_cards(options, mode, cards, own)?;
    let (_, notes) = mode::choose(options, &devices)?;
    Ok(draft(options, facts, mode, &devices, &layout, command, notes))
}

fn draft(
    options: &Options,
    facts: &Facts,
    mode: Mode,
    devices: &Devices,
    layout: &Layout,
    command: Vec<OsString>,
    mut notes: Vec<Note>,
) -> Draft {
    let setting = variables::Setting::new(options, facts, mode, devices, layout);
    notes.extend(setting.notes());
    let processes = layout.places.iter().map(|place| process(place, &setting)).collect();
    let job = Job {
        mode,
        id: options.job_id.clone().unwrap_or_else(|| "default".to_owned()),
        nodes: layout.nodes.clone(),
        node: layout.own,
        processes,
        command,
        log_dir: options.log_dir.clone(),
        max_restart: options.max_restart,
    };
    Draft { job, notes }
}

fn process(place: &Place, setting: &variables::Setting<'_>) -> Process {
    let variables = setting.of(place);
    Process {
        role: place.role,
        rank: place.rank,
        local_rank: place.local_rank,
        node: place.node,
        endpoint: place.endpoint(),
        removed: variables::removed(&variables),
        variables,
    }
}

/// How Paddle calls a role in its messages.
fn paddle_name(role: Role) -> &'static str {
    match role {
        Role::Server => "server",
        Role::Worker => "worker",
        Role::HeterWorker => "heter_worker",
    }
}

#[cfg(test)]
mod tests;
