//! The Python package with its extension inside, as a folder that `PYTHONPATH` can name.
//!
//! The checkout's own package gets the development build (see `pytest.rs`); figures and comparisons
//! need the release build, which is put together in the build folder, so that neither replaces the
//! other.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::process::{root, target_dir};
use crate::pytest::EXTENSION;

/// Puts the release package together from what `build_release` has built; returns the folder that
/// holds it.
pub(crate) fn stage_release() -> Result<PathBuf> {
    let target = target_dir()?;
    let staged = target.join("release/python");
    let package = staged.join("bireme");
    if package.exists() {
        // A module that was removed from the checkout must not live on.
        fs::remove_dir_all(&package)
            .with_context(|| format!("cannot clear `{}`", package.display()))?;
    }
    copy_modules(&root().join("python/bireme"), &package)?;
    let built = target.join("release").join(format!("{DLL_PREFIX}_core{DLL_SUFFIX}"));
    fs::copy(&built, package.join(EXTENSION))
        .with_context(|| format!("cannot put `{}` into the package", built.display()))?;
    Ok(staged)
}

/// Copies a folder, without extensions and compiled files.
fn copy_modules(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make `{}`", to.display()))?;
    let entries =
        fs::read_dir(from).with_context(|| format!("cannot read `{}`", from.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().expect("an entry of a folder has a name");
        if path.is_dir() {
            if name != "__pycache__" {
                copy_modules(&path, &to.join(name))?;
            }
        } else if !path.extension().is_some_and(|ending| ending == "so" || ending == "pyd") {
            fs::copy(&path, to.join(name))
                .with_context(|| format!("cannot copy `{}`", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_copied_without_what_was_built() {
        let dir = std::env::temp_dir().join(format!("bireme-xtask-package-{}", std::process::id()));
        let (from, to) = (dir.join("from"), dir.join("to"));
        fs::create_dir_all(from.join("nn")).unwrap();
        fs::create_dir_all(from.join("__pycache__")).unwrap();
        for file in ["a.py", "nn/b.py", "_core.abi3.so", "__pycache__/a.pyc"] {
            fs::write(from.join(file), "").unwrap();
        }
        let copied = copy_modules(&from, &to);
        let there =
            ["a.py", "nn/b.py", "_core.abi3.so", "__pycache__"].map(|f| to.join(f).exists());
        fs::remove_dir_all(&dir).unwrap();
        copied.unwrap();
        assert_eq!(there, [true, true, false, false]);
    }
}
