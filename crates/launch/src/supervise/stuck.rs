//! Workers that do not end. Where trainers do not wait for each other, nobody fails when one of them
//! hangs: so the user is told what a server says of it, and it is ended after a while.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getsid};

use super::process::Running;
use super::screen::Level;
use super::system;
use super::watch::Watch;
use crate::job::{Process, Role};
use crate::rendezvous::Failure;

/// A worker that still computes, although its servers have lost it, has this many times as long; so has
/// one of another machine, whose launcher may be starting it again.
const BUSY: u32 = 10;
/// Which part of a core tells a process that computes from one that hangs.
const IDLE_SHARE: f64 = 0.02;
/// How long the last worker may run without a step before the user is told.
const ALONE: Duration = Duration::from_secs(60);
/// The longest time between two such messages.
const RARELY: Duration = Duration::from_secs(600);

/// What is known of workers that do not end.
#[derive(Default)]
pub(super) struct Stuck {
    /// Those that a server has lost, and that still run.
    lost: BTreeMap<(Role, usize), LostWorker>,
    /// When the user is next told of workers that are left alone, and how long after that again.
    last_worker_alarm: Option<(Instant, Duration)>,
}

/// A process that a server has lost.
struct LostWorker {
    /// Which server says so, and why: `server 0 has lost it (no heartbeat for 10.1 s)`.
    reported_by: String,
    since: Instant,
    /// Seconds of processor time that it had used then.
    used: f64,
}

impl Watch<'_> {
    /// When [`Watch::look_for_stuck`] has something to do next.
    pub(super) fn alarm(&self) -> Option<Instant> {
        let grace = self.options.lost_grace;
        let due = |worker: &LostWorker| {
            let waited = worker.since.elapsed();
            let grace = grace.filter(|grace| waited < *grace).or(grace.map(|all| all * BUSY))?;
            Some(worker.since + grace)
        };
        let lost = self.stuck.lost.values().filter_map(due).min();
        [lost, self.stuck.last_worker_alarm.map(|(next, _)| next)].into_iter().flatten().min()
    }

    /// Tells the user of workers that hang, and ends those that had their time.
    pub(super) fn look_for_stuck(&mut self) {
        self.note_lost();
        self.end_lost();
        self.warn_last_worker();
    }

    /// Compares what servers say now with what they said before.
    fn note_lost(&mut self) {
        let mut said: BTreeMap<(Role, usize), (String, Instant, Option<Pid>)> = BTreeMap::new();
        for member in &self.members {
            let Some(running) = &member.running else { continue };
            for (lost, at) in &running.status.lost {
                let says = format!("{} has lost it ({})", member.process.name(), lost.why);
                said.entry((lost.role(), lost.rank)).or_insert((says, *at, lost.pid()));
            }
        }
        self.stuck.lost.retain(|who, _| said.contains_key(who));
        for (who, (says, at, pid)) in said {
            let Some(process) = self.process(who) else { continue };
            let running = self.running(who);
            let is_here = process.node == self.job.node;
            // What was said of the process before it was started again is history.
            let is_history = |running: &Running| {
                at < running.started
                    || self.restarts > 0 && pid.is_some_and(|pid| !is_of(pid, running))
            };
            let is_over = is_here && running.is_none_or(is_history);
            if is_over {
                self.stuck.lost.remove(&who);
                continue;
            }
            if self.stuck.lost.contains_key(&who) {
                continue;
            }
            let (name, log) = (process.name(), self.log_of(process));
            let used = running.and_then(|running| system::processor_time(running.pid));
            let then = match self.options.lost_grace {
                Some(grace) => format!(
                    "; if it hangs, it is ended after {} s (`BIREME_LOST_TIMEOUT`)",
                    grace.as_secs_f64()
                ),
                None => String::new(),
            };
            self.say(
                Level::Warning,
                &format!(
                    "warning: {name} still runs, but {says}, and the others train without \
                     it{then}; its log: {log}"
                ),
            );
            let (since, used) = (Instant::now(), used.unwrap_or(0.0));
            self.stuck.lost.insert(who, LostWorker { reported_by: says, since, used });
        }
    }

    /// Ends those that were lost for too long: what follows is that of any process that fails.
    fn end_lost(&mut self) {
        let Some(grace) = self.options.lost_grace else { return };
        let mut over = Vec::new();
        for (who, worker) in &self.stuck.lost {
            let waited = worker.since.elapsed();
            if waited < grace {
                continue;
            }
            let used = self.running(*who).and_then(|running| system::processor_time(running.pid));
            let is_little = |used: f64| used - worker.used < IDLE_SHARE * waited.as_secs_f64();
            let is_idle = used.is_some_and(is_little);
            if is_idle || waited >= grace * BUSY {
                let doing = if is_idle { "used no CPU" } else { "not come back" };
                let why = format!(
                    "is stuck: {}, and has {doing} for {:.0} s (`BIREME_LOST_TIMEOUT`)",
                    worker.reported_by,
                    waited.as_secs_f64()
                );
                over.push((*who, why));
            }
        }
        for (who, why) in over {
            self.stuck.lost.remove(&who);
            let at = self.members.iter().position(|member| is(member.process, who));
            match at.and_then(|at| self.members[at].running.as_mut()) {
                Some(running) => {
                    running.stuck = Some(why);
                    running.signal(Signal::KILL);
                }
                None => self.tell_stuck(who, &why),
            }
        }
    }

    /// Tells the other machines of a worker of theirs that has to be ended.
    fn tell_stuck(&self, who: (Role, usize), why: &str) {
        let (Some(process), Some(remote)) = (self.process(who), &self.remote) else { return };
        let node = self.job.nodes.get(process.node).map_or("", String::as_str);
        remote.peers().local_failed(&Failure {
            process: Some(who),
            log: self.log_of(process),
            ..Failure::of_node(node, why)
        });
    }

    /// Tells of workers that go on without a step when all others have ended.
    fn warn_last_worker(&mut self) {
        let workers = self.members.iter().filter(|member| member.process.role == Role::Worker);
        let (on, off): (Vec<_>, Vec<_>) = workers.partition(|member| member.running.is_some());
        if on.is_empty() || off.is_empty() {
            self.stuck.last_worker_alarm = None;
            return;
        }
        let now = Instant::now();
        let Some((next, pause)) = self.stuck.last_worker_alarm else {
            self.stuck.last_worker_alarm = Some((now + ALONE, ALONE));
            return;
        };
        if now < next {
            return;
        }
        self.stuck.last_worker_alarm = Some((now + pause, (pause * 2).min(RARELY)));
        let mut texts = Vec::new();
        for member in on {
            let Some(running) = &member.running else { continue };
            let idle = now.saturating_duration_since(running.status.stepped(running.started));
            if idle >= ALONE {
                texts.push(format!(
                    "{} runs on after the others have ended, and has reported no step for {} s; \
                     its log: {}",
                    member.process.name(),
                    idle.as_secs(),
                    running.log.path.display()
                ));
            }
        }
        texts.iter().for_each(|text| self.say(Level::Warning, &format!("warning: {text}")));
    }

    fn process(&self, who: (Role, usize)) -> Option<&Process> {
        self.job.processes.iter().find(|process| is(process, who))
    }

    fn running(&self, who: (Role, usize)) -> Option<&Running> {
        let member = self.members.iter().find(|member| is(member.process, who));
        member.and_then(|member| member.running.as_ref())
    }

    fn log_of(&self, process: &Process) -> String {
        self.job.log_dir.join(process.log_file()).display().to_string()
    }
}

fn is(process: &Process, (role, rank): (Role, usize)) -> bool {
    process.role == role && process.rank == rank
}

/// Whether a process belongs to one of ours: each has a session of its own.
fn is_of(pid: Pid, running: &Running) -> bool {
    getsid(Some(pid)).is_ok_and(|session| session == running.pid)
}
