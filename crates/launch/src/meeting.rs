//! The machines of a job meet before it starts: what this one says about itself, and where.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bireme_comm::{Interrupt, Network, Transport};
use bireme_fleet::Environment;
use bireme_fleet::environment::variables::{self as v, Variable};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::arguments::{Level, Options, Usage, Variables, join};
use crate::job::{Job, Mode};
use crate::log::Log;
use crate::plan::{self, Facts};
use crate::rendezvous::{
    self, Card, Config, DEFAULT_PORT, Expected, JobSecret, Membership, Place, Seat,
};

/// How long machines wait for each other, unless `BIREME_START_TIMEOUT` says otherwise.
const START_TIMEOUT: Duration = Duration::from_secs(300);
/// How long a job that has the machines it needs waits for more, as in Paddle.
const MORE_MACHINES: Duration = Duration::from_secs(30);

/// Flags that have to be the same on all machines.
const MUST_MATCH: [&str; 11] = [
    "ips",
    "servers",
    "workers",
    "heter_workers",
    "heter_worker_num",
    "heter_devices",
    "run_mode",
    "nnodes",
    "start_port",
    "http_port",
    "job_id",
];
/// Flags that usually are.
const SHOULD_MATCH: [&str; 6] =
    ["nproc_per_node", "server_num", "worker_num", "with_gloo", "max_restart", "elastic_level"];

/// This machine's address for the others, where they are only known when they have met.
///
/// # Errors
/// When there is no way to the meeting.
pub(crate) fn address(options: &Options, facts: &Facts) -> Result<Option<String>> {
    if !plan::must_meet(options) {
        return Ok(None);
    }
    match &options.master {
        Some(master) => facts.machine.towards(&master.host).map(Some),
        None if options.nnodes.is_some_and(|(_, most)| most > 1) => Err(Usage(format!(
            "`{}` asks for several machines, but not where they meet: add `--master=IP:PORT` with \
             an address of the first machine and a free port of it, the same on all machines",
            options.given.written("nnodes")
        ))
        .into()),
        None => Ok(None),
    }
}

/// Waits for the machines of `--ips`, or of `--servers` and `--workers`.
///
/// # Errors
/// When they do not come, or contradict each other.
pub(crate) fn listed(options: &Options, facts: &Facts, job: &Job, log: Log) -> Result<Membership> {
    let port = options.http_port.or(options.gloo_port).unwrap_or(DEFAULT_PORT);
    let master = options.master.as_ref();
    let endpoint = match master {
        Some(master) => join(&master.host, master.port.unwrap_or(port)),
        None => join(&job.nodes[0], port),
    };
    let place = if job.node == 0 { Place::Here } else { Place::There };
    let seat = |process: &crate::job::Process| Seat {
        role: process.role,
        port: process.endpoint.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(0),
        devices: String::new(),
    };
    let seats = job.local().map(seat).collect();
    let card = card(options, facts, &job.nodes[job.node], Some(job.node), seats, job.mode);
    let expected = Expected::Listed(job.nodes.clone());
    join_meeting(options, facts, endpoint, place, expected, card, log)
}

/// Waits for a number of machines at `--master`.
///
/// # Errors
/// When they do not come, or contradict each other.
pub(crate) fn counted(
    options: &Options,
    facts: &Facts,
    mode: Mode,
    address: &str,
    seats: Vec<Seat>,
    log: Log,
) -> Result<Membership> {
    let master = options.master.as_ref().context("machines meet at `--master`")?;
    let Some(port) = master.port else {
        let host = &master.host;
        bail!(Usage(format!("`--master={host}` has no port: write a free one, `{host}:6789`")));
    };
    let (place, host) = match (facts.machine.is(&master.host), options.rank) {
        (Ok(true), Some(0)) => (Place::Here, master.host.as_str()),
        (Ok(true), None) => (Place::Either, master.host.as_str()),
        // Several launchers of one machine, each with its own `--host`.
        (Ok(true), Some(_)) | (Ok(false), _) => (Place::There, master.host.as_str()),
        // A pod may be there before its name is known: its number and its address are.
        (Err(_), Some(0)) => (Place::Here, address),
        (Err(_), Some(_)) => (Place::There, master.host.as_str()),
        (Err(error), None) => return Err(error),
    };
    let (least, most) = options.nnodes.unwrap_or((1, 1));
    let patience = options.wait.unwrap_or(MORE_MACHINES);
    let expected = Expected::Counted { least, most, by_address: options.sort_ip, patience };
    let card = card(options, facts, address, options.rank, seats, mode);
    join_meeting(options, facts, join(host, port), place, expected, card, log)
}

fn card(
    options: &Options,
    facts: &Facts,
    address: &str,
    rank: Option<usize>,
    seats: Vec<Seat>,
    mode: Mode,
) -> Card {
    let values = |names: &[&str]| {
        let value = |name: &&str| {
            (format!("--{name}"), options.given.text(name).unwrap_or_default().to_owned())
        };
        names.iter().map(value).collect::<Vec<_>>()
    };
    let mut must_match = values(&MUST_MATCH);
    must_match.push(("the kind of job".to_owned(), format!("{mode:?}")));
    let mut should_match = values(&SHOULD_MATCH);
    let script = options.program.name.to_string_lossy().into_owned();
    should_match.push(("the script".to_owned(), script));
    let secret = JobSecret(plan::fresh_secret(facts).unwrap_or_default());
    Card { address: address.to_owned(), rank, must_match, should_match, seats, secret }
}

fn join_meeting(
    options: &Options,
    facts: &Facts,
    endpoint: String,
    place: Place,
    expected: Expected,
    card: Card,
    log: Log,
) -> Result<Membership> {
    let environment = Environment::of(
        facts.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())),
    )?;
    let job = options.job_id.as_deref().unwrap_or("default");
    let interrupted = Interrupted::watch()?;
    let asked = interrupted.flag.clone();
    let config = Config {
        endpoint,
        place,
        expected,
        card,
        restarts: options.max_restart,
        start_timeout: start_timeout(facts)?,
        settings: rendezvous::settings(&environment, job)?,
        say: Arc::new(move |line| log.say(Level::Info, line)),
        interrupt: Some(Interrupt::new(move || asked.load(Ordering::Relaxed))),
    };
    let transport: Arc<dyn Transport> = Arc::new(Network::new(environment.rpc.transport));
    rendezvous::join(&config, &transport)
}

fn start_timeout(facts: &Facts) -> Result<Duration> {
    let timeout = seconds(&facts.variables, &v::START_TIMEOUT)?.unwrap_or(START_TIMEOUT);
    anyhow::ensure!(!timeout.is_zero(), "the variable `{}` must be above 0", v::START_TIMEOUT.name);
    Ok(timeout)
}

/// The value of a variable that is a number of seconds, if it is set.
pub(crate) fn seconds(variables: &Variables, variable: &Variable) -> Result<Option<Duration>> {
    let name = variable.name;
    let Some(text) = variables.get(name).map(|text| text.trim()).filter(|t| !t.is_empty()) else {
        return Ok(None);
    };
    let parsed = text.parse::<f64>().ok();
    let parsed = parsed.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let wrong = || format!("the variable `{name}` is `{text}`, which is no number of seconds");
    parsed.map(Some).with_context(wrong)
}

/// Whether the user wants to wait no longer; nothing runs yet that would have to be ended.
struct Interrupted {
    flag: Arc<AtomicBool>,
    hooks: Vec<signal_hook::SigId>,
}

impl Interrupted {
    fn watch() -> Result<Interrupted> {
        let flag = Arc::new(AtomicBool::new(false));
        let mut hooks = Vec::new();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let hook = signal_hook::flag::register(signal, flag.clone());
            hooks.push(hook.context("cannot listen to signals")?);
        }
        Ok(Interrupted { flag, hooks })
    }
}

impl Drop for Interrupted {
    fn drop(&mut self) {
        for hook in self.hooks.drain(..) {
            signal_hook::low_level::unregister(hook);
        }
    }
}
