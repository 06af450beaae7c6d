//! The licences and sources of all dependencies, held against `deny.toml`.
//!
//! `cargo deny` does it where it is installed. It takes minutes to build, so that a gate which needs
//! it would be one that leaves it out: otherwise the same rules are checked here, from what cargo
//! itself says of the dependencies.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, output, root, run as run_command, succeeds};

/// The only registry that `[sources]` of `deny.toml` lets dependencies come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks everything in `Cargo.lock`.
pub(crate) fn run() -> Result<()> {
    if succeeds(&mut cargo(&["deny", "--version"])) {
        // Advisories change from day to day; a gate that does is no gate.
        return run_command(&mut cargo(&["deny", "check", "bans", "licenses", "sources"]));
    }
    let rules = fs::read_to_string(root().join("deny.toml")).context("cannot read `deny.toml`")?;
    let allowed = allowed_licenses(&rules)?;
    let lock = fs::read_to_string(root().join("Cargo.lock")).context("cannot read `Cargo.lock`")?;
    let mut wrong = foreign_sources(&lock);
    let mut list = cargo(&["tree", "--locked", "--workspace", "--all-features", "--target", "all"]);
    list.args(["--edges", "normal,build,dev", "--prefix", "none", "--format", "{p}\t{l}"]);
    wrong.extend(refused_licenses(&output(&mut list)?, &allowed)?);
    if !wrong.is_empty() {
        let wrong: Vec<_> = wrong.into_iter().collect();
        bail!("`deny.toml` does not accept:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

/// The list `allow` of `[licenses]`; an error for rules that are not checked here.
fn allowed_licenses(rules: &str) -> Result<BTreeSet<String>> {
    let mut section = "";
    let mut allowed = BTreeSet::new();
    for line in rules.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        }
        let Some((key, value)) = line.split_once(" = ") else { continue };
        match (section, key) {
            _ if line.starts_with('#') => {}
            ("[licenses]", "allow") => {
                allowed = value.split('"').skip(1).step_by(2).map(str::to_owned).collect();
            }
            ("[graph]" | "[advisories]" | "[sources]", _)
            | ("[licenses]", "confidence-threshold")
            | ("[bans]", "multiple-versions") => {}
            _ => bail!("only `cargo deny` knows `{key}` of `{section}` in `deny.toml`: install it"),
        }
    }
    if allowed.is_empty() {
        bail!("`deny.toml` has no line `allow = […]` under `[licenses]`");
    }
    Ok(allowed)
}

fn foreign_sources(lock: &str) -> BTreeSet<String> {
    let sources = lock.lines().filter_map(|line| line.strip_prefix("source = "));
    let foreign = sources.map(|source| source.trim_matches('"')).filter(|it| *it != REGISTRY);
    foreign.map(|source| format!("the source `{source}`")).collect()
}

/// Packages, in lines of name and licence, of which no licence is accepted.
fn refused_licenses(packages: &str, allowed: &BTreeSet<String>) -> Result<BTreeSet<String>> {
    let mut refused = BTreeSet::new();
    for line in packages.lines().filter(|line| !line.trim().is_empty()) {
        let (package, license) = line.split_once('\t').context("`cargo tree` changed its lines")?;
        let license = license.trim_end_matches("(*)").trim();
        if !is_accepted(license, allowed) {
            refused.insert(format!("`{package}`, whose licence is `{license}`"));
        }
    }
    Ok(refused)
}

/// Whether an SPDX expression can be met: one side of an `OR`, both of an `AND`. Brackets bind first,
/// then `WITH`, `AND` and `OR`; the slash of old manifests is an `OR`.
fn is_accepted(license: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = license.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    either(&words, &mut at, allowed) == Some(true) && at == words.len()
}

fn either(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> Option<bool> {
    let mut accepted = both(words, at, allowed)?;
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        accepted |= both(words, at, allowed)?;
    }
    Some(accepted)
}

fn both(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> Option<bool> {
    let mut accepted = one(words, at, allowed)?;
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        accepted &= one(words, at, allowed)?;
    }
    Some(accepted)
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> Option<bool> {
    let word = *words.get(*at)?;
    *at += 1;
    if word == "(" {
        let accepted = either(words, at, allowed)?;
        *at += 1;
        return (words.get(*at - 1) == Some(&")")).then_some(accepted);
    }
    let mut name = word.to_owned();
    if words.get(*at) == Some(&"WITH") {
        name = format!("{name} WITH {}", words.get(*at + 1)?);
        *at += 2;
    }
    Some(allowed.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> BTreeSet<String> {
        ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "ISC"].map(str::to_owned).into()
    }

    #[test]
    fn expressions_are_read_as_spdx_says() {
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0/MIT",
            "Apache-2.0 AND ISC",
            "(MIT OR GPL-3.0) AND ISC",
            "GPL-3.0 OR (MIT AND ISC)",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
        ] {
            assert!(is_accepted(good, &allowed()), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR ISC) AND GPL-3.0",
            "MIT WITH LLVM-exception",
            "(MIT",
            "MIT ISC",
            "MIT OR",
        ] {
            assert!(!is_accepted(bad, &allowed()), "{bad}");
        }
    }

    #[test]
    fn what_is_refused_is_named_once() {
        let packages = "a v1.0.0\tMIT\nb v2.0.0\tGPL-3.0\nb v2.0.0\tGPL-3.0 (*)\nc v1.0.0\t\n";
        let refused: Vec<_> = refused_licenses(packages, &allowed()).unwrap().into_iter().collect();
        assert_eq!(
            refused,
            ["`b v2.0.0`, whose licence is `GPL-3.0`", "`c v1.0.0`, whose licence is ``"]
        );
        let lock = "source = \"git+https://example.com/x\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\n";
        assert_eq!(foreign_sources(lock).len(), 1);
    }

    #[test]
    fn the_rules_of_this_repository_are_known_here() {
        let rules = fs::read_to_string(root().join("deny.toml")).unwrap();
        assert!(allowed_licenses(&rules).unwrap().contains("MIT"));
        let error = allowed_licenses(&format!("{rules}\n[bans]\ndeny = []")).unwrap_err();
        assert!(error.to_string().contains("only `cargo deny` knows `deny`"), "{error}");
    }
}
