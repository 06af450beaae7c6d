//! The wait for the other nodes: whom for, how long still, and what to say meanwhile and at its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use anyhow::{Error, anyhow};
use bireme_comm::{Interrupt, Reminder};

use super::member::{Config, Expected, host_of};

/// What is known while a node waits.
pub(super) struct Waiting {
    expected: Expected,
    endpoint: String,
    start: Instant,
    timeout: Duration,
    interrupt: Option<Interrupt>,
    say: Arc<dyn Fn(&str) + Send + Sync>,
    state: Mutex<State>,
    connected: AtomicBool,
}

struct State {
    /// Nodes that are there, as far as this node knows; none while it has not reached the host.
    present: Vec<String>,
    reached: bool,
    /// A job whose nodes start together says nothing.
    reminder: Reminder,
}

impl Waiting {
    pub(super) fn new(config: &Config, endpoint: &str) -> Waiting {
        let start = Instant::now();
        let state = State { present: Vec::new(), reached: false, reminder: Reminder::new(start) };
        Waiting {
            expected: config.expected.clone(),
            endpoint: endpoint.to_owned(),
            start,
            timeout: config.start_timeout,
            interrupt: config.interrupt.clone(),
            say: config.say.clone(),
            state: Mutex::new(state),
            connected: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    pub(super) fn joined(&self, node: String) {
        let mut state = self.state();
        state.reached = true;
        state.present.push(node);
    }

    pub(super) fn left(&self, node: &str) {
        let mut state = self.state();
        if let Some(index) = state.present.iter().position(|other| other == node) {
            state.present.remove(index);
        }
    }

    pub(super) fn say(&self, line: &str) {
        (self.say)(line);
    }

    /// The host is reached: from now on only the caller asks whether to wait longer.
    pub(super) fn is_connected(&self) {
        self.connected.store(true, Ordering::Release);
    }

    /// Whether to try no longer to reach the host.
    pub(super) fn ends_connecting(&self) -> bool {
        !self.connected.load(Ordering::Acquire) && self.is_over()
    }

    /// Whether to wait no longer; says from time to time whom for.
    pub(super) fn is_over(&self) -> bool {
        if self.is_late() || self.is_interrupted() {
            return true;
        }
        let mut state = self.state();
        if state.reminder.is_due() {
            let line = self.line(&state, self.start.elapsed());
            drop(state);
            self.say(&line);
        }
        false
    }

    /// Whether the time is up.
    pub(super) fn is_late(&self) -> bool {
        let enough = match &self.expected {
            // The host starts the job when no more come.
            Expected::Counted { least, .. } => self.state().present.len() >= *least,
            Expected::Listed(_) => false,
        };
        self.start.elapsed() >= self.timeout && !enough
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(Interrupt::is_wanted)
    }

    fn line(&self, state: &State, elapsed: Duration) -> String {
        let time =
            format!("({:.0} s of {:.0} s)", elapsed.as_secs_f64(), self.timeout.as_secs_f64());
        if !state.reached {
            let host = host_of(&self.endpoint);
            return format!(
                "waiting for node {host}, where the nodes of this job meet, at {} {time}",
                self.endpoint
            );
        }
        let present = state.present.join(", ");
        match &self.expected {
            Expected::Listed(nodes) => {
                let missing = self.missing(state);
                let names = missing.join(", ");
                format!("waiting for {} of {} nodes: {names} {time}", missing.len(), nodes.len())
            }
            Expected::Counted { least, most, patience, .. } if state.present.len() >= *least => {
                format!(
                    "{} nodes are here ({present}); up to {most} may join within {:.0} s after the \
                     last one",
                    state.present.len(),
                    patience.as_secs_f64()
                )
            }
            Expected::Counted { least, most, .. } => {
                let of = if least == most { format!("{most}") } else { format!("{least}:{most}") };
                format!(
                    "waiting for {} of {of} nodes; here so far: {present} {time}",
                    least.saturating_sub(state.present.len())
                )
            }
        }
    }

    fn missing(&self, state: &State) -> Vec<String> {
        match &self.expected {
            Expected::Listed(nodes) => {
                nodes.iter().filter(|node| !state.present.contains(node)).cloned().collect()
            }
            Expected::Counted { .. } => Vec::new(),
        }
    }

    /// Why the wait ended without a job.
    pub(super) fn problem(&self) -> Error {
        if self.is_interrupted() && !self.is_late() {
            return anyhow!("interrupted while waiting for other nodes");
        }
        let (state, endpoint) = (self.state(), &self.endpoint);
        let seconds = self.timeout.as_secs_f64();
        if !state.reached {
            return anyhow!(
                "node {} did not open the rendezvous at {endpoint} within {seconds:.0} s: start \
                 the same command there, or check that this port can be reached from here \
                 (`BIREME_START_TIMEOUT` sets the wait)",
                host_of(endpoint)
            );
        }
        let who = match &self.expected {
            Expected::Listed(nodes) => {
                let missing = self.missing(&state);
                let names = missing.join(", ");
                format!("{} of {} nodes did not come: {names}", missing.len(), nodes.len())
            }
            Expected::Counted { least, .. } => format!(
                "only {} of {least} nodes came: {}",
                state.present.len(),
                state.present.join(", ")
            ),
        };
        anyhow!(
            "{who} (within {seconds:.0} s, which `BIREME_START_TIMEOUT` sets): start the same \
             command on the others, or check that {endpoint} can be reached from there"
        )
    }
}
