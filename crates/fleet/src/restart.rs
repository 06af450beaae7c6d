//! The last checkpoint of a job, remembered in the launcher's folder for processes that are
//! started again. Every machine of a job has such a folder: launchers tell each other.

use std::path::{Path, PathBuf};

use crate::Environment;

/// The file that holds the checkpoint's path.
const FILE: &str = "last_checkpoint";
/// The same on machines whose processes did not save it.
const TOLD: &str = "told_checkpoint";

/// Remembers a checkpoint that is complete. Nothing happens without a launcher; a folder that
/// cannot be written is worth a warning only, the checkpoint is there.
pub fn remember_checkpoint(environment: &Environment, checkpoint: &Path) {
    let Some(folder) = &environment.launcher.job_dir else { return };
    let write = || -> std::io::Result<()> {
        let path = std::path::absolute(checkpoint)?;
        let text = path.to_str().ok_or_else(|| std::io::Error::other("the path is not text"))?;
        replace(&folder.join(FILE), text)
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
pub fn own_checkpoint(folder: &Path) -> Option<PathBuf> {
    read(&folder.join(FILE)).filter(|path| path.is_dir())
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
        let elsewhere = Path::new("/of/another/machine");
        tell_checkpoint(folder.path(), elsewhere).unwrap();
        assert_eq!(last_checkpoint(&again).as_deref(), Some(elsewhere));
        assert_eq!(own_checkpoint(folder.path()), None);
        let alone = Environment::default();
        remember_checkpoint(&alone, &second);
        assert_eq!(checkpoint_to_load(&alone, None), None);
    }
}
