//! What the system says about processes: who belongs to a session, who carries the job's mark,
//! memory, and whether somebody was ended for want of it.

use std::collections::HashSet;
use std::fs;

use rustix::process::Pid;

/// A process of this machine, as `/proc` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) pid: Pid,
    pub(super) parent: i32,
    pub(super) session: i32,
    /// It has ended, and waits for its parent to notice.
    pub(super) is_dead: bool,
}

/// All processes that can be seen.
pub(super) fn processes() -> Vec<Entry> {
    let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers
        .filter_map(|pid| parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?))
        .collect()
}

/// Reads `/proc/N/stat`: the name in parentheses may hold anything.
fn parse(pid: i32, stat: &str) -> Option<Entry> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let is_dead = matches!(state, "Z" | "X" | "x");
    Some(Entry { pid: Pid::from_raw(pid)?, parent, session, is_dead })
}

/// Processes of these sessions, and those that inherited `mark` in their environment, whatever
/// they became since.
pub(super) fn members(sessions: &HashSet<i32>, mark: &str) -> Vec<Entry> {
    let own = rustix::process::getpid();
    let is_member = |entry: &Entry| {
        entry.pid != own && (sessions.contains(&entry.session) || is_marked(entry.pid, mark))
    };
    processes().into_iter().filter(is_member).collect()
}

fn is_marked(pid: Pid, mark: &str) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())) else {
        return false;
    };
    environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
}

/// Bytes of memory that a process has in use.
pub(super) fn memory(pid: Pid) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Seconds of processor time that a process has used.
pub(super) fn processor_time(pid: Pid) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let used = ticks()? + ticks()?;
    // `USER_HZ`, which Linux keeps at 100 for whoever reads these files.
    Some(used as f64 / 100.0)
}

/// How many processes the kernel has ended for want of memory, as far as it says: in this control
/// group and on the whole machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OutOfMemory(Vec<u64>);

impl OutOfMemory {
    /// The count of now.
    pub(super) fn count() -> OutOfMemory {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut files = vec!["/proc/vmstat".to_owned()];
        for line in groups.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            match (parts.next(), parts.next()) {
                (Some(""), Some(path)) => files.push(format!("/sys/fs/cgroup{path}/memory.events")),
                (Some("memory"), Some(path)) => {
                    files.push(format!("/sys/fs/cgroup/memory{path}/memory.oom_control"));
                }
                _ => {}
            }
        }
        OutOfMemory(
            files.iter().filter_map(|file| counted(&fs::read_to_string(file).ok()?)).collect(),
        )
    }

    /// Whether somebody was ended since.
    pub(super) fn has_grown_since(&self, before: &OutOfMemory) -> bool {
        self.0.iter().zip(&before.0).any(|(now, before)| now > before)
    }
}

/// The number of the line `oom_kill N`.
fn counted(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let stat = "42 (a) b) c) S 7 40 39 0 -1 4194560";
        let entry = parse(42, stat).unwrap();
        assert_eq!((entry.parent, entry.session, entry.is_dead), (7, 39, false));
        assert!(parse(42, "42 (sh) Z 1 2 3").unwrap().is_dead);
        assert!(parse(42, "").is_none());
    }

    #[test]
    fn this_process_is_found() {
        let own = rustix::process::getpid();
        assert!(processes().iter().any(|entry| entry.pid == own && !entry.is_dead));
        assert!(memory(own).unwrap() > 0);
        assert!(processor_time(own).is_some_and(|seconds| (0.0..1e6).contains(&seconds)));
        assert!(!OutOfMemory::count().has_grown_since(&OutOfMemory::count()));
        assert_eq!(counted("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
    }
}
