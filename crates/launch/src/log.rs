//! The launcher's own lines on stderr, in the form of Paddle's: level, time, place, message.

use std::io::{self, Write};
use std::panic::Location;

use crate::arguments::Level;
use bireme_fleet::clock;

/// Writes lines of at least some importance.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    least: Level,
}

impl Log {
    /// A log without less important lines.
    pub fn new(least: Level) -> Log {
        Log { least }
    }

    /// Writes a line, or several.
    #[track_caller]
    pub fn say(self, level: Level, text: &str) {
        if level < self.least {
            return;
        }
        let place = Location::caller();
        let file = place.file().rsplit('/').next().unwrap_or_default();
        let (time, millis) = clock::now();
        let line = format!("{level} {time},{millis:03} {file}:{}] {text}\n", place.line());
        // That nobody listens is no reason to stop.
        io::stderr().write_all(line.as_bytes()).ok();
    }
}
