//! Ends the commands of a process that was killed: a command that writes nothing would never notice.
//!
//! The guard is one shell for the whole process, started with the first command. It reads from a pipe
//! that only this process writes: which groups run (`+ N`), and which have ended (`- N`). The pipe
//! ends with the process, however that ends; then the shell kills the groups that are left. A death
//! signal of the kernel would do with less, but it comes with the thread that started the command,
//! and costs a fork of a process with much memory for each file.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What the shell runs. Only its own words: no program is needed on the path but the shell.
const SCRIPT: &str = r#"
running=
while read -r sign group; do
    case $sign in
    +) running="$running $group" ;;
    -)
        left=
        for other in $running; do [ "$other" = "$group" ] || left="$left $other"; done
        running=$left
        ;;
    esac
done
for group in $running; do kill -KILL "-$group"; done
"#;

/// The way to the shell; none where it could not be started.
static GUARD: OnceLock<Option<Mutex<ChildStdin>>> = OnceLock::new();

/// A command's group under guard, until this is dropped.
pub(super) struct Guarded(u32);

impl Guarded {
    /// Puts the group of a command under guard. Without a shell the command runs all the same.
    pub(super) fn new(group: u32) -> Guarded {
        tell('+', group);
        Guarded(group)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        tell('-', self.0);
    }
}

fn tell(sign: char, group: u32) {
    let Some(pipe) = GUARD.get_or_init(|| start().map(Mutex::new)) else { return };
    let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
    // A guard that somebody ended is no reason to stop reading.
    pipe.write_all(format!("{sign} {group}\n").as_bytes()).ok();
}

fn start() -> Option<ChildStdin> {
    let mut shell = Command::new("sh");
    // A group of its own: what is typed at the terminal is not for it.
    shell.arg("-c").arg(SCRIPT).process_group(0);
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    shell.spawn().ok()?.stdin.take()
}

#[cfg(test)]
mod tests {
    use std::process::Child;

    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").process_group(0).spawn().unwrap()
    }

    #[test]
    fn what_still_runs_at_the_end_of_the_process_is_killed() {
        let (mut left, mut other, mut done) = (sleeper(), sleeper(), sleeper());
        let mut pipe = start().unwrap();
        for child in [&left, &done, &other] {
            writeln!(pipe, "+ {}", child.id()).unwrap();
        }
        writeln!(pipe, "- {}", done.id()).unwrap();
        // What the kernel does when the process ends.
        drop(pipe);
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(left.wait().unwrap().signal(), Some(9));
        assert_eq!(other.wait().unwrap().signal(), Some(9));
        assert!(done.try_wait().unwrap().is_none(), "it had ended, as far as the guard knows");
        done.kill().unwrap();
        done.wait().unwrap();
    }
}
