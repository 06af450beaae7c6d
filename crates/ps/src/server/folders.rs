//! Which folders trainers may have a server save to and load from: a request names any path, and the
//! server would write there with its own rights.

use std::path::{Component, Path, PathBuf};

use crate::{Error, Result};

/// Folders of the operating system, in which no model belongs unless somebody says so.
const SYSTEM: [&str; 11] =
    ["/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr"];

/// Folders within those in which programs and users keep files of their own, also memory that looks
/// like files.
const WITHIN: [&str; 5] = ["/dev/shm", "/run/media", "/run/user", "/usr/local", "/usr/src"];

/// Where a server saves and loads when a trainer asks; by default anywhere but in the system's own
/// folders, and below its working folder even there.
#[derive(Clone, Debug, Default)]
pub struct Folders {
    /// Only below these.
    roots: Option<Vec<PathBuf>>,
    /// Whether the roots bind only other users: our own could write elsewhere without the server.
    for_others: bool,
    /// What to do about a refusal.
    advice: String,
}

impl Folders {
    /// Only below `roots`; `advice` ends the message of a refusal.
    pub fn below(roots: Vec<PathBuf>, advice: &str) -> Folders {
        // Every path is below an empty one.
        let roots = roots.iter().map(|root| resolve(root)).filter(|root| root.is_absolute());
        let roots = roots.collect();
        Folders { roots: Some(roots), for_others: false, advice: advice.to_owned() }
    }

    /// As [`Folders::below`] for processes of other users; those of our own may name any folder but
    /// the system's.
    pub fn below_for_others(roots: Vec<PathBuf>, advice: &str) -> Folders {
        Folders { for_others: true, ..Folders::below(roots, advice) }
    }

    /// Checks a folder that a request names; of a process that runs as the same user as the server,
    /// or perhaps as another.
    ///
    /// # Errors
    /// When it is none of those, wherever links and `..` lead.
    pub fn check(&self, directory: &str, is_same_user: bool) -> Result<()> {
        let folder = resolve(Path::new(directory));
        let refuse = |why: String| Err(Error::Request(format!("the folder `{directory}` {why}")));
        match self.roots.as_ref().filter(|_| !(self.for_others && is_same_user)) {
            None => {
                let here = std::env::current_dir();
                match is_system(&folder, here.ok().as_deref()) {
                    true => refuse(
                        "is a system folder, in which servers refuse to save or load; set \
                         `BIREME_SAVE_ROOTS` to allow it"
                            .to_owned(),
                    ),
                    false => Ok(()),
                }
            }
            Some(roots) if roots.iter().any(|root| folder.starts_with(root)) => Ok(()),
            Some(roots) => {
                let roots: Vec<_> =
                    roots.iter().map(|root| format!("`{}`", root.display())).collect();
                refuse(format!(
                    "is not below {}, where this server saves and loads: {}",
                    roots.join(" or "),
                    self.advice
                ))
            }
        }
    }
}

/// Whether a folder is one of the system's own, seen from the working folder `here`.
fn is_system(folder: &Path, here: Option<&Path>) -> bool {
    let below = |roots: &[&str]| roots.iter().any(|root| folder.starts_with(root));
    // Who works in `/` or `/usr` itself has not chosen it for its files.
    let is_chosen = |here: &&Path| here.components().count() > 2;
    let is_here = here.filter(is_chosen).is_some_and(|here| folder.starts_with(here));
    below(&SYSTEM) && !below(&WITHIN) && !is_here
}

/// Where a path leads, with the links of what exists of it followed.
fn resolve(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut at = PathBuf::new();
    for part in whole.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                at.pop();
            }
            part => {
                at.push(part);
                if let Ok(real) = at.canonicalize() {
                    at = real;
                }
            }
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_dots_are_followed_before_a_folder_is_judged() {
        let folder = tempfile::tempdir().unwrap();
        let (root, other) = (folder.path().join("root"), folder.path().join("other"));
        std::fs::create_dir(&root).unwrap();
        std::fs::create_dir(&other).unwrap();
        std::os::unix::fs::symlink(&other, root.join("link")).unwrap();
        let folders = Folders::below(vec![root.clone()], "change it");
        let check = |path: PathBuf| folders.check(path.to_str().unwrap(), true);
        check(root.clone()).unwrap();
        check(root.join("a/b/c")).unwrap();
        check(root.join("a/../b")).unwrap();
        for path in [
            root.join("../other"),
            root.join("a/../../other"),
            root.join("link/x"),
            folder.path().join("root2"),
            folder.path().to_owned(),
        ] {
            let error = check(path).unwrap_err().to_string();
            assert!(error.contains("is not below") && error.ends_with("change it"), "{error}");
        }
    }

    #[test]
    fn a_root_without_a_name_opens_nothing() {
        let folders = Folders::below(vec![PathBuf::new()], "change it");
        folders.check("/data/model", true).unwrap_err();
    }

    #[test]
    fn the_own_user_may_name_any_folder_but_the_systems() {
        let folders = Folders::below_for_others(vec!["/data/models".into()], "change it");
        folders.check("/data/models/1", false).unwrap();
        folders.check("/srv/else", false).unwrap_err();
        folders.check("/srv/else", true).unwrap();
        folders.check("/etc/cron.d", true).unwrap_err();
    }

    #[test]
    fn the_systems_folders_are_nobodys() {
        let folders = Folders::default();
        for path in ["/etc/cron.d", "/usr/lib/x", "/tmp/../etc", "/proc/self"] {
            folders.check(path, true).unwrap_err();
        }
        let within = ["/dev/shm/model", "/usr/src/app/output", "/usr/local/model", "/run/user/1/m"];
        for path in ["model", "/data/model", "/etcetera"].iter().chain(&within) {
            folders.check(path, true).unwrap();
        }
        let seen = |folder: &str, here: &str| is_system(Path::new(folder), Some(Path::new(here)));
        assert!(!seen("/usr/lib/app/output", "/usr/lib/app"));
        assert!(seen("/usr/lib/other", "/usr/lib/app"));
        assert!(seen("/etc/cron.d", "/") && seen("/usr/bin", "/usr") && seen("/etc/x", "/etc"));
    }
}
