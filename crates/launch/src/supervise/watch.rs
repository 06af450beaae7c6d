//! A job that runs, and what is done about the things that happen to it.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::events::Event;
use super::failure::{self, Failed};
use super::folder;
use super::guard::Guard;
use super::process::{Ended, Running, Surroundings, ending};
use super::remote::Remote;
use super::restart::{self, Restart};
use super::screen::Level;
use super::signals::Signals;
use super::stop::Stop;
use super::stream::Stream;
use super::stuck::Stuck;
use super::system::OutOfMemory;
use super::{Notice, Options, Outcome, live};
use crate::job::{Job, Mode, Process, Role};
use crate::rendezvous::Peers;

/// How long others may take to fail too, when the first to fail blames somebody else.
const HEARSAY: Duration = Duration::from_millis(700);
/// The same for servers that end by themselves when their workers are done.
const FAREWELL: Duration = Duration::from_millis(300);

/// The last line of a job that succeeded.
const COMPLETED: &str = "Local processes completed.";

/// A process of this machine.
pub(super) struct Member<'a> {
    pub(super) process: &'a Process,
    pub(super) running: Option<Running>,
    /// How it ended, once it has.
    pub(super) ended: Option<Ended>,
    /// Whether it was told to end.
    pub(super) is_told: bool,
}

impl Member<'_> {
    fn succeeded(&self) -> bool {
        self.ended.as_ref().is_some_and(|ended| ended.status.success())
    }

    /// Whether it ended otherwise, and not because it was told to.
    fn has_failed(&self) -> bool {
        !self.is_told && self.ended.as_ref().is_some_and(|ended| !ended.status.success())
    }
}

/// A job that is watched.
pub(super) struct Watch<'a> {
    pub(super) job: &'a Job,
    pub(super) options: &'a Options,
    pub(super) members: Vec<Member<'a>>,
    /// The folder of this run, known to all processes.
    pub(super) folder: PathBuf,
    /// Says that the folder is in use, as long as this process lives.
    _lock: File,
    /// Says the same of the folder of logs.
    _logs: Option<File>,
    pub(super) guard: Option<Guard>,
    pub(super) signals: Option<Signals>,
    pub(super) stream: Option<Stream>,
    /// Sessions in which something may still run.
    pub(super) sessions: HashSet<i32>,
    pub(super) events: VecDeque<Event>,
    pub(super) restarts: u32,
    /// The other machines, where there are any.
    pub(super) remote: Option<Remote>,
    out_of_memory: OutOfMemory,
    pub(super) stuck: Stuck,
    pub(super) drawn: Instant,
    pub(super) is_stopped: bool,
}

impl<'a> Watch<'a> {
    /// Prepares everything but the processes.
    ///
    /// # Errors
    /// When there is no folder for logs, or no guard.
    pub(super) fn new(
        job: &'a Job,
        options: &'a Options,
        peers: Option<Arc<dyn Peers>>,
    ) -> Result<Watch<'a>> {
        std::fs::create_dir_all(&job.log_dir).with_context(|| {
            format!("cannot make the folder of logs `{}`", job.log_dir.display())
        })?;
        let (folder, lock) = folder::make(&std::env::temp_dir())?;
        let logs = folder::use_logs(job);
        let member = |process| Member { process, running: None, ended: None, is_told: false };
        // Descendants whose parents are gone come to us instead of vanishing from sight.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).ok();
        let mut watch = Watch {
            job,
            options,
            members: job.local().map(member).collect(),
            folder,
            _lock: lock,
            _logs: logs,
            guard: None,
            signals: None,
            stream: None,
            sessions: HashSet::new(),
            events: VecDeque::new(),
            restarts: 0,
            remote: peers.map(Remote::listen).transpose()?,
            out_of_memory: OutOfMemory::count(),
            stuck: Stuck::default(),
            drawn: Instant::now(),
            is_stopped: false,
        };
        if options.signals {
            watch.signals = Some(Signals::take()?);
        }
        watch.guard = Some(Guard::start(&watch.mark())?);
        Ok(watch)
    }

    /// The variable by which all descendants are known.
    pub(super) fn mark(&self) -> String {
        use bireme_fleet::environment::variables::JOB_DIR;
        format!("{}={}", JOB_DIR.name, self.folder.display())
    }

    /// Runs the job to its end.
    pub(super) fn run(&mut self) -> Result<Outcome> {
        self.start_all()?;
        self.tell_done();
        loop {
            self.look_for_stuck();
            match self.next(self.alarm())? {
                Event::Ended(at) if self.succeeded(at) => {
                    let name = self.members[at].process.name();
                    self.say(Level::Debug, &format!("{name} is done"));
                    self.tell_done();
                    if self.is_done() {
                        return self.finish();
                    }
                }
                Event::Ended(_) => {
                    // Several may have failed at once, and only one of them was started again.
                    while self.has_failed() {
                        if let Some(outcome) = self.failed()? {
                            return Ok(outcome);
                        }
                    }
                }
                Event::Signal(signal) => return self.interrupted(signal),
                Event::Stopped => return self.stopped(),
                Event::Remote(news) => {
                    if let Some(outcome) = self.heard(*news)? {
                        return Ok(outcome);
                    }
                }
                Event::Lost | Event::Time => {}
            }
        }
    }

    pub(super) fn start_all(&mut self) -> Result<()> {
        for at in 0..self.members.len() {
            self.start(at)?;
        }
        self.draw();
        Ok(())
    }

    fn start(&mut self, at: usize) -> Result<()> {
        let process = self.members[at].process;
        let append =
            self.restarts > 0 || self.job.mode == Mode::Collective && !self.options.overwrite_logs;
        let (job, folder, restarts) = (self.job, self.folder.as_path(), self.restarts);
        let around = Surroundings { job, folder, restarts, append };
        let running = Running::start(process, &around)
            .with_context(|| format!("cannot start {}", process.name()))?;
        self.sessions.insert(running.pid.as_raw_nonzero().get());
        if let Some(guard) = &self.guard {
            guard.add(running.pid);
        }
        let (role, rank, pid) = (process.role, process.rank, running.pid.as_raw_nonzero().get());
        self.notice(Notice::Started { role, rank, pid });
        let said = format!("{} is process {pid}", process.name());
        self.say(Level::Debug, &said);
        if process.role == Role::Worker && process.local_rank == 0 {
            let prefix = self.options.screen.prefix(&process.name());
            self.stream = Some(Stream::open(&running.log, &prefix)?);
        }
        self.members[at] = Member { process, running: Some(running), ended: None, is_told: false };
        Ok(())
    }

    fn succeeded(&self, at: usize) -> bool {
        self.members[at].succeeded()
    }

    /// Whether those have ended for whom the others work.
    fn is_done(&self) -> bool {
        // Other machines may still need this one: they say when all are done.
        if self.remote.is_some() {
            return false;
        }
        let has = |role: Role| self.members.iter().any(|member| member.process.role == role);
        // Servers of other machines' workers are needed until they end by themselves.
        let until = match has(Role::Worker) && self.job.nodes.len() == 1 {
            true => Some(Role::Worker),
            false => None,
        };
        self.members
            .iter()
            .filter(|member| until.is_none_or(|role| member.process.role == role))
            // Not only ended: one that failed in the same moment is yet to be heard of.
            .all(Member::succeeded)
    }

    /// The end of a job that succeeded.
    pub(super) fn finish(&mut self) -> Result<Outcome> {
        if self.job.mode == Mode::Collective {
            self.say(Level::Info, COMPLETED);
            return Ok(Outcome { code: 0, failure: None });
        }
        let message = "all workers exit, going to finish parameter server and heter_worker.";
        self.say(Level::Info, message);
        // Those that were told by their workers are on their way.
        let until = Instant::now() + FAREWELL;
        while self.is_running(&[Role::Server, Role::HeterWorker]) {
            if let Event::Time = self.next(Some(until))? {
                break;
            }
        }
        for (role, message) in [
            (Role::HeterWorker, "all heter_worker are killed"),
            (Role::Server, "all parameter server are killed"),
        ] {
            if self.members.iter().any(|member| member.process.role == role) {
                self.end(&[role], Signal::TERM, self.options.grace)?;
                self.say(Level::Info, message);
            }
        }
        self.mention_servers();
        // "killed" above is Paddle's word for an orderly end; it shall not be the last.
        self.say(Level::Info, COMPLETED);
        Ok(Outcome { code: 0, failure: None })
    }

    /// Servers that failed after their workers had succeeded are worth a word.
    fn mention_servers(&self) {
        for member in self.members.iter().filter(|member| member.has_failed()) {
            let Some(ended) = &member.ended else { continue };
            let (name, how) = (member.process.name(), ending(ended.status));
            let log = ended.log.path.display();
            self.say(
                Level::Warning,
                &format!("warning: {name} {how} after all workers had succeeded; its log: {log}"),
            );
        }
    }

    /// Somebody failed: finds the cause, starts it again if that is wanted, or ends the job.
    fn failed(&mut self) -> Result<Option<Outcome>> {
        let until = Instant::now() + HEARSAY;
        let (mut failed, mut cause) = self.judge();
        let elsewhere = self.remote.is_some();
        while failed.iter().all(Failed::is_hearsay) && (elsewhere || self.is_running(&ALL)) {
            match self.next(Some(until))? {
                Event::Time => break,
                Event::Signal(signal) => return self.interrupted(signal).map(Some),
                Event::Remote(news) => return self.heard(*news),
                _ => (failed, cause) = self.judge(),
            }
        }
        let oom = OutOfMemory::count().has_grown_since(&self.out_of_memory);
        let report = failure::report(self.job, &failed, cause, oom);
        let Failed { process, ended, .. } = &failed[cause];
        let left = self.job.max_restart.saturating_sub(self.restarts);
        let (code, failure) = (ended.code(), failed[cause].failure());
        self.pump();
        let restart = restart::decide(self.job, process, ended.mode.as_deref());
        let is_alone = left > 0 && restart == Restart::Alone;
        if elsewhere && !is_alone {
            return self.ask_peers(&failed[cause], &report);
        }
        self.say(Level::Error, &report);
        if left > 0 {
            let at = self.position(process);
            return self.restart(restart, at, left);
        } else if self.job.max_restart > 0 {
            let most = self.job.max_restart;
            self.say(Level::Error, &format!("not started again: all {most} restarts are used up"));
        }
        self.end(&ALL, Signal::TERM, self.options.grace)?;
        Ok(Some(Outcome { code, failure: Some(failure) }))
    }

    fn has_failed(&self) -> bool {
        self.members.iter().any(Member::has_failed)
    }

    /// Those that failed so far, and which of them is the cause.
    fn judge(&self) -> (Vec<Failed<'a>>, usize) {
        let failed = self.members.iter().filter(|member| member.has_failed());
        let look = |member: &Member<'a>| Some(Failed::new(member.process, member.ended.as_ref()?));
        let mut all: Vec<Failed<'a>> = failed.filter_map(look).collect();
        let cause = failure::cause(&mut all);
        (all, cause)
    }

    fn position(&self, process: &Process) -> usize {
        let same = |member: &Member<'_>| std::ptr::eq(member.process, process);
        self.members.iter().position(same).unwrap_or(0)
    }

    fn restart(&mut self, what: Restart, at: usize, left: u32) -> Result<Option<Outcome>> {
        let subject = match what {
            Restart::Alone => format!("{} is", self.members[at].process.name()),
            Restart::All => "all processes are".to_owned(),
        };
        let left = left - 1;
        self.say(Level::Warning, &format!("{subject} started again; restarts left: {left}"));
        if what == Restart::All {
            if self.end(&ALL, Signal::TERM, self.options.grace)? {
                return self.interrupted(libc::SIGINT).map(Some);
            }
            self.clear_sessions();
            self.events.retain(|event| matches!(event, Event::Signal(_) | Event::Stopped));
            self.choose_checkpoint();
        }
        self.restarts += 1;
        self.out_of_memory = OutOfMemory::count();
        match what {
            Restart::Alone => self.start(at)?,
            Restart::All => self.start_all()?,
        }
        Ok(None)
    }

    /// The user asked for the end.
    pub(super) fn interrupted(&mut self, signal: i32) -> Result<Outcome> {
        self.say(Level::Info, &format!("Terminating with signal {signal}"));
        self.tell_interrupted(signal);
        let passed_on = if signal == libc::SIGINT { Signal::INT } else { Signal::TERM };
        let code = u8::try_from(128 + signal).unwrap_or(130);
        // Workers that save something when they are stopped need their servers for it.
        let workers = [Role::Worker, Role::HeterWorker];
        if self.end(&workers, passed_on, self.options.patience)? {
            self.end(&ALL, Signal::KILL, self.options.grace)?;
        } else {
            self.end(&ALL, Signal::TERM, self.options.grace)?;
        }
        Ok(Outcome { code, failure: None })
    }

    /// Somebody else asked for the end.
    fn stopped(&mut self) -> Result<Outcome> {
        let order = self.options.stop.as_ref().and_then(Stop::order);
        let (code, reason) = order.unwrap_or((1, String::new()));
        let level = if code == 0 { Level::Info } else { Level::Error };
        if !reason.is_empty() {
            self.say(level, &reason);
        }
        self.end(&ALL, Signal::TERM, self.options.grace)?;
        Ok(Outcome { code, failure: None })
    }

    pub(super) fn is_running(&self, roles: &[Role]) -> bool {
        let runs = |member: &Member<'_>| member.running.is_some();
        self.members.iter().any(|member| roles.contains(&member.process.role) && runs(member))
    }

    pub(super) fn notice(&self, notice: Notice) {
        if let Some(notices) = &self.options.notices {
            // Who does not listen any more has seen enough.
            notices.send(notice).ok();
        }
    }

    pub(super) fn say(&self, level: Level, text: &str) {
        self.options.screen.say(level, text);
    }

    /// A session in which nobody is left.
    pub(super) fn forget(&mut self, session: rustix::process::Pid) {
        self.sessions.remove(&session.as_raw_nonzero().get());
        if let Some(guard) = &self.guard {
            guard.remove(session);
        }
    }

    pub(super) fn pump(&mut self) {
        if let Some(stream) = &mut self.stream {
            stream.pump(&self.options.screen);
        }
    }

    pub(super) fn draw(&mut self) {
        self.drawn = Instant::now();
        if self.options.screen.is_live() {
            self.options.screen.show(&live::lines(&self.members, self.restarts));
        }
    }

    /// Leaves nothing behind.
    pub(super) fn clear(&mut self) {
        self.options.screen.clear();
        self.clear_sessions();
        if let Some(mut stream) = self.stream.take() {
            stream.finish(&self.options.screen);
        }
        std::fs::remove_dir_all(&self.folder).ok();
        rustix::process::set_child_subreaper(None).ok();
    }
}

/// Every role.
pub(super) const ALL: [Role; 3] = [Role::Server, Role::Worker, Role::HeterWorker];
