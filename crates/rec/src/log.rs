//! Log lines as PaddleRec's tools write them: time, level, message. People parse them.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use bireme_fleet::clock;

/// Where a run's lines go; clones write to the same place.
#[derive(Clone)]
pub struct Log {
    out: Arc<Mutex<dyn Write + Send>>,
    /// Whether only warnings are written.
    quiet: bool,
    /// Warnings that are written once.
    once: Arc<Mutex<BTreeSet<String>>>,
}

impl Log {
    /// Lines on standard error, where Python's `logging` has them.
    pub fn stderr() -> Log {
        Log::to(io::stderr())
    }

    /// Lines to any place.
    pub fn to(out: impl Write + Send + 'static) -> Log {
        Log { out: Arc::new(Mutex::new(out)), quiet: false, once: Arc::default() }
    }

    /// The same without anything but warnings.
    pub fn quiet(self) -> Log {
        Log { quiet: true, ..self }
    }

    /// Nowhere.
    pub fn silent() -> Log {
        Log::to(io::sink())
    }

    /// A line of level `INFO`.
    pub fn info(&self, message: &str) {
        if !self.quiet {
            self.line("INFO", message);
        }
    }

    /// A line of level `WARNING`.
    pub fn warn(&self, message: &str) {
        self.line("WARNING", message);
    }

    /// As [`Log::warn`], unless the same was written before.
    pub fn warn_once(&self, message: &str) {
        let mut once = self.once.lock().unwrap_or_else(PoisonError::into_inner);
        if once.insert(message.to_owned()) {
            self.warn(message);
        }
    }

    /// Text without time and level.
    pub fn plain(&self, text: &str) {
        if !self.quiet {
            self.write(text);
        }
    }

    fn write(&self, text: &str) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // In one piece, so that lines do not mix; that nobody listens is no reason to stop.
        out.write_all(format!("{text}\n").as_bytes()).ok();
        out.flush().ok();
    }

    fn line(&self, level: &str, message: &str) {
        let (time, millis) = clock::now();
        self.write(&format!("{time},{millis:03} - {level} - {message}"));
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Log")
    }
}

/// A number as numpy prints the only element of a `float32` array.
pub(crate) fn numpy_f32(value: f64) -> String {
    let text = format!("{}", value as f32);
    point(text)
}

/// A number as numpy prints the only element of a `float64` array: at most 8 digits after the point.
pub(crate) fn numpy_f64(value: f64) -> String {
    let text = format!("{value:.8}");
    let short = text.trim_end_matches('0');
    match short.strip_suffix('.') {
        Some(whole) => format!("{whole}."),
        None => short.to_owned(),
    }
}

fn point(text: String) -> String {
    if text.contains('.') || text.contains(|c: char| c.is_alphabetic()) { text } else { text + "." }
}

/// A number as C++ streams print it: six digits that count.
pub(crate) fn cpp_float(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return match value {
            _ if value.is_nan() => "nan".to_owned(),
            _ if value.is_infinite() => if value > 0.0 { "inf" } else { "-inf" }.to_owned(),
            _ => "0".to_owned(),
        };
    }
    let scientific = format!("{value:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(digits), exponent.abs());
    }
    trim(&format!("{value:.*}", usize::try_from(5 - exponent).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_in_paddles_logs() {
        // numpy: str(np.array([x], dtype)).strip("[]"); C++: std::cout << x
        assert_eq!(numpy_f32(0.673_147_2), "0.6731472");
        assert_eq!(numpy_f32(2.0), "2.");
        assert_eq!(numpy_f64(0.5), "0.5");
        assert_eq!(numpy_f64(0.512_345_678_9), "0.51234568");
        assert_eq!(cpp_float(0.673_147_18), "0.673147");
        assert_eq!(cpp_float(0.000_012_345_678), "1.23457e-05");
        assert_eq!(cpp_float(1_234_567.0), "1.23457e+06");
        assert_eq!((cpp_float(2.0), cpp_float(0.5)), ("2".to_owned(), "0.5".to_owned()));
    }

    #[test]
    fn lines_have_time_and_level() {
        let out = Arc::new(Mutex::new(Vec::new()));
        struct Shared(Arc<Mutex<Vec<u8>>>);
        impl Write for Shared {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        Log::to(Shared(Arc::clone(&out))).info("Run Worker Begin");
        let line = String::from_utf8(out.lock().unwrap().clone()).unwrap();
        let shape: String =
            line.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "0000-00-00 00:00:00,000 - INFO - Run Worker Begin\n");
    }
}
