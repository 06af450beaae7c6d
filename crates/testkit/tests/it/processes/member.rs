//! One process of a cluster: this test binary once more, told by its environment what to be. It
//! says how far it is on stdout, line by line, and ends when told so on stdin.

#![expect(clippy::print_stdout, reason = "how a process talks to the test that started it")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::Result;
use bireme_engine::Scope;
use bireme_engine::optimizer::Adam;
use bireme_ps::message::Format;
use bireme_testkit::cluster::Cluster;
use bireme_testkit::models::{Batch, Model, Table, ctr_batches, ctr_dnn, share};
use bireme_transpiler::Mode;

const ROLE: &str = "BIREME_TEST_MEMBER";
const CAST: &str = "BIREME_TEST_CAST";
const TRAINERS: usize = 2;
const BATCH: usize = 12;
/// Batches that there are; longer training repeats them.
const BATCHES: usize = 16;

/// What all processes of a cluster know.
#[derive(Clone, Debug)]
pub(super) struct Cast {
    pub(super) mode: Mode,
    /// Of heartbeats.
    pub(super) timeout: Duration,
    pub(super) servers: usize,
    /// Known to trainers.
    pub(super) endpoints: Vec<String>,
    /// Steps of each trainer, after those that it skips.
    pub(super) steps: usize,
    pub(super) skip: usize,
    /// After which step trainer 0 saves, and where to.
    pub(super) save: Option<(usize, PathBuf)>,
    /// What servers begin with.
    pub(super) checkpoint: Option<PathBuf>,
}

impl Default for Cast {
    fn default() -> Cast {
        Cast {
            mode: Mode::Sync,
            timeout: Duration::from_secs(10),
            servers: 1,
            endpoints: Vec::new(),
            steps: 1,
            skip: 0,
            save: None,
            checkpoint: None,
        }
    }
}

const MODES: [Mode; 5] = [Mode::Sync, Mode::Async, Mode::HalfAsync, Mode::Geo, Mode::Hybrid];

impl Cast {
    fn write(&self) -> String {
        let path =
            |path: Option<&PathBuf>| path.map_or("", |path| path.to_str().unwrap()).to_owned();
        [
            self.mode.code().to_string(),
            self.timeout.as_millis().to_string(),
            self.servers.to_string(),
            self.endpoints.join(","),
            self.steps.to_string(),
            self.skip.to_string(),
            self.save.as_ref().map_or(0, |(step, _)| *step).to_string(),
            path(self.save.as_ref().map(|(_, path)| path)),
            path(self.checkpoint.as_ref()),
        ]
        .join("|")
    }

    fn read(text: &str) -> Cast {
        let fields: Vec<&str> = text.split('|').collect();
        let number = |at: usize| fields[at].parse::<usize>().unwrap();
        let path = |at: usize| Some(fields[at]).filter(|path| !path.is_empty()).map(PathBuf::from);
        Cast {
            mode: MODES[number(0)],
            timeout: Duration::from_millis(number(1) as u64),
            servers: number(2),
            endpoints: fields[3].split(',').map(str::to_owned).collect(),
            steps: number(4),
            skip: number(5),
            save: path(7).map(|path| (number(6), path)),
            checkpoint: path(8),
        }
    }

    /// Modes have tables of either kind, so that both see every fault.
    fn model(&self) -> Result<Model> {
        let table = match self.mode {
            Mode::Async | Mode::Hybrid => Table::Keyed,
            _ => Table::Sliced,
        };
        ctr_dnn(table, &Adam::new(0.003).lazy_mode(true))
    }

    fn cluster(&self) -> Cluster {
        let mut cluster = Cluster::new(TRAINERS, self.servers).over_tcp().in_mode(self.mode);
        cluster.config.geo_sgd_need_push_nums = 1;
        cluster.settings.heartbeat = self.timeout / 10;
        cluster.settings.heartbeat_timeout = self.timeout;
        cluster.checkpoint = self.checkpoint.clone();
        cluster
    }
}

/// Not a test: what the processes run.
#[test]
#[ignore = "runs in processes of its own, started by other tests"]
fn run() {
    let (Ok(role), Ok(cast)) = (std::env::var(ROLE), std::env::var(CAST)) else { return };
    let cast = Cast::read(&cast);
    let (role, rank) = role.split_once(' ').unwrap();
    let rank = rank.parse().unwrap();
    println!();
    let ended = match role {
        "server" => serve(&cast, rank),
        _ => train(&cast, rank),
    };
    match ended {
        Ok(()) => println!("finished"),
        Err(error) => println!("error {}", format!("{error:#}").replace('\n', " ")),
    }
}

fn serve(cast: &Cast, rank: usize) -> Result<()> {
    let model = cast.model()?;
    let server = cast.cluster().start_server(&model, rank, &Scope::new())?;
    println!("listening {}", server.endpoint());
    Ok(server.run(&|| false)?)
}

fn train(cast: &Cast, rank: usize) -> Result<()> {
    let model = cast.model()?;
    let batches = ctr_batches(BATCHES, BATCH);
    let shares: Vec<Batch> = batches.iter().map(|batch| share(batch, rank, TRAINERS)).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        stopped.store(true, Ordering::Relaxed);
    });
    let save = cast.save.clone();
    let mut cluster = cast.cluster().after_step(move |done| {
        if let Some((step, folder)) = &save
            && (done.steps, done.trainer) == (*step, 0)
        {
            done.worker.save(&folder.to_string_lossy(), None, 0, Format::Native)?;
        }
        println!("step {} {}", done.steps, done.loss.to_bits());
        Ok(())
    });
    cluster.endpoints = cast.endpoints.clone();
    let steps = shares.iter().cycle().skip(cast.skip).take(cast.steps);
    let steps = steps.take_while(|_| !stop.load(Ordering::Relaxed));
    cluster.run_trainer(&model, rank, steps)?;
    Ok(())
}

/// What a process says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    Listening(String),
    /// The bits of the loss.
    Step {
        loss: u64,
    },
    Finished,
    Error(String),
    /// It ended without a word.
    Gone,
}

/// A process of a cluster; ended with the test.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    said: Receiver<Said>,
    /// Steps that it has told of.
    pub(super) steps: usize,
}

impl Process {
    pub(super) fn server(cast: &Cast, rank: usize) -> Process {
        Process::start(cast, &format!("server {rank}"))
    }

    pub(super) fn trainer(cast: &Cast, rank: usize) -> Process {
        Process::start(cast, &format!("trainer {rank}"))
    }

    fn start(cast: &Cast, role: &str) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "processes::member::run", "--ignored", "--nocapture"]);
        command.env(ROLE, role).env(CAST, cast.write());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let (sender, said) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
                let said = match word {
                    "listening" => Said::Listening(rest.to_owned()),
                    "step" => Said::Step { loss: rest.split(' ').nth(1).unwrap().parse().unwrap() },
                    "finished" => Said::Finished,
                    "error" => Said::Error(rest.to_owned()),
                    // The words of the test harness.
                    _ => continue,
                };
                // The test may have ended.
                let _ = sender.send(said);
            }
        });
        Process { child, stdin, said, steps: 0 }
    }

    /// The next thing that it says; `None` when it says nothing for so long.
    pub(super) fn next(&mut self, within: Duration) -> Option<Said> {
        match self.said.recv_timeout(within) {
            Ok(said) => {
                self.steps += usize::from(matches!(said, Said::Step { .. }));
                Some(said)
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Said::Gone),
        }
    }

    /// How it ends.
    pub(super) fn end(&mut self, within: Duration) -> Said {
        let until = Instant::now() + within;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            match self.next(left) {
                None | Some(Said::Step { .. } | Said::Listening(_)) => {}
                Some(end) => return end,
            }
        }
        panic!("it does not end");
    }

    /// The error that it ends with.
    pub(super) fn error(&mut self, within: Duration) -> String {
        match self.end(within) {
            Said::Error(text) => text,
            other => panic!("it ended with {other:?}"),
        }
    }

    /// Tells a trainer to end after its step.
    pub(super) fn stop(&mut self) {
        self.stdin = None;
    }

    pub(super) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
