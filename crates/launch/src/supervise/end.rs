//! How processes are ended: asked, given time, then forced, and with them all that they started.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use super::events::Event;
use super::screen::Level;
use super::system::{self, Entry};
use super::watch::Watch;
use crate::job::Role;

/// How long a process that was killed may take to vanish: the kernel frees its memory.
const VANISH: Duration = Duration::from_secs(10);
/// How long descendants may take to end after their process.
const LEFT_BEHIND: Duration = Duration::from_millis(500);

impl Watch<'_> {
    /// Ends the processes of these roles; says whether the user lost patience meanwhile.
    ///
    /// # Errors
    /// When the launcher cannot wait.
    pub(super) fn end(&mut self, roles: &[Role], signal: Signal, grace: Duration) -> Result<bool> {
        self.tell(roles, signal);
        let (mut until, mut is_forced) = (Instant::now() + grace, signal == Signal::KILL);
        let (mut impatient, mut news) = (false, Vec::new());
        while self.is_running(roles) {
            match self.next(Some(until))? {
                Event::Time if is_forced => {
                    self.say(Level::Error, "can't kill all process and exit");
                    break;
                }
                event @ (Event::Time | Event::Signal(_)) => {
                    impatient |= matches!(event, Event::Signal(_));
                    let left = self.running_names(roles);
                    self.say(Level::Warning, &format!("{left} did not end in time: killed"));
                    self.tell(roles, Signal::KILL);
                    (until, is_forced) = (Instant::now() + VANISH, true);
                }
                // For whoever comes next: it may end a restart.
                event @ Event::Remote(_) => news.push(event),
                Event::Ended(_) | Event::Stopped | Event::Lost => {}
            }
        }
        self.events.extend(news);
        Ok(impatient)
    }

    fn tell(&mut self, roles: &[Role], signal: Signal) {
        for member in self.members.iter_mut() {
            if let (true, Some(running)) = (roles.contains(&member.process.role), &member.running) {
                member.is_told = true;
                running.signal(signal);
                // One that was stopped hears nothing else.
                running.signal(Signal::CONT);
            }
        }
    }

    fn running_names(&self, roles: &[Role]) -> String {
        let own = self.members.iter().filter(|member| roles.contains(&member.process.role));
        let names: Vec<String> = own
            .filter(|member| member.running.is_some())
            .map(|member| member.process.name())
            .collect();
        names.join(", ")
    }

    /// Ends what processes have started and left behind, wherever it went.
    pub(super) fn clear_sessions(&mut self) {
        let mark = self.mark();
        for signal in [Signal::TERM, Signal::KILL] {
            let left = alive(&self.sessions, &mark);
            if left.is_empty() {
                break;
            }
            for entry in &left {
                rustix::process::kill_process(entry.pid, signal).ok();
                rustix::process::kill_process(entry.pid, Signal::CONT).ok();
            }
            wait_for(&left, Instant::now() + LEFT_BEHIND);
        }
        self.members.iter_mut().for_each(|member| {
            if let Some(mut running) = member.running.take() {
                running.ended();
            }
        });
        self.reap();
    }

    /// Takes leave of descendants that came to us when their parents ended.
    fn reap(&mut self) {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        for entry in system::processes() {
            if entry.is_dead && entry.parent == own && self.sessions.contains(&entry.session) {
                rustix::process::waitpid(Some(entry.pid), WaitOptions::NOHANG).ok();
            }
        }
        let sessions: Vec<Pid> =
            self.sessions.iter().filter_map(|raw| Pid::from_raw(*raw)).collect();
        for session in sessions {
            if rustix::process::test_kill_process_group(session).is_err() {
                self.forget(session);
            }
        }
    }
}

fn alive(sessions: &HashSet<i32>, mark: &str) -> Vec<Entry> {
    let mut left = system::members(sessions, mark);
    left.retain(|entry| !entry.is_dead);
    left
}

/// Waits until all of these have ended, or the time is over.
fn wait_for(left: &[Entry], until: Instant) {
    let opened =
        left.iter().map(|entry| rustix::process::pidfd_open(entry.pid, PidfdFlags::empty()));
    for death in opened.flatten() {
        let time = until.saturating_duration_since(Instant::now());
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        // Whoever is still there is killed next.
        rustix::event::poll(
            &mut [PollFd::from_borrowed_fd(death.as_fd(), PollFlags::IN)],
            Some(&time),
        )
        .ok();
    }
}
