//! The processes of one contender. They wait on their standard input between two commands, so they
//! do not disturb whoever is measured then, and end when it ends.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// The peers' programs; they speak as our own rank does.
const GLOO: &str = include_str!("../../../../../tools/peers/gloo_all_reduce.py");
const OPEN_MPI: &str = include_str!("../../../../../tools/peers/mpi_all_reduce.c");

/// How long a process may take to end by itself once there are no more commands.
const GRACE: Duration = Duration::from_secs(3);

/// Ranks that are measured together.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// All that were started; the first one answers.
    processes: Vec<Child>,
    answers: BufReader<ChildStdout>,
    /// Holds a program that was built for it.
    _folder: Option<Folder>,
}

/// What a command found.
pub(crate) struct Answer {
    /// Of one call.
    pub(crate) seconds: f64,
    /// Bytes of all ranks for one call; 0 where it is not told.
    pub(crate) sent: f64,
}

impl Contender {
    /// Ranks of our own.
    pub(crate) fn ours(ranks: usize, tcp: bool) -> Result<Contender> {
        let program = std::env::current_exe().context("this program has no path")?;
        let ports = free_ports(ranks)?;
        let endpoints: Vec<_> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let commands = (0..ranks).map(|rank| {
            let mut command = Command::new(&program);
            command.args(["bench", "collective-rank", "--rank", &rank.to_string()]);
            command.args(["--endpoints", &endpoints.join(",")]);
            if tcp {
                command.arg("--tcp");
            }
            command
        });
        Contender::start("bireme", commands, None)
    }

    /// Gloo through PyTorch; none where there is no Python with it.
    pub(crate) fn gloo(ranks: usize, folder: Option<&Path>) -> Result<Option<Contender>> {
        let usual = || std::env::home_dir().map(|home| home.join(".cache/bireme-peers"));
        let Some(folder) = folder.map(Path::to_path_buf).or_else(usual) else { return Ok(None) };
        let python = folder.join("torch/bin/python");
        if !python.is_file() {
            skipped(&format!("Gloo, as `{}` is not there (`--peers`)", python.display()));
            return Ok(None);
        }
        let port = free_ports(1)?[0].to_string();
        let commands = (0..ranks).map(|rank| {
            let mut command = Command::new(&python);
            command.args(["-c", GLOO]).stderr(Stdio::null());
            command.env("RANK", rank.to_string()).env("WORLD_SIZE", ranks.to_string());
            command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", &port);
            command.env("OMP_NUM_THREADS", "1");
            command
        });
        Contender::start("gloo", commands, None).map(Some)
    }

    /// Open MPI; none where it is not installed.
    pub(crate) fn open_mpi(ranks: usize) -> Result<Option<Contender>> {
        let folder = Folder::new()?;
        let (source, program) = (folder.0.join("all_reduce.c"), folder.0.join("all_reduce"));
        std::fs::write(&source, OPEN_MPI)?;
        let built = Command::new("mpicc").arg("-O2").arg("-o").arg(&program).arg(&source).status();
        if !built.is_ok_and(|status| status.success()) {
            skipped("Open MPI, as `mpicc` is not there or fails");
            return Ok(None);
        }
        let mut command = Command::new("mpirun");
        // Nobody else's ranks are bound to processors either.
        command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n"]);
        command.arg(ranks.to_string()).arg(&program).stderr(Stdio::null());
        Contender::start("openmpi", [command].into_iter(), Some(folder)).map(Some)
    }

    fn start(
        name: &'static str,
        commands: impl Iterator<Item = Command>,
        folder: Option<Folder>,
    ) -> Result<Contender> {
        let mut processes = Vec::new();
        for mut command in commands {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
            processes.push(child);
        }
        let first = processes.first_mut().and_then(|first| first.stdout.take());
        let answers = BufReader::new(first.context("a contender has a process")?);
        let mut contender = Contender { name, processes, answers, _folder: folder };
        ensure!(contender.answer()? == "ready", "{name} does not start as it should");
        Ok(contender)
    }

    /// Times this many calls of this size.
    pub(crate) fn measure(&mut self, bytes: usize, calls: u64) -> Result<Answer> {
        for process in &mut self.processes {
            let stdin = process.stdin.as_mut().context("its input is open")?;
            stdin
                .write_all(format!("{bytes} {calls}\n").as_bytes())
                .and_then(|()| stdin.flush())
                .with_context(|| format!("{} is gone", self.name))?;
        }
        let answer = self.answer()?;
        let (seconds, sent) = answer.split_once(' ').unwrap_or((&answer, "0"));
        Ok(Answer { seconds: seconds.parse()?, sent: sent.parse()? })
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            bail!("{} ended before it answered", self.name);
        }
        Ok(line.trim().to_string())
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        for process in &mut self.processes {
            drop(process.stdin.take());
        }
        let end = Instant::now() + GRACE;
        for process in &mut self.processes {
            while matches!(process.try_wait(), Ok(None)) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
            // Fails where it has ended.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// A folder that is removed when dropped.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new() -> Result<Folder> {
        let path = std::env::temp_dir().join(format!("bireme-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| format!("cannot make `{path:?}`"))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Says which peer is left out, and why.
fn skipped(what: &str) {
    // Whoever closed our stderr does not want to know.
    let _ = writeln!(std::io::stderr(), "skipped: {what}");
}

fn free_ports(count: usize) -> Result<Vec<u16>> {
    // All are held until all are known, so that they differ.
    let held = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect::<std::io::Result<Vec<_>>>()
        .context("there is no free port")?;
    held.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}
