//! Log lines of a process on its standard error, where launchers collect them.
//!
//! The crates say what happens through `tracing`; a program that has no subscriber of its own sets
//! this one, so that a stranger at the door or a lost trainer is seen.

use std::fmt::{self, Write as _};
use std::io::Write as _;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Writes events of at least this importance.
struct Stderr {
    least: Level,
}

/// Writes what the crates of Bireme log, at least warnings (or what `BIREME_LOG` says: `error`,
/// `warn`, `info`, `debug`), to standard error. Does nothing where the program has a subscriber
/// already.
pub fn log_to_stderr(level: Option<&str>) {
    let least = level.and_then(|level| level.trim().parse().ok()).unwrap_or(Level::WARN);
    // The one error there is: somebody was first.
    let _ = tracing::subscriber::set_global_default(Stderr { least });
}

impl Subscriber for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.least && metadata.target().starts_with("bireme")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(format!("{}: ", event.metadata().level()));
        event.record(&mut line);
        line.0.push('\n');
        // In one piece, so that the lines of several threads do not mix; a closed stream is the
        // caller's business.
        let _ = std::io::stderr().lock().write_all(line.0.as_bytes());
    }

    // Nothing here uses spans.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The text of an event: its message, then its fields.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_ours_are_seen_and_chatter_is_not() {
        let seen = Stderr { least: Level::WARN };
        tracing::subscriber::with_default(seen, || {
            assert!(tracing::enabled!(Level::WARN));
            assert!(!tracing::enabled!(Level::INFO));
            tracing::warn!(peer = 3, "a line in the test's output");
        });
    }
}
