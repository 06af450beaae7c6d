//! How long jobs take to start and to end: one server and four workers on this machine, started
//! as `fleetrun` starts them.

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bireme_fleet::environment::variables as v;
use bireme_launch::job::{Job, Mode, Process, Role};
use bireme_launch::supervise::{self, Level, Notice, Options, Outcome, Screen, Stop};
use rustix::process::{Pid, Signal, kill_process};

/// Starts of each kind; the median counts.
const STARTS: usize = 5;
/// Jobs that are ended by the death of one process; the slowest counts.
const KILLS: usize = 100;
const WORKERS: usize = 4;
/// A job that takes longer than this to begin does not.
const BEGIN: Duration = Duration::from_secs(120);
/// What the processes of the Python job run.
const SCRIPT: &str = include_str!("script.py");

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    StartRust,
    StartPython,
    Kill,
}

/// Every case, in the order of reports.
pub(crate) const CASES: &[Case] = &[
    Case { name: "start_rust_1s4w", what: What::StartRust },
    Case { name: "start_python_1s4w", what: What::StartPython },
    Case { name: "kill_to_end", what: What::Kill },
];

/// What runs the jobs.
#[derive(Debug)]
pub(crate) struct Programs {
    /// `bireme`, in words.
    pub(crate) bireme: Vec<OsString>,
    /// A Python interpreter that can import Bireme.
    pub(crate) python: OsString,
}

impl Case {
    /// Milliseconds of this case.
    ///
    /// # Errors
    /// When a job does not begin, or does not end as it should.
    pub(crate) fn measure(&self, programs: &Programs) -> Result<f64> {
        let folder = tempfile::tempdir().context("cannot make a folder for the jobs")?;
        let folder = folder.path();
        let seconds = match self.what {
            What::StartRust => median(|| start(rust(programs, folder, 1), folder))?,
            What::StartPython => {
                std::fs::write(folder.join("script.py"), SCRIPT)?;
                let script = folder.join("script.py").into_os_string();
                let words = ["-u", "-m", "bireme"].map(OsString::from);
                let mut command = vec![programs.python.clone()];
                command.extend(words);
                command.push(script);
                median(|| start(command.clone(), folder))?
            }
            What::Kill => {
                let mut longest = Duration::ZERO;
                for victim in 0..KILLS {
                    longest = longest.max(kill(rust(programs, folder, 100_000), folder, victim)?);
                }
                longest
            }
        };
        Ok(seconds.as_secs_f64() * 1e3)
    }
}

fn rust(programs: &Programs, folder: &Path, epochs: usize) -> Vec<OsString> {
    let mut command = programs.bireme.clone();
    let epochs = epochs.to_string();
    let flags = ["train", "--samples", "4096", "--rows", "10001", "--epochs", &epochs, "--output"];
    command.extend(flags.map(OsString::from));
    command.push(folder.join("model").into_os_string());
    command
}

fn median(mut measure: impl FnMut() -> Result<Duration>) -> Result<Duration> {
    let mut times = (0..STARTS).map(|_| measure()).collect::<Result<Vec<_>>>()?;
    times.sort_unstable();
    Ok(times[STARTS / 2])
}

/// From the start of a job to the first step of its last worker.
fn start(command: Vec<OsString>, folder: &Path) -> Result<Duration> {
    let job = job(command, folder)?;
    let started = Instant::now();
    watched(&job, |notices, stop| {
        let begun = begun(notices).map(|_| started.elapsed());
        stop.end(0, "");
        begun
    })
    .map(|(begun, _)| begun)
}

/// From the death of one process to the end of its job.
fn kill(command: Vec<OsString>, folder: &Path, victim: usize) -> Result<Duration> {
    let job = job(command, folder)?;
    let (killed, outcome) = watched(&job, |notices, stop| {
        let pids = begun(notices).inspect_err(|_| stop.end(0, ""))?;
        let pid = Pid::from_raw(pids[victim % pids.len()]).context("processes have numbers")?;
        kill_process(pid, Signal::KILL)?;
        Ok(Instant::now())
    })?;
    let took = killed.elapsed();
    match outcome.code {
        137 => Ok(took),
        code => bail!("a job ended with {code} after one of its processes was killed"),
    }
}

/// Runs a job, and `watch` beside it.
fn watched<T: Send>(
    job: &Job,
    watch: impl FnOnce(&Receiver<Notice>, &Stop) -> Result<T> + Send,
) -> Result<(T, Outcome)> {
    let (sender, notices) = channel();
    let stop = Stop::new()?;
    let screen = Screen::captured(Level::Error);
    let options = Options {
        screen: screen.clone(),
        signals: false,
        stop: Some(stop.clone()),
        notices: Some(sender),
        ..Options::default()
    };
    std::thread::scope(|scope| {
        let watching = scope.spawn(move || watch(&notices, &stop));
        // On this thread: processes end with the one that started them.
        let outcome = supervise::run(job, &options);
        // A watcher that still waits hears that nobody talks any more.
        drop(options);
        let watched = watching.join().expect("watching does not panic");
        let seen = || format!("the job did not run as it should:\n{}", screen.seen().1);
        Ok((watched.with_context(seen)?, outcome?))
    })
}

/// Waits until every worker has made a step; returns all processes.
fn begun(notices: &Receiver<Notice>) -> Result<Vec<i32>> {
    let (mut pids, mut begun) = (Vec::new(), 0);
    while begun < WORKERS {
        match notices.recv_timeout(BEGIN).context("not all workers have made a step")? {
            Notice::Started { pid, .. } => pids.push(pid),
            Notice::Stepped { .. } => begun += 1,
        }
    }
    Ok(pids)
}

/// One server and four workers on free ports.
fn job(command: Vec<OsString>, folder: &Path) -> Result<Job> {
    let held = (0..=WORKERS).map(|_| TcpListener::bind("127.0.0.1:0"));
    let held = held.collect::<std::io::Result<Vec<_>>>().context("no ports are free")?;
    let endpoints = held.iter().map(|held| Ok(held.local_addr()?.to_string()));
    let endpoints = endpoints.collect::<std::io::Result<Vec<String>>>()?;
    let (server, workers) = (endpoints[0].clone(), endpoints[1..].join(","));
    let process = |at: usize| {
        let (role, rank) = if at == 0 { (Role::Server, 0) } else { (Role::Worker, at - 1) };
        let port = endpoints[at].rsplit_once(':').map_or("", |(_, port)| port);
        let mut variables = vec![
            (v::SERVERS.name, server.clone()),
            (v::TRAINER_ENDPOINTS.name, workers.clone()),
            (v::TRAINERS_NUM.name, WORKERS.to_string()),
            (v::POD_IP.name, "127.0.0.1".to_owned()),
            (v::PORT.name, port.to_owned()),
        ];
        variables.extend(match role {
            Role::Server => vec![(v::TRAINING_ROLE.name, "PSERVER".to_owned())],
            _ => vec![
                (v::TRAINING_ROLE.name, "TRAINER".to_owned()),
                (v::TRAINER_ID.name, rank.to_string()),
            ],
        });
        Process {
            role,
            rank,
            local_rank: rank,
            node: 0,
            endpoint: endpoints[at].clone(),
            variables: variables.into_iter().map(|(n, value)| (n.to_owned(), value)).collect(),
            removed: Vec::new(),
        }
    };
    Ok(Job {
        mode: Mode::Servers,
        id: "bench".to_owned(),
        nodes: vec!["127.0.0.1".to_owned()],
        node: 0,
        processes: (0..=WORKERS).map(process).collect(),
        command,
        log_dir: folder.join("log"),
        max_restart: 0,
    })
}
