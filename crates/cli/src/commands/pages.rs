//! Every command line that a page shows is understood: the command exists, and so do its flags.
//!
//! Whether it does what the page says, `python/tests/test_docs.py` tests by running it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use bireme_launch::arguments::{Flavor, Variables, parse};
use clap::Parser;

use super::Cli;

#[test]
fn every_command_of_the_pages_is_understood() {
    let mut understood = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for line in shell_lines(&text) {
            let place = format!("{}: {line}", page.display());
            let words: Vec<&str> = line.split_whitespace().collect();
            // Variables may be set for one command.
            let first = words.iter().position(|word| !word.contains('=') || word.starts_with('-'));
            let words = &words[first.unwrap_or(words.len())..];
            let separator = words.iter().position(|word| *word == "--");
            match (words, separator) {
                (["fleetrun", rest @ ..], _) => {
                    let rest: Vec<OsString> = rest.iter().map(OsString::from).collect();
                    let parsed = parse(&rest, &Variables::new(), Flavor::Fleetrun, "fleetrun");
                    assert!(parsed.is_ok(), "{place}\n{:?}", parsed.err());
                }
                (["bireme", ..], _) => is_understood(words, &place),
                (["cargo", "run", ..], Some(at)) => is_understood(&words[at..], &place),
                _ => continue,
            }
            understood += 1;
        }
    }
    assert!(understood >= 25, "only {understood} commands were found in the pages");
}

#[track_caller]
fn is_understood(words: &[&str], place: &str) {
    if let Err(error) = Cli::try_parse_from(words) {
        panic!("{place}\n{error}");
    }
}

/// README, the guides, and those of the examples.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md"), root.join("examples/adult/README.md")];
    for entry in fs::read_dir(root.join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "md") {
            pages.push(path);
        }
    }
    pages
}

/// The commands of a page's shell listings, one a line, without comments and redirections.
fn shell_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut listing = text.lines();
    while let Some(fence) = listing.next() {
        if !matches!(fence.trim(), "```sh" | "```bash") {
            continue;
        }
        let mut unfinished = String::new();
        while let Some(line) = listing.next().filter(|line| !line.trim().starts_with("```")) {
            if let Some((_, end)) = line.split_once("<<'") {
                // A file that is written in the listing.
                let end = end.trim_end_matches('\'');
                let _body: Vec<_> = listing.by_ref().take_while(|line| *line != end).collect();
            }
            unfinished += line.split(" #").next().unwrap_or_default().trim_end_matches('\\');
            if !line.ends_with('\\') {
                let commands = unfinished.split(['|', '>', '&', ';']);
                let without_input = |command: &str| command.split('<').next().map(str::to_owned);
                lines.extend(commands.filter_map(without_input));
                unfinished.clear();
            }
        }
    }
    lines
}
