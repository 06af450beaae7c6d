//! Where the model is that a path means, with advice where it is one folder further down.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use bireme_engine::io::{ModelFiles, find_model};
use bireme_fleet::ps::checkpoint::is_checkpoint;

/// Folders that advice names, at most.
const MOST: usize = 8;

/// What `bireme train -m` calls the model for prediction in the folder of an epoch, where there is
/// also what training goes on from.
const INFERENCE: &str = "rec_inference";

/// The file in the folder of a training that names its best epoch, where it has validated them.
const BEST: &str = "best";

/// The model for prediction that a folder of a training means: that of its best epoch, or of its last
/// one where none is named. Any other path is as it was.
pub(super) fn newest(path: &Path) -> PathBuf {
    let of_epoch = |folder: &Path| {
        let prefix = folder.join(INFERENCE);
        prefix.with_extension("pdmodel").is_file().then_some(prefix)
    };
    let number = |folder: &PathBuf| -> Option<u64> { folder.file_name()?.to_str()?.parse().ok() };
    let entries = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let epochs = entries.filter_map(|folder| Some((number(&folder)?, of_epoch(&folder)?)));
    let best = || of_epoch(&path.join(best_epoch(path)?.to_string()));
    let last = || Some(epochs.max()?.1);
    of_epoch(path).or_else(best).or_else(last).unwrap_or_else(|| path.to_owned())
}

/// The epoch that a training has named.
fn best_epoch(folder: &Path) -> Option<u64> {
    let text = fs::read(folder.join(BEST)).ok()?;
    serde_json::from_slice::<serde_json::Value>(&text).ok()?.get("epoch")?.as_u64()
}

/// The files of the model at a path.
///
/// # Errors
/// When there is none, or several; says which folders inside have one, as those of a training do.
pub(super) fn find(path: &Path) -> Result<ModelFiles> {
    find_model(path).map_err(|error| match &inside(path)[..] {
        [] => error.into(),
        folders => {
            let more = if folders.len() > MOST { ", …" } else { "" };
            let names: Vec<String> =
                folders.iter().take(MOST).map(|folder| format!("`{}`", folder.display())).collect();
            anyhow!("{error}; name a folder inside: {}{more}", names.join(", "))
        }
    })
}

/// Folders right inside that hold a model or a checkpoint, in the order of their numbers.
fn inside(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir() && (is_checkpoint(path) || find_model(path).is_ok()))
        .collect();
    folders.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_training_names_its_epochs() {
        let folder = tempfile::tempdir().unwrap();
        for epoch in ["0", "10", "9", "run"] {
            fs::create_dir(folder.path().join(epoch)).unwrap();
        }
        for epoch in ["0", "10", "9"] {
            fs::write(folder.path().join(epoch).join("m.pdmodel"), "p").unwrap();
        }
        let error = find(folder.path()).unwrap_err().to_string();
        let at = |epoch: &str| format!("`{}`", folder.path().join(epoch).display());
        let advice = format!("; name a folder inside: {}, {}, {}", at("0"), at("9"), at("10"));
        assert!(error.contains("no model there") && error.ends_with(&advice), "{error}");
        assert_eq!(newest(folder.path()), folder.path());
        for epoch in ["9", "10"] {
            fs::write(folder.path().join(epoch).join("rec_inference.pdmodel"), "p").unwrap();
        }
        assert_eq!(newest(folder.path()), folder.path().join("10/rec_inference"));
        fs::write(folder.path().join(BEST), r#"{"epoch": 9, "metric": "auc"}"#).unwrap();
        assert_eq!(newest(folder.path()), folder.path().join("9/rec_inference"));
        assert_eq!(newest(&folder.path().join("9")), folder.path().join("9/rec_inference"));
        let error = find(&folder.path().join("run")).unwrap_err().to_string();
        assert!(!error.contains("name a folder"), "{error}");
    }
}
