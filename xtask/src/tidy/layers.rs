//! The layer rule: which crate may depend on which.
//!
//! The table is the architecture. A new edge is a decision, so it is made here and explained in the
//! commit. Development dependencies are free: tests may look at anything.

use super::{File, Finding};

const PREFIX: &str = "bireme-";

/// What a crate may depend on.
enum Allowed {
    Only(&'static [&'static str]),
    Any,
}

/// Folder under `crates/` to the crates it may use, from the bottom up.
const LAYERS: &[(&str, Allowed)] = &[
    ("ir", Allowed::Only(&[])),
    ("engine", Allowed::Only(&["ir"])),
    // Behind a trait of the engine's.
    ("cuda", Allowed::Only(&["ir", "engine"])),
    ("transpiler", Allowed::Only(&["ir"])),
    ("comm", Allowed::Only(&[])),
    ("ps", Allowed::Only(&["comm", "engine", "ir"])),
    ("collective", Allowed::Only(&["comm"])),
    ("data", Allowed::Only(&["engine"])),
    ("fleet", Allowed::Only(&["ir", "engine", "transpiler", "comm", "ps", "collective", "data"])),
    // It knows the environment of a job, not the training in it.
    ("launch", Allowed::Only(&["comm", "fleet"])),
    // Its zoo builds models of layers.
    ("rec", Allowed::Only(&["fleet", "data", "engine"])),
    // Names for Rust users, and nothing else.
    ("bireme", Allowed::Only(&["rec", "fleet", "data", "engine"])),
    // The demo and the benchmarks drive the engine themselves.
    (
        "cli",
        Allowed::Only(&["rec", "launch", "fleet", "collective", "ir", "engine", "cuda", "data"]),
    ),
    // It wraps the engine and programs too, and opens cards for them; `cli` is its console command.
    (
        "python",
        Allowed::Only(&["fleet", "collective", "rec", "data", "cli", "engine", "cuda", "ir"]),
    ),
    // It compiles the kernels of `cuda` and knows no Rust of ours.
    ("emulator", Allowed::Only(&[])),
    ("testkit", Allowed::Any),
];

/// Checks a manifest against the table; other files have no findings.
pub(super) fn forbidden_edges(file: &File) -> Vec<Finding> {
    let Some(folder) = crate_folder(&file.path) else { return Vec::new() };
    let allowed = match LAYERS.iter().find(|(name, _)| *name == folder) {
        Some((_, Allowed::Any)) => return Vec::new(),
        Some((_, Allowed::Only(names))) => *names,
        None if folder == "xtask" => &[],
        None => {
            let problem = format!("crate `{folder}` is not in the layer table");
            return vec![file.finding(1, problem, "add it to xtask/src/tidy/layers.rs")];
        }
    };
    edges(&file.text)
        .into_iter()
        .filter(|(_, target)| !allowed.contains(&target.as_str()))
        .map(|(line, target)| {
            let problem = format!("`{folder}` must not depend on `{target}`");
            file.finding(line, problem, "move the code to the crate that may, or invert it")
        })
        .collect()
}

/// The crate that a manifest path belongs to.
fn crate_folder(path: &str) -> Option<&str> {
    let folder = path.strip_suffix("/Cargo.toml")?;
    if folder == "xtask" { Some(folder) } else { folder.strip_prefix("crates/") }
}

/// Line and folder of every workspace crate that a manifest depends on, development aside.
fn edges(manifest: &str) -> Vec<(usize, String)> {
    let mut edges = Vec::new();
    let mut in_dependencies = false;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let target = if line.starts_with('[') {
            let section = line.trim_matches(['[', ']']);
            in_dependencies = is_dependency_section(section);
            section
                .rsplit_once('.')
                .filter(|(parent, _)| is_dependency_section(parent))
                .map(|(_, name)| name)
        } else if in_dependencies {
            dependency(line)
        } else {
            None
        };
        let folder = target.and_then(|name| name.trim_matches('"').strip_prefix(PREFIX));
        edges.extend(folder.map(|folder| (index + 1, folder.to_string())));
    }
    edges
}

/// The package that a line such as `x = { package = "bireme-ir" }` or `bireme-ir.workspace = true`
/// depends on.
fn dependency(line: &str) -> Option<&str> {
    let (key, value) = line.split_once('=')?;
    let renamed = value.split_once("package = \"").and_then(|(_, rest)| rest.split_once('"'));
    Some(renamed.map_or_else(|| key.trim().trim_end_matches(".workspace"), |(name, _)| name))
}

/// `dependencies` and `build-dependencies`, also of one target.
fn is_dependency_section(section: &str) -> bool {
    let last = match section.strip_prefix("target.") {
        Some(rest) => rest.rsplit('.').next().unwrap_or_default(),
        None => section,
    };
    last == "dependencies" || last == "build-dependencies"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(folder: &str, manifest: &str) -> Vec<String> {
        let file = File { path: format!("{folder}/Cargo.toml"), text: manifest.into() };
        forbidden_edges(&file).into_iter().map(|f| format!("{}: {}", f.line, f.problem)).collect()
    }

    #[test]
    fn edges_of_the_table_are_allowed() {
        let manifest = "[dependencies]\nbireme-ir = { path = \"../ir\" }\nprost = \"1\"\n";
        assert!(problems("crates/engine", manifest).is_empty());
        assert!(
            problems("crates/cli", "[dependencies]\nbireme-engine.workspace = true").is_empty()
        );
        assert!(problems("crates/testkit", "[dependencies]\nbireme-rec = \"1\"").is_empty());
    }

    #[test]
    fn an_edge_upwards_is_found_with_its_line() {
        let expected = ["2: `ir` must not depend on `engine`"];
        assert_eq!(problems("crates/ir", "[dependencies]\nbireme-engine = \"1\""), expected);
        assert_eq!(
            problems("crates/ir", "[package]\n[dependencies.bireme-engine]\npath = \"x\""),
            expected
        );
        assert_eq!(
            problems("crates/ir", "[dependencies]\nx = { package = \"bireme-engine\" }"),
            expected
        );
        assert_eq!(
            problems("crates/ir", "[target.'cfg(unix)'.dependencies]\nbireme-engine = \"1\""),
            expected
        );
        assert_eq!(
            problems("xtask", "[dependencies]\nbireme-ir = \"1\""),
            ["2: `xtask` must not depend on `ir`"]
        );
    }

    #[test]
    fn development_dependencies_and_comments_are_free() {
        assert!(problems("crates/ir", "[dev-dependencies]\nbireme-engine = \"1\"").is_empty());
        assert!(problems("crates/ir", "[dev-dependencies.bireme-engine]\npath = \"x\"").is_empty());
        assert!(problems("crates/ir", "[dependencies]\n# bireme-engine = \"1\"").is_empty());
    }

    #[test]
    fn a_crate_outside_the_table_is_found() {
        assert_eq!(problems("crates/new", ""), ["1: crate `new` is not in the layer table"]);
        assert!(problems("fuzz", "[dependencies]\nbireme-ir = \"1\"").is_empty());
    }
}
