//! Rules on names and text: headers, file names, machine paths, links.

use std::collections::BTreeSet;

use super::{File, Finding};

/// File and folder names that say nothing about what is inside.
const BANNED_NAMES: &[&str] = &["utils", "common", "base", "misc", "helpers"];

/// First folders of absolute paths that exist on one machine only.
const MACHINE_ROOTS: &[&str] = &["work", "home", "root"];

/// Every Rust file opens with what it is.
pub(super) fn missing_header(file: &File) -> Option<Finding> {
    let fix = "say in `//!` what the file is and the rule it keeps";
    (!file.text.starts_with("//!")).then(|| file.finding(1, "no `//!` header", fix))
}

/// The Python package, whose modules are named as in Paddle.
const PADDLE_NAMES: &str = "python/bireme/";

/// No source file or folder is named after nothing.
pub(super) fn banned_name(file: &File) -> Option<Finding> {
    let ours = !file.path.starts_with(PADDLE_NAMES);
    if !(file.is_rust() || ours && file.path.ends_with(".py")) {
        return None;
    }
    let stem = |part: &str| part.split('.').next().unwrap_or_default().to_string();
    let banned = file.path.split('/').map(stem).find(|s| BANNED_NAMES.contains(&s.as_str()))?;
    let problem = format!("the name `{banned}` says nothing");
    Some(file.finding(1, problem, "name it after the concept it holds"))
}

/// No absolute path of somebody's machine.
pub(super) fn machine_paths(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for root in MACHINE_ROOTS {
            let path = format!("/{root}/");
            if line.match_indices(&path).any(|(at, _)| starts_path(&line[..at])) {
                let problem = format!("machine path `{path}…`");
                findings.push(file.finding(index + 1, problem, "use a relative path"));
            }
        }
    }
    findings
}

/// Whether a `/` after `before` begins an absolute path, rather than going on with a relative one,
/// a home folder, a variable or an address.
fn starts_path(before: &str) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || "_-.~/}*>".contains(c);
    before.ends_with("file://") || !before.ends_with(goes_on)
}

/// Relative links of a Markdown file lead to files of the repository.
pub(super) fn dead_links(file: &File, paths: &BTreeSet<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_fence = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            in_fence = !in_fence;
        } else if !in_fence {
            let without_code = blank_inline_code(line);
            for target in link_targets(&without_code) {
                if !link_exists(&file.path, target, paths) {
                    let problem = format!("link to `{target}`, which does not exist");
                    findings.push(file.finding(
                        index + 1,
                        problem,
                        "correct the path or add the file",
                    ));
                }
            }
        }
    }
    findings
}

/// `[text](target)`, `[text](target "title")` and `[name]: target`.
fn link_targets(line: &str) -> Vec<&str> {
    let reference = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]:"))
        .filter(|(name, _)| !name.starts_with('^'))
        .map(|(_, target)| target);
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    inline
        .chain(reference)
        .filter_map(|target| target.split_whitespace().next())
        .map(|target| target.trim_matches(['<', '>']))
        .collect()
}

fn link_exists(from: &str, target: &str, paths: &BTreeSet<&str>) -> bool {
    if target.contains("://") || target.starts_with("mailto:") || target.starts_with('#') {
        return true;
    }
    let target = target.split('#').next().unwrap_or_default();
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let Some(path) = resolve(folder, target) else { return false };
    let as_folder = format!("{path}/");
    path.is_empty() || paths.iter().any(|known| *known == path || known.starts_with(&as_folder))
}

/// Joins and normalises; none when the path leaves the repository.
fn resolve(folder: &str, target: &str) -> Option<String> {
    // An absolute link works on one host's web pages only.
    if target.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop()?;
        } else {
            parts.push(part);
        }
    }
    Some(parts.join("/"))
}

fn blank_inline_code(line: &str) -> String {
    let pieces = line.split('`').enumerate();
    pieces.map(|(index, piece)| if index % 2 == 0 { piece } else { "code" }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: impl Into<String>) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn header_is_the_first_line() {
        assert_eq!(missing_header(&file("a.rs", "//! A.\nfn a() {}")), None);
        for text in ["", "fn a() {}", "\n//! A.", "// A."] {
            assert!(missing_header(&file("a.rs", text)).is_some(), "{text:?}");
        }
    }

    #[test]
    fn banned_names_are_found_in_files_and_folders() {
        for path in ["crates/ir/src/utils.rs", "crates/ir/tests/common/mod.rs", "tools/helpers.py"]
        {
            assert!(banned_name(&file(path, "")).is_some(), "{path}");
        }
        for path in [
            "crates/ir/src/op.rs",
            "crates/ir/src/base64.rs",
            "docs/common.md",
            "python/bireme/utils/unique_name.py",
        ] {
            assert_eq!(banned_name(&file(path, "")), None, "{path}");
        }
    }

    #[test]
    fn machine_paths_are_absolute() {
        // Put together here, so that this file passes its own rule.
        let found = |before: &str, root: &str| {
            !machine_paths(&file("a.md", format!("x\n{before}/{root}/me"))).is_empty()
        };
        assert!(found("", "home"));
        assert!(found("see \"", "work"));
        assert!(found("PATH=", "root"));
        assert!(found("file://", "home"));
        assert!(!found("..", "work"));
        assert!(!found("~", "work"));
        assert!(!found("https://example.org", "home"));
        assert!(!found("https:/", "home"));
        assert!(!found("${HOME}", "work"));
        assert!(!found("", "usr"));
    }

    #[test]
    fn links_resolve_against_the_file_that_holds_them() {
        let paths = BTreeSet::from(["README.md", "docs/README.md", "docs/a.md", "crates/ir/x.rs"]);
        let dead = |text: &str| {
            let findings = dead_links(&file("docs/README.md", text), &paths);
            findings.into_iter().map(|f| (f.line, f.problem)).collect::<Vec<_>>()
        };
        for text in [
            "[a](a.md) and [up](../README.md#top), [dir](../crates/ir/), [b](../crates/ir)",
            "[web](https://example.org/x) [anchor](#here) [mail](mailto:a@b.c)",
            "[ref]: a.md \"title\"\n[^1]: a footnote",
            "`[code](gone.md)` and\n```\n[fence](gone.md)\n```",
        ] {
            assert_eq!(dead(text), [], "{text}");
        }
        let problem = |target: &str| format!("link to `{target}`, which does not exist");
        assert_eq!(dead("x\n![i](gone.png)"), [(2, problem("gone.png"))]);
        assert_eq!(dead("[ref]: gone.md"), [(1, problem("gone.md"))]);
        assert_eq!(dead("[out](../../x.md)"), [(1, problem("../../x.md"))]);
        assert_eq!(dead("[slash](/docs/a.md)"), [(1, problem("/docs/a.md"))]);
    }
}
