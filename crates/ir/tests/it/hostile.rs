//! A bounded fuzz run: damaged and random input gives a program or an error, never a panic. The
//! `fuzz` crate runs the same without bound.

use bireme_ir::{FetchStyle, Program};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::arbitrary;

const MODEL: &[u8] = include_bytes!("../assets/fit_a_line.pdmodel");

/// What a reader of untrusted programs does with one.
fn use_program(program: &Program) {
    let _ = program.clone_for_test();
    let (feeds, targets) = (program.feed_names(), program.fetch_names());
    let feeds: Vec<&str> = feeds.iter().map(String::as_str).collect();
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    let _ = program.inference_program(&feeds, &targets, FetchStyle::Scaled);
    let _ = program.to_dot();
}

fn read_text(text: &str) {
    if let Ok(program) = Program::parse(text) {
        assert_eq!(Program::parse(&program.to_string()).unwrap().to_string(), program.to_string());
        use_program(&program);
    }
}

fn read_bytes(bytes: &[u8]) {
    if let Ok(program) = Program::from_bytes(bytes) {
        Program::from_bytes(&program.to_bytes()).unwrap();
        use_program(&program);
    }
}

/// Overwrites, removes and repeats bytes.
fn damage(bytes: &mut Vec<u8>, edits: &[(Index, u8, u8)]) {
    for (at, kind, value) in edits {
        if bytes.is_empty() {
            return;
        }
        let at = at.index(bytes.len());
        match kind % 4 {
            0 => bytes[at] = *value,
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, *value),
            _ => bytes.truncate(at),
        }
    }
}

fn edits() -> impl Strategy<Value = Vec<(Index, u8, u8)>> {
    let kind = prop_oneof![10 => 0_u8..3, 1 => Just(3)];
    vec((any::<Index>(), kind, any::<u8>()), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn damaged_text(program in arbitrary::program(), edits in edits()) {
        let mut text = program.to_string().into_bytes();
        damage(&mut text, &edits);
        read_text(&String::from_utf8_lossy(&text));
    }

    #[test]
    fn damaged_bytes(program in arbitrary::program(), edits in edits()) {
        let mut bytes = program.to_bytes();
        damage(&mut bytes, &edits);
        read_bytes(&bytes);
    }

    #[test]
    fn damaged_paddle_model(edits in edits()) {
        let mut bytes = MODEL.to_vec();
        damage(&mut bytes, &edits);
        read_bytes(&bytes);
    }

    #[test]
    fn random_bytes(bytes in vec(any::<u8>(), 0..200)) {
        read_bytes(&bytes);
        read_text(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn random_words(words in vec(prop::sample::select(WORDS.to_vec()), 0..30)) {
        read_text(&format!("{{ // block 0\n{}\n}}", words.join("")));
    }
}

/// Pieces of the text form.
const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "=",
    ",",
    ".",
    ":",
    " ",
    "\n",
    "'",
    "\\",
    "\\u{",
    "#",
    "# at ",
    "var ",
    "persist ",
    "trainable ",
    "param ",
    "target ",
    "LOD_TENSOR",
    ".shape(",
    ".dtype(",
    "float32",
    "inputs=",
    "True",
    "1",
    "-",
    "2L",
    "0.5",
    "1e99",
    "nanD",
    "ints[]",
    "block[",
    "scalar(",
    "complex(",
    "scalars[",
    "X",
    "é",
];

#[test]
fn every_truncation_of_a_real_model_is_an_error_or_a_program() {
    for end in 0..MODEL.len() {
        read_bytes(&MODEL[..end]);
    }
}
