//! The end of a log: what a person would scroll to.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes at the end of a log that are looked at.
const BYTES: u64 = 256 * 1024;
/// Lines that are shown where there is no traceback.
const LINES: usize = 20;
/// Lines of a traceback that are shown; of a longer one the beginning and the end.
const TRACEBACK: usize = 120;

/// How a traceback of Python begins.
const BEGINS: &str = "Traceback (most recent call last):";
/// What stands between two tracebacks of one error.
const CHAINS: [&str; 2] = [
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
];

/// The last lines of a log from byte `from` on: the last traceback whole, if there is one near
/// the end; empty if nothing was written.
pub(super) fn tail(path: &Path, from: u64) -> Vec<String> {
    let Ok(text) = read_end(path, from) else { return Vec::new() };
    let lines: Vec<&str> = text.lines().collect();
    let end = lines.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |at| at + 1);
    let lines = &lines[..end];
    let first = match traceback(lines) {
        Some(first) => first.min(end.saturating_sub(LINES)),
        None => end.saturating_sub(LINES),
    };
    shorten(&lines[first..])
}

fn read_end(path: &Path, from: u64) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(BYTES).max(from.min(length));
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Where the last traceback begins, with those that led to it; `None` if it is an old one, with
/// much written after it.
fn traceback(lines: &[&str]) -> Option<usize> {
    // Lines of processes started by a process may be indented or prefixed.
    let begins = |line: &&str| line.trim_end().ends_with(BEGINS);
    let mut first = lines.iter().rposition(begins)?;
    let frames = lines[first + 1..].iter().take_while(|line| line.starts_with(' ')).count();
    if lines.len() - first - frames > 3 * LINES {
        return None;
    }
    while let Some(before) = lines[..first].iter().rposition(|line| !line.trim().is_empty()) {
        if !CHAINS.iter().any(|chain| lines[before].trim_end().ends_with(chain)) {
            break;
        }
        match lines[..before].iter().rposition(begins) {
            Some(earlier) => first = earlier,
            None => break,
        }
    }
    Some(first)
}

fn shorten(lines: &[&str]) -> Vec<String> {
    let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    if lines.len() <= TRACEBACK {
        return owned(lines);
    }
    let (head, end) = (TRACEBACK / 3, TRACEBACK * 2 / 3);
    let mut short = owned(&lines[..head]);
    short.push(format!("... {} lines ...", lines.len() - head - end));
    short.extend(owned(&lines[lines.len() - end..]));
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail_of(text: &str) -> Vec<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        tail(file.path(), 0)
    }

    #[test]
    fn the_last_lines_are_shown() {
        let text: String = (0..100).map(|line| format!("line {line}\n")).collect();
        let lines = tail_of(&text);
        assert_eq!((lines.len(), lines[0].as_str()), (LINES, "line 80"));
        assert!(tail_of("").is_empty() && tail_of("\n\n").is_empty());
        assert!(tail(Path::new("/no/such/log"), 0).is_empty());
    }

    #[test]
    fn a_traceback_is_whole_with_its_causes() {
        let frames: String =
            (0..40).map(|n| format!("  File \"a.py\", line {n}\n    f()\n")).collect();
        let chain = CHAINS[0];
        let text = format!(
            "{}{BEGINS}\n  File \"a.py\"\nKeyError: 1\n\n{chain}\n\n{BEGINS}\n{frames}ValueError: no\n",
            "step\n".repeat(50)
        );
        let lines = tail_of(&text);
        assert_eq!(lines[0], BEGINS);
        assert_eq!(lines.iter().filter(|line| *line == BEGINS).count(), 2);
        assert_eq!(lines.last().unwrap(), "ValueError: no");
    }

    #[test]
    fn an_old_traceback_does_not_count() {
        let text = format!("{BEGINS}\n  File\nKeyError: 1\n{}", "step\n".repeat(100));
        assert_eq!(tail_of(&text), vec!["step"; LINES]);
    }

    #[test]
    fn what_was_there_before_is_not_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "old\nnew\n").unwrap();
        assert_eq!(tail(file.path(), 4), ["new"]);
    }
}
