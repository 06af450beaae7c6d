//! `cargo xtask tidy`: the house rules that a compiler does not check.
//!
//! Every rule is a function from text to findings, so that it is tested on a few lines; only this
//! file reads the disk. All findings are printed before the command fails.

mod code;
mod layers;
mod size;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::process::{command, output, root};
use size::{EXCEPTIONS, LineCount};

/// One file of the repository, as the rules see it.
struct File {
    /// Relative to the repository root, with `/` between the parts.
    path: String,
    text: String,
}

impl File {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the whole file is test code; such files have no size limits.
    fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }

    fn finding(&self, line: usize, problem: impl Into<String>, fix: &'static str) -> Finding {
        Finding { path: self.path.clone(), line, problem: problem.into(), fix }
    }
}

/// A broken rule, printed as `file:line: problem: what to do`.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    line: usize,
    problem: String,
    fix: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.problem, self.fix)
    }
}

/// Checks every file of the repository, prints findings and line counts.
pub(crate) fn run() -> Result<()> {
    let files = read_files()?;
    let findings = check(&files);
    for finding in &findings {
        println!("{finding}");
    }
    print_line_counts(&files);
    match findings.len() {
        0 => Ok(()),
        1 => bail!("tidy found 1 problem"),
        count => bail!("tidy found {count} problems"),
    }
}

fn check(files: &[File]) -> Vec<Finding> {
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let mut findings = Vec::new();
    for file in files {
        findings.extend(text::banned_name(file));
        findings.extend(text::machine_paths(file));
        if file.is_rust() {
            findings.extend(text::missing_header(file));
            findings.extend(size::long_file(file, EXCEPTIONS));
            findings.extend(size::long_functions(file, EXCEPTIONS));
        }
        if file.path.ends_with(".md") {
            findings.extend(text::dead_links(file, &paths));
        }
        findings.extend(layers::forbidden_edges(file));
    }
    findings.extend(size::stale_exceptions(files, EXCEPTIONS));
    findings
}

/// The files that git tracks or would track: what a fresh clone has after the next commit.
fn read_files() -> Result<Vec<File>> {
    let mut git = command("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listing = output(&mut git).context("tidy asks git which files belong to the repository")?;
    let root = root();
    let mut files = Vec::new();
    for path in listing.split('\0').filter(|path| !path.is_empty()) {
        let full = root.join(path);
        // A deleted file stays listed until it is committed; a submodule is listed as a folder.
        if !full.is_file() {
            continue;
        }
        let bytes = fs::read(&full).with_context(|| format!("cannot read `{path}`"))?;
        // Binary files are searched too: a saved model can carry the paths of its author.
        let text = String::from_utf8_lossy(&bytes).into_owned();
        files.push(File { path: path.to_string(), text });
    }
    Ok(files)
}

fn print_line_counts(files: &[File]) {
    let mut per_part: BTreeMap<&str, LineCount> = BTreeMap::new();
    let mut total = LineCount::default();
    for file in files.iter().filter(|file| file.is_rust()) {
        let count = size::count_lines(file);
        *per_part.entry(part(&file.path)).or_default() += count;
        total += count;
    }
    println!("{:<16} {:>6} {:>11} {:>7}", "lines of Rust", "files", "production", "tests");
    for (name, count) in per_part.iter().map(|(name, count)| (*name, count)) {
        println!("{name:<16} {:>6} {:>11} {:>7}", count.files, count.production, count.tests);
    }
    println!("{:<16} {:>6} {:>11} {:>7}", "total", total.files, total.production, total.tests);
}

/// What a file counts towards: its crate, or its top folder.
fn part(path: &str) -> &str {
    let crate_end = path.strip_prefix("crates/").and_then(|rest| rest.find('/'));
    let end = crate_end.map(|end| end + "crates/".len()).or_else(|| path.find('/'));
    end.map_or(path, |end| &path[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_of_all_files_are_collected() {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        let files = [
            file("crates/ir/src/utils.rs", "fn main() {}\n"),
            file("crates/ir/Cargo.toml", "[dependencies]\nbireme-engine = \"1\"\n"),
            file("README.md", "[gone](gone.md)\n"),
        ];
        let lines: Vec<String> = check(&files).iter().map(|f| f.to_string()).collect();
        assert_eq!(lines.len(), 4, "{lines:#?}");
        assert_eq!(
            lines[3],
            "README.md:1: link to `gone.md`, which does not exist: correct the path or add the file"
        );
    }

    #[test]
    fn lines_count_towards_the_crate_or_the_top_folder() {
        assert_eq!(part("crates/ir/src/op.rs"), "crates/ir");
        assert_eq!(part("xtask/src/main.rs"), "xtask");
        assert_eq!(part("build.rs"), "build.rs");
    }
}
