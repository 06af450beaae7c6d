//! From what the user calls the program to the command line that every process of the job runs.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use bireme_fleet::environment::variables as v;

use crate::Host;
use crate::arguments::{Program, Variables};

/// The command line of a program.
///
/// # Errors
/// When it is not there or cannot be run.
pub(crate) fn command(
    program: &Program,
    host: &Host,
    variables: &Variables,
) -> Result<Vec<OsString>> {
    let mut command = first_words(&program.name, host, variables)?;
    command.extend(program.arguments.iter().cloned());
    Ok(command)
}

fn first_words(name: &OsStr, host: &Host, variables: &Variables) -> Result<Vec<OsString>> {
    let path = Path::new(name);
    let bare = path.components().count() == 1 && !name.as_encoded_bytes().contains(&b'/');
    let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    if ending == "py" {
        is_file(path, "script")?;
        let mut python = python(host, variables)?;
        python.push(name.to_owned());
        return Ok(python);
    }
    if bare && name == "bireme" {
        return host.bireme();
    }
    if bare && ending != "sh" && on_path(name, variables).is_some() {
        return Ok(vec![name.to_owned()]);
    }
    is_file(path, if ending == "sh" { "script" } else { "program" })?;
    if is_executable(path) {
        // Without a folder it would be looked for on the path.
        let path = if bare { Path::new(".").join(path) } else { path.to_owned() };
        return Ok(vec![path.into_os_string()]);
    }
    if ending == "sh" {
        let shell = if on_path(OsStr::new("bash"), variables).is_some() { "bash" } else { "sh" };
        return Ok(vec![shell.into(), name.to_owned()]);
    }
    let shown = path.display();
    if matches!(ending, "yaml" | "yml") {
        bail!("`{shown}` is a configuration, which is trained by `-m {shown}`");
    }
    bail!(
        "`{shown}` is not executable: `chmod +x` it, or end its name in .py if it is a Python script"
    )
}

/// Whether there is such a file; an error that says what there is instead.
fn is_file(path: &Path, what: &str) -> Result<()> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_file() => Ok(()),
        Ok(meta) if meta.is_dir() => {
            bail!("`{}` is a folder: name the {what} in it", path.display())
        }
        Ok(_) => bail!("`{}` is not a file", path.display()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let near = match neighbour(path) {
                Some(near) => format!("; did you mean `{}`?", near.display()),
                None => ": check the path, which begins in the current folder".to_owned(),
            };
            bail!("there is no {what} `{}`{near}", path.display())
        }
        Err(error) => Err(error).with_context(|| format!("cannot look at `{}`", path.display())),
    }
}

/// A file in the same folder with nearly the same name.
fn neighbour(path: &Path) -> Option<PathBuf> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let wanted = path.file_name()?.to_str()?;
    let names = fs::read_dir(folder).ok()?.flatten().filter(|entry| entry.path().is_file());
    let scored = names.filter_map(|entry| {
        let name = entry.file_name().to_str()?.to_owned();
        Some((strsim::jaro_winkler(wanted, &name), name))
    });
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|best| best.0 > 0.85)?;
    Some(path.with_file_name(best.1))
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn on_path(name: &OsStr, variables: &Variables) -> Option<PathBuf> {
    let folders = env::split_paths(variables.get("PATH")?).collect::<Vec<_>>();
    folders.into_iter().map(|folder| folder.join(name)).find(|path| is_executable(path))
}

/// What runs a Python script: the interpreter that this launcher runs in, or one that is found.
fn python(host: &Host, variables: &Variables) -> Result<Vec<OsString>> {
    if !host.python.is_empty() {
        return Ok(host.python.clone());
    }
    let chosen = variables.get(v::PYTHON.name).map(|text| text.trim()).filter(|t| !t.is_empty());
    let python = chosen.unwrap_or("python3");
    let code = "import importlib.util as u, sys; sys.exit(0 if u.find_spec('bireme') else 3)";
    let mut probe = Command::new(python);
    probe.args(["-c", code]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let how = "set `PYTHON` to the interpreter of the environment where it is installed (`pip \
               install .` in the sources of Bireme installs it)";
    match probe.status() {
        Ok(status) if status.success() => {}
        Ok(status) if status.code() == Some(3) => {
            bail!("the interpreter `{python}` does not have the package `bireme`: {how}")
        }
        Ok(status) => bail!("the interpreter `{python}` does not work ({status}): {how}"),
        Err(error) => {
            bail!("cannot run the interpreter `{python}` for the script ({error}): {how}")
        }
    }
    Ok([python, "-u", "-m", "bireme"].map(OsString::from).to_vec())
}
