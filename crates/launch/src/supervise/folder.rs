//! What runs leave on the disk: the job's own folder, and logs. Both are cleared of what earlier runs
//! left behind.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::job::{Job, Role};

/// The beginning of a job folder's name.
const PREFIX: &str = "bireme-job-";
/// The file in it that its launcher keeps locked: other than the number of a process, a lock is also
/// seen from another container with the same folder.
const LOCK: &str = "lock";

/// The beginning of the names of this host's job folders: elsewhere their locks may not be seen.
fn own_prefix() -> String {
    format!("{PREFIX}{}-", rustix::system::uname().nodename().to_string_lossy())
}

/// What an attempt to lock means: some file systems have no locks, and then nobody but its launcher
/// removes a folder.
fn or_unsupported(locked: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match locked {
        Err(Errno::NOTSUP | Errno::NOSYS | Errno::NOLCK | Errno::INVAL) => Ok(()),
        locked => locked,
    }
}

/// A folder in `base` that nobody else has, and the lock that says so; removes those of launchers
/// that were killed.
///
/// # Errors
/// When nothing can be made in `base`.
pub(super) fn make(base: &Path) -> Result<(PathBuf, File)> {
    remove_abandoned(base);
    let own = format!("{}{}", own_prefix(), std::process::id());
    let cannot = || format!("cannot make the job's folder in `{}`", base.display());
    for number in 0..1000 {
        // Made under another name: a folder of its final name without a lock is an abandoned one.
        let hidden = base.join(format!(".{own}-{number}"));
        let folder = base.join(format!("{own}-{number}"));
        match DirBuilder::new().mode(0o700).create(&hidden) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error).with_context(cannot),
        }
        let lock = File::create(hidden.join(LOCK)).with_context(cannot)?;
        let locked = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive);
        or_unsupported(locked).with_context(cannot)?;
        // An empty folder would be replaced, one with a lock is not.
        match fs::rename(&hidden, &folder) {
            Ok(()) => return Ok((folder, lock)),
            Err(_) => fs::remove_dir_all(&hidden).with_context(cannot)?,
        }
    }
    anyhow::bail!("too many folders of old jobs in `{}`: remove `{PREFIX}*`", base.display())
}

/// Removes our own folders whose launchers are gone.
fn remove_abandoned(base: &Path) {
    let (own, prefix) = (rustix::process::geteuid().as_raw(), own_prefix());
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| name.starts_with(&prefix))
            && entry.metadata().is_ok_and(|about| about.is_dir() && about.uid() == own);
        if is_ours && is_abandoned(&entry.path()) {
            // What cannot be removed now is tried again by the next.
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}

fn is_abandoned(folder: &Path) -> bool {
    let Ok(lock) = OpenOptions::new().write(true).open(folder.join(LOCK)) else { return false };
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// The ending of a log that was moved aside.
const OLD: &str = ".old";

/// Takes the folder of logs into use, as long as the file that it returns is open. Moves logs aside of
/// ranks that this job does not have, unless another one that runs uses the folder, too. Machines
/// that may share the folder leave each other's logs alone.
pub(super) fn use_logs(job: &Job) -> Option<File> {
    let folder = File::open(&job.log_dir).ok()?;
    let is_alone = rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive)
        != Err(Errno::WOULDBLOCK);
    if is_alone && job.nodes.len() == 1 {
        move_stale_logs(job);
    }
    // Where that fails, others cannot tell that the folder is in use.
    rustix::fs::flock(&folder, FlockOperation::NonBlockingLockShared).ok();
    Some(folder)
}

/// Moves logs aside of ranks that this job does not have: those of a larger one before it would look
/// like its own.
fn move_stale_logs(job: &Job) {
    let Ok(entries) = fs::read_dir(&job.log_dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some((kind, rank)) = name.to_str().and_then(|name| name.split_once('.')) else {
            continue;
        };
        let roles = [Role::Server, Role::Worker, Role::HeterWorker];
        let is_log = roles.iter().any(|role| role.log_name() == kind)
            && rank.parse::<usize>().is_ok_and(|number| number.to_string() == rank);
        let is_own = job.local().any(|process| name.to_str() == Some(&process.log_file()));
        if is_log && !is_own {
            let mut old = entry.path().into_os_string();
            old.push(OLD);
            // One that stays only misleads.
            fs::rename(entry.path(), old).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Mode;
    use crate::supervise::tests::{job, process};

    #[test]
    fn folders_of_launchers_that_are_gone_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let (first, lock) = make(base.path()).unwrap();
        let (second, _held) = make(base.path()).unwrap();
        assert!(first.is_dir() && second.is_dir() && first != second);
        // What the kernel does when a launcher is killed.
        drop(lock);
        let (third, _held) = make(base.path()).unwrap();
        assert!(second.is_dir() && third.is_dir());
        let left = fs::read_dir(base.path()).unwrap().count();
        assert_eq!(left, 2, "the first was removed, and nothing else is there");
    }

    #[test]
    fn folders_of_other_hosts_are_left_alone() {
        let base = tempfile::tempdir().unwrap();
        let other = base.path().join(format!("{PREFIX}elsewhere.example-1-0"));
        fs::create_dir(&other).unwrap();
        fs::write(other.join(LOCK), "").unwrap();
        let (own, _held) = make(base.path()).unwrap();
        assert!(other.is_dir() && own.is_dir());
    }

    #[test]
    fn a_file_system_without_locks_will_do() {
        assert_eq!(or_unsupported(Err(Errno::NOLCK)), Ok(()));
        assert_eq!(or_unsupported(Err(Errno::WOULDBLOCK)), Err(Errno::WOULDBLOCK));
    }

    #[test]
    fn logs_of_ranks_that_are_no_more_are_moved_aside() {
        let folder = tempfile::tempdir().unwrap();
        let logs = ["workerlog.0", "workerlog.1", "workerlog.2", "serverlog.0", "heterlog.0"];
        for name in logs.iter().chain(&["workerlog.old", "workerlog.02", "notes"]) {
            fs::write(folder.path().join(name), "before").unwrap();
        }
        let processes = vec![process(Role::Worker, 0), process(Role::Worker, 1)];
        let log_dir = folder.path().to_owned();
        use_logs(&Job { log_dir, ..job(Mode::Collective, processes) }).unwrap();
        let entries = fs::read_dir(folder.path()).unwrap().flatten();
        let mut left: Vec<_> =
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        left.sort();
        let own = ["workerlog.0", "workerlog.02", "workerlog.1", "workerlog.2.old"];
        let expected = [&["heterlog.0.old", "notes", "serverlog.0.old"], &own[..]].concat();
        assert_eq!(left, [&expected[..], &["workerlog.old"]].concat());
    }
    #[test]
    fn logs_of_a_job_that_runs_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let of = |workers: usize| {
            let processes = (0..workers).map(|rank| process(Role::Worker, rank)).collect();
            let log_dir = folder.path().to_owned();
            use_logs(&Job { log_dir, ..job(Mode::Collective, processes) }).unwrap()
        };
        let log = folder.path().join("workerlog.1");
        let larger = of(2);
        fs::write(&log, "it runs").unwrap();
        let smaller = of(1);
        assert!(log.exists());
        drop(larger);
        drop(of(1));
        assert!(log.exists(), "the second one runs, too");
        drop(smaller);
        drop(of(1));
        assert!(!log.exists());
    }
}
