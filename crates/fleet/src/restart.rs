//! The last checkpoints of a job, remembered in the launcher's folder for processes that are
//! started again. Every machine of a job has such a folder: launchers tell each other.
//!
//! The launcher looks at them before it starts everything again ([`choose_checkpoint`]), so that all
//! servers load the same one: the last that is whole.

use std::path::{Path, PathBuf};

use bireme_ps::checkpoint;

use crate::Environment;

/// The file that holds the checkpoints' paths, a line each, the last one at the end.
const FILE: &str = "last_checkpoint";
/// How many are remembered.
const REMEMBERED: usize = 8;
/// The same on machines whose processes did not save it.
const TOLD: &str = "told_checkpoint";

/// Remembers a checkpoint that is complete. Nothing happens without a launcher; a folder that
/// cannot be written is worth a warning only, the checkpoint is there.
pub fn remember_checkpoint(environment: &Environment, checkpoint: &Path) {
    let Some(folder) = &environment.launcher.job_dir else { return };
    let write = || -> std::io::Result<()> {
        let path = std::path::absolute(checkpoint)?;
        let is_line = |text: &&str| !text.contains('\n');
        let text = path.to_str().filter(is_line);
        let text = text.ok_or_else(|| std::io::Error::other("the path is no line of text"))?;
        let mut all = remembered(folder);
        // One that was written again is the last.
        all.retain(|other| *other != path);
        all.push(PathBuf::from(text));
        write_list(folder, &all[all.len().saturating_sub(REMEMBERED)..])
    };
    if let Err(error) = write() {
        tracing::warn!(
            "a restart will not find the checkpoint `{}`: {error}",
            checkpoint.display()
        );
    }
}

/// What a server loads: `asked` if the script names a folder; in a job that was started again the
/// last checkpoint of before.
pub fn checkpoint_to_load(environment: &Environment, asked: Option<&Path>) -> Option<PathBuf> {
    let restarts = environment.launcher.restarts;
    if restarts == 0 {
        return asked.map(Path::to_owned);
    }
    let last = last_checkpoint(environment);
    match (asked, last) {
        (Some(asked), last) => {
            if let Some(last) =
                last.filter(|last| Some(last) != std::path::absolute(asked).ok().as_ref())
            {
                tracing::warn!(
                    "started again with `{}`, as the script says, although this job has saved \
                     `{}` since: call `init_server()` without a folder to go on from there",
                    asked.display(),
                    last.display()
                );
            }
            Some(asked.to_owned())
        }
        (None, Some(last)) => {
            tracing::warn!("started again (restart {restarts}): loads `{}`", last.display());
            Some(last)
        }
        (None, None) => {
            tracing::warn!(
                "started again (restart {restarts}), but this job has saved no checkpoint: \
                 training begins anew"
            );
            None
        }
    }
}

/// The last complete checkpoint. One that was saved here must still be there; one that processes of
/// another machine saved is an error to whoever cannot read it, and no reason to begin anew.
pub fn last_checkpoint(environment: &Environment) -> Option<PathBuf> {
    let folder = environment.launcher.job_dir.as_ref()?;
    own_checkpoint(folder).or_else(|| read(&folder.join(TOLD)))
}

/// The last checkpoint that processes with this launcher's folder have saved, if it is still there.
fn own_checkpoint(folder: &Path) -> Option<PathBuf> {
    remembered(folder).pop().filter(|path| path.is_dir())
}

/// What a job that is started again goes on from.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The last checkpoint that is whole.
    pub chosen: Option<PathBuf>,
    /// Later ones, the last first, and why they cannot be loaded.
    pub passed_over: Vec<(PathBuf, String)>,
}

/// Finds the last whole checkpoint among those that processes with this launcher's folder have
/// saved, and forgets the later ones; with servers their files are compared with their checksums.
/// Where every one is damaged nothing is forgotten: servers then refuse the last, since to begin
/// anew is for the user to decide.
pub fn choose_checkpoint(folder: &Path, with_servers: bool) -> Choice {
    let mut all = remembered(folder);
    let mut choice = Choice::default();
    let mut is_damaged = false;
    while let Some(path) = all.last() {
        let problem = match path.is_dir() {
            false => Some("it is gone".to_owned()),
            true => damage(path).filter(|_| with_servers).inspect(|_| is_damaged = true),
        };
        let Some(problem) = problem else {
            choice.chosen = Some(path.clone());
            break;
        };
        choice.passed_over.push((path.clone(), problem));
        all.pop();
    }
    let forgets = choice.chosen.is_some() || !is_damaged;
    if forgets && !choice.passed_over.is_empty() {
        // Servers that find more than they should read a damaged one, and say so.
        write_list(folder, &all).ok();
    }
    choice
}

/// What is wrong with a checkpoint of servers, if something is. Paddle's text layout has no
/// checksums: servers see what is in it.
fn damage(path: &Path) -> Option<String> {
    if checkpoint::is_text(path) {
        return None;
    }
    let manifest = match checkpoint::read_manifest(path) {
        Ok(manifest) => manifest,
        Err(error) => return Some(error.to_string()),
    };
    let files = checkpoint::verify(path, &manifest).into_iter();
    files.filter_map(|(_, checked)| checked.err()).map(|error| error.to_string()).next()
}

fn remembered(folder: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(folder.join(FILE)).unwrap_or_default();
    text.lines().map(PathBuf::from).collect()
}

fn write_list(folder: &Path, all: &[PathBuf]) -> std::io::Result<()> {
    let lines: Vec<_> = all.iter().map(|path| path.to_string_lossy()).collect();
    replace(&folder.join(FILE), &lines.join("\n"))
}

/// Tells processes with this launcher's folder of a checkpoint that those of another have saved.
///
/// # Errors
/// When the folder cannot be written.
pub fn tell_checkpoint(folder: &Path, checkpoint: &Path) -> std::io::Result<()> {
    let text = checkpoint.to_str().ok_or_else(|| std::io::Error::other("the path is not text"))?;
    replace(&folder.join(TOLD), text)
}

fn read(file: &Path) -> Option<PathBuf> {
    Some(PathBuf::from(std::fs::read_to_string(file).ok()?))
}

/// Writes a file that others read at any time.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let fresh = file.with_extension(std::process::id().to_string());
    std::fs::write(&fresh, text)?;
    std::fs::rename(fresh, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_goes_on_from_the_last_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("1"), folder.path().join("2"));
        let environment = |restarts: &str| {
            let job_dir = folder.path().to_str().unwrap();
            Environment::of([("BIREME_JOB_DIR", job_dir), ("BIREME_RESTART", restarts)]).unwrap()
        };
        let again = environment("1");
        assert_eq!(checkpoint_to_load(&again, None), None);
        for checkpoint in [&first, &second] {
            std::fs::create_dir(checkpoint).unwrap();
            remember_checkpoint(&again, checkpoint);
        }
        assert_eq!(checkpoint_to_load(&again, None), Some(second.clone()));
        assert_eq!(checkpoint_to_load(&again, Some(&first)), Some(first));
        assert_eq!(checkpoint_to_load(&environment("0"), None), None);
        std::fs::remove_dir(&second).unwrap();
        assert_eq!(last_checkpoint(&again), None);
        // A launcher says so, and goes on from the one before.
        let choice = choose_checkpoint(folder.path(), false);
        assert_eq!(choice.chosen.as_ref(), Some(&folder.path().join("1")));
        assert_eq!(choice.passed_over, [(second.clone(), "it is gone".to_owned())]);
        assert_eq!(last_checkpoint(&again), choice.chosen);
        std::fs::remove_dir(folder.path().join("1")).unwrap();
        assert_eq!(choose_checkpoint(folder.path(), false).chosen, None);
        assert_eq!(choose_checkpoint(folder.path(), false), Choice::default());
        let elsewhere = Path::new("/of/another/machine");
        tell_checkpoint(folder.path(), elsewhere).unwrap();
        assert_eq!(last_checkpoint(&again).as_deref(), Some(elsewhere));
        assert_eq!(own_checkpoint(folder.path()), None);
        let alone = Environment::default();
        remember_checkpoint(&alone, &second);
        assert_eq!(checkpoint_to_load(&alone, None), None);
    }
    #[test]
    fn a_checkpoint_in_paddles_text_layout_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let environment =
            Environment::of([("BIREME_JOB_DIR", folder.path().to_str().unwrap())]).unwrap();
        let (text, empty) = (folder.path().join("text"), folder.path().join("empty"));
        std::fs::create_dir_all(text.join("000")).unwrap();
        std::fs::create_dir(&empty).unwrap();
        for checkpoint in [&text, &empty] {
            remember_checkpoint(&environment, checkpoint);
        }
        let choice = choose_checkpoint(folder.path(), true);
        assert_eq!(choice.chosen, Some(text));
        assert_eq!(choice.passed_over[0].0, empty);
    }
}
