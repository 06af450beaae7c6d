//! Waiting for everything that can happen to a job at once.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Pid;

use super::Notice;
use super::guard::Guard;
use super::remote::Remote;
use super::screen::Level;
use super::stream::Stream;
use super::watch::Watch;
use crate::job::{Process, Role};
use crate::rendezvous::Event as News;

/// Time between two states of the live lines.
const DRAW: Duration = Duration::from_millis(500);
/// How often a log is looked at where the system does not tell of changes.
const LOOK: Duration = Duration::from_millis(100);

/// Something that happened.
pub(super) enum Event {
    /// This member has ended.
    Ended(usize),
    /// The user wants something.
    Signal(i32),
    /// Somebody else wants the end.
    Stopped,
    /// Another machine has news.
    Remote(Box<News>),
    /// A server has lost a worker, or it is back.
    Lost,
    /// The time is over.
    Time,
}

/// What can be ready.
enum Source {
    Death(usize),
    Reports(usize),
    Guard,
    Signals,
    Stop,
    Remote,
    Log,
}

impl Watch<'_> {
    /// Waits for the next thing that happens, until a time.
    pub(super) fn next(&mut self, until: Option<Instant>) -> Result<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let now = Instant::now();
            if until.is_some_and(|until| now >= until) {
                return Ok(Event::Time);
            }
            let draw = self.options.screen.is_live().then(|| self.drawn + DRAW);
            let blind = self.stream.as_ref().is_some_and(|stream| stream.changes().is_none());
            let look = blind.then(|| now + LOOK);
            let wake = [until, draw, look].into_iter().flatten().min();
            self.wait(wake.map(|wake| wake.saturating_duration_since(now)))?;
            if blind {
                self.pump();
            }
            if self.drawn.elapsed() >= DRAW {
                self.draw();
            }
        }
    }

    /// Waits until something is ready, and takes it in.
    fn wait(&mut self, timeout: Option<Duration>) -> Result<()> {
        let (mut sources, mut fds) = (Vec::new(), Vec::new());
        for (at, member) in self.members.iter().enumerate() {
            let Some(running) = &member.running else { continue };
            sources.push(Source::Death(at));
            fds.push(running.death());
            if running.status.is_open {
                sources.push(Source::Reports(at));
                fds.push(running.reports());
            }
        }
        if let Some(guard) = &self.guard {
            sources.push(Source::Guard);
            fds.push(guard.death());
        }
        if let Some(signals) = &self.signals {
            sources.push(Source::Signals);
            fds.push(signals.fd());
        }
        if let Some(stop) = self.options.stop.as_ref().filter(|_| !self.is_stopped) {
            sources.push(Source::Stop);
            fds.push(stop.fd());
        }
        if let Some(remote) = &self.remote {
            sources.push(Source::Remote);
            fds.push(remote.fd());
        }
        if let Some(changes) = self.stream.as_ref().and_then(Stream::changes) {
            sources.push(Source::Log);
            fds.push(changes);
        }
        let mut fds: Vec<PollFd<'_>> =
            fds.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for the processes"),
        }
        let is_ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let ready = sources.into_iter().zip(is_ready).filter(|(_, ready)| *ready);
        for source in ready.map(|(source, _)| source).collect::<Vec<_>>() {
            self.take(source)?;
        }
        Ok(())
    }

    fn take(&mut self, source: Source) -> Result<()> {
        match source {
            Source::Death(at) => self.take_death(at),
            Source::Reports(at) => {
                let member = &mut self.members[at];
                let Some(running) = &mut member.running else { return Ok(()) };
                let (before, lost) = (running.status.step, running.status.lost.clone());
                running.status.is_open = running.hear();
                if running.status.lost != lost {
                    self.events.push_back(Event::Lost);
                }
                if let (None, Some(_)) = (before, running.status.step) {
                    let Process { role, rank, .. } = *member.process;
                    self.notice(Notice::Stepped { role, rank });
                }
            }
            Source::Guard => {
                self.say(
                    Level::Warning,
                    "warning: the guard of this job was ended; here is another",
                );
                let guard = Guard::start(&self.mark())?;
                let sessions = self.sessions.iter().filter_map(|raw| Pid::from_raw(*raw));
                sessions.for_each(|session| guard.add(session));
                self.guard = Some(guard);
            }
            Source::Signals => {
                let signals = std::iter::from_fn(|| self.signals.as_mut()?.next());
                self.events.extend(signals.map(Event::Signal).collect::<Vec<_>>());
            }
            Source::Stop => {
                self.is_stopped = true;
                self.events.push_back(Event::Stopped);
            }
            Source::Remote => {
                let news = self.remote.as_mut().and_then(Remote::take);
                self.events.extend(news.map(|news| Event::Remote(Box::new(news))));
            }
            Source::Log => self.pump(),
        }
        Ok(())
    }

    fn take_death(&mut self, at: usize) {
        let member = &mut self.members[at];
        let Some(running) = &mut member.running else { return };
        let Some(ended) = running.ended() else { return };
        let (pid, process) = (running.pid, member.process);
        (member.ended, member.running) = (Some(ended), None);
        if process.role == Role::Worker
            && process.local_rank == 0
            && let Some(mut stream) = self.stream.take()
        {
            stream.finish(&self.options.screen);
        }
        // What it started may go on for now; its number is taken until that has ended too.
        if rustix::process::test_kill_process_group(pid).is_err() {
            self.forget(pid);
        }
        // What is said of it next must not stand above lines that still have it running.
        self.draw();
        self.events.push_back(Event::Ended(at));
    }
}
