//! What the user sees: messages on stderr, worker 0's lines on stdout, live lines between them.
//!
//! Nothing here fails: that nobody listens is no reason to stop a job.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::bottom::{Bottom, width};

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Why the job failed.
    Error,
    /// What is unusual.
    Warning,
    /// Starts and ends.
    Info,
    /// Every process.
    Debug,
}

impl Level {
    /// The level of a name or a number as Python's `logging` has them.
    pub fn parse(text: &str) -> Option<Level> {
        match text.trim().to_ascii_uppercase().as_str() {
            "CRITICAL" | "FATAL" | "ERROR" | "50" | "40" => Some(Level::Error),
            "WARNING" | "WARN" | "30" => Some(Level::Warning),
            "INFO" | "20" => Some(Level::Info),
            "DEBUG" | "NOTSET" | "10" | "0" => Some(Level::Debug),
            _ => None,
        }
    }
}

/// Where output goes.
#[derive(Clone, Debug)]
pub struct Screen {
    level: Level,
    target: Target,
    /// Whether worker 0's lines are messages of this process.
    one_display: bool,
}

#[derive(Clone, Debug)]
enum Target {
    /// Stdout and stderr, with live lines on a terminal.
    Standard(Option<Arc<Mutex<Bottom>>>),
    /// Memory: what went to stdout, what went to stderr.
    Captured(Arc<Mutex<(String, String)>>),
}

impl Screen {
    /// Stdout and stderr of this process.
    pub fn standard(level: Level) -> Screen {
        // What kind of terminal it is says the terminal, not a setting of the job.
        let is_plain = std::env::var_os("TERM").is_none_or(|kind| kind == "dumb");
        let live = (io::stderr().is_terminal() && !is_plain).then(Arc::default);
        Screen { level, target: Target::Standard(live), one_display: false }
    }

    /// Memory, to look at afterwards.
    pub fn captured(level: Level) -> Screen {
        Screen { level, target: Target::Captured(Arc::default()), one_display: false }
    }

    /// The same, with worker 0's lines on stderr and without its name.
    pub fn one_display(self) -> Screen {
        Screen { one_display: true, ..self }
    }

    /// What stands before the lines of a process.
    pub(super) fn prefix(&self, name: &str) -> String {
        if self.one_display { String::new() } else { format!("[{name}] ") }
    }

    /// What was captured for stdout and for stderr.
    pub fn seen(&self) -> (String, String) {
        match &self.target {
            Target::Standard(_) => Default::default(),
            Target::Captured(seen) => seen.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Whether there are live lines.
    pub(super) fn is_live(&self) -> bool {
        matches!(self.target, Target::Standard(Some(_)))
    }

    /// Says something of this importance.
    pub(super) fn say(&self, level: Level, text: &str) {
        if level > self.level {
            return;
        }
        let text: String = text.split('\n').map(|line| printable(line) + "\n").collect();
        match &self.target {
            Target::Standard(None) => write(&text),
            Target::Standard(Some(live)) => {
                let (mut bottom, width) = (lock(live), width(io::stderr()));
                let erased = bottom.erase(width);
                write(&(erased + &text + &bottom.draw(width)));
            }
            Target::Captured(seen) => {
                seen.lock().unwrap_or_else(PoisonError::into_inner).1.push_str(&text);
            }
        }
    }

    /// Passes a process's output on, whole lines of it.
    pub(super) fn pass_on(&self, lines: &[u8]) {
        match &self.target {
            Target::Standard(live) => {
                let mut bottom = live.as_deref().map(lock);
                if let Some(bottom) = &mut bottom {
                    write(&bottom.erase(width(io::stderr())));
                }
                if self.one_display {
                    io::stderr().write_all(lines).ok();
                } else {
                    let mut out = io::stdout().lock();
                    out.write_all(lines).and_then(|()| out.flush()).ok();
                }
                if let Some(bottom) = &mut bottom {
                    write(&bottom.draw(width(io::stderr())));
                }
            }
            Target::Captured(seen) => {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                let seen = if self.one_display { &mut seen.1 } else { &mut seen.0 };
                seen.push_str(&String::from_utf8_lossy(lines));
            }
        }
    }

    /// Shows these lines below everything else, instead of those before.
    pub(super) fn show(&self, texts: &[String]) {
        if let Target::Standard(Some(live)) = &self.target {
            write(&lock(live).replace(texts, width(io::stderr())));
        }
    }

    /// Takes the live lines away.
    pub(super) fn clear(&self) {
        self.show(&[]);
    }
}

fn lock(bottom: &Mutex<Bottom>) -> MutexGuard<'_, Bottom> {
    bottom.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes to stderr, at once.
fn write(text: &str) {
    io::stderr().lock().write_all(text.as_bytes()).ok();
}

/// `text` with its control characters written as escapes; a script's words cannot move the cursor.
fn printable(text: &str) -> String {
    let escape = |c: char| match c.is_control() && c != '\t' {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_python_names_and_numbers() {
        for (text, level) in [("info", Level::Info), ("10", Level::Debug), ("ERROR", Level::Error)]
        {
            assert_eq!(Level::parse(text), Some(level));
        }
        assert_eq!(Level::parse("loud"), None);
    }

    #[test]
    fn only_what_is_important_enough_is_said() {
        let screen = Screen::captured(Level::Warning);
        screen.say(Level::Info, "chatter");
        screen.say(Level::Error, "one\ntwo\u{1b}[2J");
        screen.pass_on(b"line\n");
        assert_eq!(screen.seen(), ("line\n".to_owned(), "one\ntwo\\u{1b}[2J\n".to_owned()));
        let one = screen.one_display();
        one.pass_on(b"progress\n");
        assert!(one.seen().1.ends_with("progress\n"));
        assert_eq!(one.prefix("worker 0"), "");
    }
}
