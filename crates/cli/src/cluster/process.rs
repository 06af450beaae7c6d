//! One process of a local cluster, as the one that started it sees it.
//!
//! A member lives no longer than we do: the end of its stdin, which only we hold, ends it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::message::{self, Order, Report};
use crate::terminal::printable;

/// Lines of a member's log that are shown when it fails.
const TAIL: usize = 20;
/// How long a member may take to end by itself once it is told to.
const GRACE: Duration = Duration::from_secs(3);

/// Who a member is: `trainer 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    Server(usize),
    Trainer(usize),
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Who::Server(rank) => write!(f, "server {rank}"),
            Who::Trainer(rank) => write!(f, "trainer {rank}"),
        }
    }
}

/// Something that happened to a member.
#[derive(Debug)]
pub(crate) enum Event {
    Said(Report),
    /// It closed its stdout: it has ended, or is about to.
    Closed,
}

/// How to start members.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    /// What starts this program again.
    pub(crate) command: Vec<OsString>,
    /// Arguments for all members.
    pub(crate) arguments: Vec<OsString>,
    /// Variables that members must not inherit.
    pub(crate) unset: Vec<&'static str>,
}

/// A process that we started.
pub(crate) struct Member {
    pub(crate) who: Who,
    child: Child,
    stdin: Option<ChildStdin>,
    tail: Arc<Mutex<VecDeque<String>>>,
    readers: Vec<JoinHandle<()>>,
}

impl Member {
    /// Starts a member; what it says arrives at `events`.
    ///
    /// # Errors
    /// When the system refuses the process or a thread.
    pub(crate) fn start(
        who: Who,
        recipe: &Recipe,
        variables: &[(&str, String)],
        events: &Sender<(Who, Event)>,
    ) -> Result<Member> {
        let (program, arguments) = recipe.command.split_first().context("no command to start")?;
        let mut command = Command::new(program);
        command.args(arguments).args(&recipe.arguments);
        for name in &recipe.unset {
            command.env_remove(name);
        }
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {who}"))?;
        let stdin = child.stdin.take();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        // From here on the member is dropped, and with it the process ended, if something fails.
        let mut member = Member { who, child, stdin, tail, readers: Vec::new() };
        let (lines, sender) = (Arc::clone(&member.tail), events.clone());
        let stdout = stdout.context("the member's stdout was piped")?;
        member.read(move || {
            read_lines(stdout, |line| match serde_json::from_str(line) {
                // Nobody listens any more when the cluster is being ended.
                Ok(report) => drop(sender.send((who, Event::Said(report)))),
                Err(_) => keep(&lines, line),
            });
            sender.send((who, Event::Closed)).ok();
        })?;
        let lines = Arc::clone(&member.tail);
        let stderr = stderr.context("the member's stderr was piped")?;
        member.read(move || read_lines(stderr, |line| keep(&lines, line)))?;
        Ok(member)
    }

    fn read(&mut self, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new().name(self.who.to_string()).spawn(work);
        self.readers.push(thread.context("cannot start a thread")?);
        Ok(())
    }

    /// Tells it something; one that has ended does not hear it.
    pub(crate) fn order(&mut self, order: &Order) {
        if let Some(stdin) = &mut self.stdin {
            message::write(stdin, order).ok();
        }
    }

    /// Waits for its end, and ends it by force if that takes too long.
    pub(crate) fn finish(&mut self) -> std::io::Result<ExitStatus> {
        self.stdin = None;
        let deadline = Instant::now() + GRACE;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() >= deadline {
                // It may just have ended.
                self.child.kill().ok();
                break self.child.wait()?;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        for reader in self.readers.drain(..) {
            reader.join().ok();
        }
        Ok(status)
    }

    /// Lets it know that we are going, without waiting.
    pub(crate) fn release(&mut self) {
        self.stdin = None;
    }

    /// The last lines that it wrote, each indented.
    pub(crate) fn tail(&self) -> String {
        let lines = self.tail.lock().expect("keeping lines does not panic");
        lines.iter().map(|line| format!("\n  {}", printable(line))).collect()
    }
}

impl Drop for Member {
    /// Leaves nothing running.
    fn drop(&mut self) {
        // The process is gone already, or the system will not let us see it.
        self.finish().ok();
    }
}

fn read_lines(from: impl Read, mut each: impl FnMut(&str)) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    // A pipe that cannot be read has ended for us.
    while from.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
        each(String::from_utf8_lossy(&line).trim_end());
        line.clear();
    }
}

fn keep(lines: &Mutex<VecDeque<String>>, line: &str) {
    let mut lines = lines.lock().expect("keeping lines does not panic");
    if lines.len() == TAIL {
        lines.pop_front();
    }
    lines.push_back(line.to_owned());
}

/// How a process ended, in words.
pub(crate) fn ending(status: ExitStatus) -> String {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        if let Some(signal) = status.signal() {
            let names = [
                (1, "SIGHUP"),
                (2, "SIGINT"),
                (3, "SIGQUIT"),
                (4, "SIGILL"),
                (6, "SIGABRT"),
                (7, "SIGBUS"),
                (8, "SIGFPE"),
                (9, "SIGKILL"),
                (11, "SIGSEGV"),
                (13, "SIGPIPE"),
                (15, "SIGTERM"),
            ];
            return match names.iter().find(|(number, _)| *number == signal) {
                Some((_, name)) => format!("was ended by signal {signal} ({name})"),
                None => format!("was ended by signal {signal}"),
            };
        }
    }
    match status.code() {
        Some(code) => format!("ended with exit code {code}"),
        None => "ended without an exit code".to_owned(),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn shell(script: &str) -> Recipe {
        let command = ["sh", "-c", script].map(OsString::from).to_vec();
        Recipe { command, arguments: Vec::new(), unset: vec!["PADDLE_TRAINER_ID"] }
    }

    #[test]
    fn reports_and_the_log_are_told_apart() {
        let (sender, events) = channel();
        let script = "echo '\"ready\"'; echo words; echo \"$RANK$PADDLE_TRAINER_ID\" >&2; exit 3";
        let variables = [("RANK", "one".to_owned())];
        let mut member =
            Member::start(Who::Trainer(1), &shell(script), &variables, &sender).unwrap();
        let wait = Duration::from_secs(30);
        let (who, first) = events.recv_timeout(wait).unwrap();
        assert!(who == Who::Trainer(1) && matches!(first, Event::Said(Report::Ready)));
        assert!(matches!(events.recv_timeout(wait).unwrap().1, Event::Closed));
        assert_eq!(ending(member.finish().unwrap()), "ended with exit code 3");
        let tail = member.tail();
        assert!(tail.contains("words") && tail.contains("one"), "{tail}");
    }

    #[test]
    fn a_member_ends_with_its_stdin() {
        let (sender, _events) = channel();
        let script = "read line; echo gone >&2; exit 7";
        let mut member = Member::start(Who::Server(0), &shell(script), &[], &sender).unwrap();
        assert_eq!(ending(member.finish().unwrap()), "ended with exit code 7");
        let mut stubborn =
            Member::start(Who::Server(0), &shell("exec sleep 600"), &[], &sender).unwrap();
        assert_eq!(ending(stubborn.finish().unwrap()), "was ended by signal 9 (SIGKILL)");
    }
}
