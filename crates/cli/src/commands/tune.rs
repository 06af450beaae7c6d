//! `bireme tune -m config.yaml`: trains a configuration with many values of some keys, and says which
//! are the best. Each trial is a process of its own.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bireme_engine::io::write_file;
use bireme_rec::Config;
use bireme_rec::tune::{self, Ended, Records, Search, Space};

use super::{Host, Outcome, up_to, yaml};
use crate::interrupt::Interrupt;
use crate::table::{Align, Table};
use crate::terminal::say;

/// Trials, and those that run beside each other: more than this no machine has cores for.
const MAX_TRIALS: usize = 100_000;
const MAX_PARALLEL: usize = 256;
/// Between two looks at the trials that run.
const LOOK: Duration = Duration::from_millis(50);
/// How long trials that are asked to stop may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// What a trial has written about itself.
const LOG: &str = "log.txt";
/// The page in the folder of a search.
const PAGE: &str = "tune.html";

/// Try many values of hyper parameters, and show which are the best
///
/// Draws the values of each trial from the ranges under `tune` in the YAML file, as `tune:
/// {hyper_parameters.optimizer.learning_rate: {log: [1e-4, 1e-2]}}`, trains it in a process of its own,
/// and compares trials by their best validation. Ctrl-C ends with what is done; the same command goes
/// on where it was stopped, and with more `--trials` adds some.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The YAML file
    #[arg(long = "config_yaml", alias = "config-yaml", short = 'm', value_name = "FILE")]
    config: PathBuf,
    #[command(flatten)]
    source: yaml::Source,
    /// Trials, those of earlier calls included
    #[arg(long, value_name = "N", default_value = "20", value_parser = up_to::<MAX_TRIALS>)]
    trials: usize,
    /// Trials that run at a time
    #[arg(long, value_name = "N", default_value = "1", value_parser = up_to::<MAX_PARALLEL>)]
    parallel: usize,
    /// Decides the values of all trials
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Folder of the trials [default: `tune` in `runner.model_save_path`]
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

/// A trial that runs.
struct Running {
    trial: u64,
    values: Vec<(String, String)>,
    folder: PathBuf,
    child: Child,
    started: Instant,
}

/// A search.
struct Tuning<'a> {
    args: &'a Args,
    command: Vec<std::ffi::OsString>,
    space: Space,
    search: Search,
    more_is_better: bool,
    folder: PathBuf,
    records: Records,
    /// How many trials there are to be.
    trials: u64,
}

/// Runs the command.
///
/// # Errors
/// When there is nothing to search, every trial fails, or files cannot be written.
pub(crate) fn run(args: &Args, host: &Host) -> Result<Outcome> {
    let config = Config::load(&args.config, &args.source.options)?;
    let space = Space::of(&config)?;
    tune::check(&config)?;
    let (metric, more_is_better) = tune::metric(&config)?;
    let ranges: BTreeMap<String, String> = config
        .values()
        .filter(|(key, _)| key.starts_with("tune."))
        .map(|(key, node)| (key.to_owned(), node.value.to_string()))
        .collect();
    let search = Search { seed: args.seed, metric, ranges };
    let models = PathBuf::from(config.text("runner.model_save_path"));
    let folder = args.output.clone().unwrap_or_else(|| models.join("tune"));
    let records = Records::open(&folder, &search)?;
    let most = space.most().unwrap_or(u64::MAX);
    let trials = most.min(args.trials as u64);
    if trials < args.trials as u64 {
        say(&format!("there are {most} combinations: each is tried once"));
    }
    let command = host.command()?;
    let mut tuning =
        Tuning { args, command, space, search, more_is_better, folder, records, trials };
    let interrupt = Interrupt::install()?;
    let is_stopped = tuning.try_all(interrupt)?;
    tuning.show()?;
    if is_stopped {
        say("interrupted; the same command goes on with the trials that are left");
        return Ok(Outcome::Interrupted);
    }
    ensure!(
        tuning.records.ended.iter().any(|ended| ended.best.is_some()),
        "every trial failed: see `{}` in the folders below {}",
        LOG,
        tuning.folder.display()
    );
    Ok(Outcome::Done)
}

impl Tuning<'_> {
    /// Runs the trials that are left; whether somebody stopped it.
    fn try_all(&mut self, interrupt: Interrupt) -> Result<bool> {
        let left = (0..self.trials).filter(|trial| !self.records.has(*trial));
        let mut left = left.collect::<Vec<_>>().into_iter();
        if left.len() < self.trials as usize {
            say(&format!("{} of {} trials are done", self.records.ended.len(), self.trials));
        }
        let mut running: Vec<Running> = Vec::new();
        loop {
            if interrupt.is_raised() {
                stop(running);
                return Ok(true);
            }
            while running.len() < self.args.parallel
                && let Some(trial) = left.next()
            {
                match self.start(trial) {
                    Ok(started) => running.push(started),
                    Err(error) => {
                        stop(running);
                        return Err(error);
                    }
                }
            }
            if running.is_empty() {
                return Ok(false);
            }
            let mut at = 0;
            while at < running.len() {
                match running[at].child.try_wait().context("cannot wait for a trial")? {
                    // It was told to stop too: what it has is not the trial.
                    Some(_) if interrupt.is_raised() => at += 1,
                    Some(status) => {
                        let ended = running.remove(at);
                        self.end(ended, status.success())?;
                    }
                    None => at += 1,
                }
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Starts a trial in an empty folder.
    fn start(&self, trial: u64) -> Result<Running> {
        let folder = self.folder.join(format!("{trial:04}"));
        if folder.exists() {
            // Left by one that was stopped.
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let path = folder.join(LOG);
        let log = File::create(&path).with_context(|| path.display().to_string())?;
        let values = self.space.trial(self.args.seed, trial);
        let mut options = self.args.source.options.clone();
        // The best epoch is kept all the same.
        options.push("runner.save_epochs=0".to_owned());
        options.push(format!("runner.model_save_path={}", folder.display()));
        options.push(format!("runner.run_path={}", folder.join("run").display()));
        options.extend(values.iter().map(|(key, value)| format!("{key}={value}")));
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).arg("train").arg("-m").arg(&self.args.config);
        if let Some(lines) = self.args.source.skip_bad_lines {
            command.arg(format!("--skip_bad_lines={lines}"));
        }
        command.arg("-o").args(&options);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        end_with_us(&mut command);
        let child = command.spawn().context("cannot start a trial")?;
        Ok(Running { trial, values, folder, child, started: Instant::now() })
    }

    /// Notes what a trial has brought.
    fn end(&mut self, running: Running, is_done: bool) -> Result<()> {
        let Running { trial, values, folder, started, .. } = running;
        let (seconds, run) = (started.elapsed().as_secs_f64(), folder.join("run"));
        let words = in_words(&values);
        let of = (trial, values);
        let metric = (self.search.metric.as_str(), self.more_is_better);
        let ended = match is_done {
            true => Ended::read(&run, of.clone(), metric, seconds)
                .unwrap_or_else(|error| Ended::failed(of, error.to_string(), seconds)),
            false => Ended::failed(of, last_line(&folder.join(LOG)), seconds),
        };
        let (number, trials) = (self.records.ended.len() + 1, self.trials);
        match ended.best {
            Some(best) => say(&format!(
                "trial {trial} ({number} of {trials}): {} {best:.6} after epoch {}, {seconds:.1} s: \
                 {words}",
                metric.0, ended.epoch
            )),
            None => say(&format!("trial {trial} failed: {} ({words})", ended.problem)),
        }
        self.records.add(ended)?;
        self.write_page()
    }

    fn write_page(&self) -> Result<()> {
        let page = tune::page(&self.search, &self.records, self.more_is_better);
        Ok(write_file(self.folder.join(PAGE), |out| out.write_all(page.as_bytes()))?)
    }

    /// Prints all trials, the best first.
    fn show(&self) -> Result<()> {
        let sorted = self.records.sorted(self.more_is_better);
        if sorted.is_empty() {
            return Ok(());
        }
        let keys: Vec<&str> = self.space.keys().collect();
        let mut columns = vec![
            ("trial", Align::Right),
            (&*self.search.metric, Align::Right),
            ("epoch", Align::Right),
        ];
        columns.extend(keys.iter().map(|key| (short(key), Align::Right)));
        let mut table = Table::new(&columns);
        for ended in sorted {
            let value = ended.best.map_or("failed".to_owned(), |best| format!("{best:.6}"));
            let mut cells = vec![ended.trial.to_string(), value, ended.epoch.to_string()];
            cells.extend(ended.values.iter().map(|(_, value)| value.clone()));
            table.cells(cells);
        }
        let mut out = std::io::stdout().lock();
        write!(out, "{table}")?;
        writeln!(out, "page   {}", self.folder.join(PAGE).display())?;
        if let Some(best) = self.records.sorted(self.more_is_better).first()
            && best.best.is_some()
        {
            let options: Vec<String> =
                best.values.iter().map(|(key, value)| format!("'{key}={value}'")).collect();
            writeln!(out, "model  {}", self.folder.join(format!("{:04}", best.trial)).display())?;
            writeln!(out, "best   -o {}", options.join(" "))?;
        }
        Ok(())
    }
}

/// Has a process end when this one is killed, where the system can do that.
fn end_with_us(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::process::CommandExt;
        let ask = || {
            #[expect(unsafe_code, reason = "only libc knows `prctl`")]
            // SAFETY: it takes two numbers, and may be called between `fork` and `exec`.
            let asked = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
            if asked == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        };
        #[expect(unsafe_code, reason = "the child itself must ask")]
        // SAFETY: the closure makes one system call and takes no lock.
        unsafe {
            command.pre_exec(ask);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

/// The last part of a key.
fn short(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

fn in_words(values: &[(String, String)]) -> String {
    let words: Vec<String> =
        values.iter().map(|(key, value)| format!("{}={value}", short(key))).collect();
    words.join(", ")
}

/// What a process said last.
fn last_line(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("it said nothing").to_owned()
}

/// Asks processes to stop, and ends those that take too long.
fn stop(running: Vec<Running>) {
    let asked = Instant::now();
    for running in &running {
        if let Ok(id) = libc::pid_t::try_from(running.child.id()) {
            #[expect(unsafe_code, reason = "only libc knows `kill`")]
            // SAFETY: it takes two numbers; the process is our child and was not waited for.
            unsafe {
                libc::kill(id, libc::SIGTERM);
            }
        }
    }
    for mut running in running {
        while asked.elapsed() < PATIENCE && matches!(running.child.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK);
        }
        // It has ended, or does now.
        running.child.kill().ok();
        running.child.wait().ok();
    }
}
