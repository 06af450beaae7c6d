//! Names in `slot:value` lines that are none of the model's, and files that are cut.

use std::path::{Path, PathBuf};

use super::super::*;
use crate::source::{Reader, Source};
use crate::{Files, QueueDataset, QueueSettings};

/// A label and two features whose names in the data are others.
fn slots() -> Vec<Slot> {
    vec![Slot::id("label"), Slot::id("C1"), Slot::id("C2")]
}

fn format() -> Format {
    Format::SlotValue(SlotValueOptions {
        tokens: ["click", "1", "2"].map(str::to_owned).to_vec(),
        padding: 0,
        required: vec!["label".to_owned()],
    })
}

#[track_caller]
fn refused(text: &str) -> String {
    let mut samples = Samples::of(&slots());
    let mut parser = Parser::new(&format(), &slots()).unwrap();
    let bad = BadLines::default();
    let read = parser.block(text.as_bytes(), 1, Path::new("part-0"), &bad, &mut samples);
    read.unwrap_err().to_string()
}

#[test]
fn a_line_without_its_label_is_refused_with_the_name_it_has_instead() {
    assert_eq!(
        refused("click:1 1:2 2:3\n1:2 2:3\n"),
        "part-0:2: there is no `click:`, which every line must have (slot `label`)"
    );
    assert_eq!(
        refused("label:1 1:2 2:3\n"),
        "part-0:1: there is no `click:`, which every line must have (slot `label`): write `click:` \
         for `label:`"
    );
    assert!(refused("clik:1 1:2 2:3\n").ends_with("write `click:` for `clik:`"));
    assert!(refused("y:1 1:2\n").ends_with("there is `y:` instead, which is the name of no slot"));
}

#[test]
fn a_line_that_names_no_slot_is_refused() {
    let format = Format::slot_value();
    let mut parser = Parser::new(&format, &slots()).unwrap();
    let problem = parser.line(b"click:1 1:2 2:3", &mut Samples::of(&slots())).unwrap_err();
    assert_eq!(
        problem,
        "the line has `click:`, `1:`, `2:`, and the name of no slot: slots are `label:`, `C1:`, `C2:`"
    );
}

/// Trains nothing: reads all batches of files with these texts.
fn read(texts: &[&str], partial: bool) -> crate::Result<usize> {
    let folder = tempfile::tempdir().unwrap();
    let write = |(at, text): (usize, &&str)| {
        let path = folder.path().join(format!("part-{at}"));
        std::fs::write(&path, text).unwrap();
        path
    };
    let files = texts.iter().enumerate().map(write).collect();
    let source = Source { partial, ..Source::new(files, format()) };
    let input = std::sync::Arc::new(Files::new(source, &slots())?);
    let settings = QueueSettings { readers: 2, ..QueueSettings::new(input.clone(), slots()) };
    let (mut rows, mut batch) = (0, crate::Batch::of(&slots()));
    for mut batches in QueueDataset::new(settings)?.open(1)? {
        while batches.next(&mut batch)? {
            rows += batch.rows();
        }
    }
    let mut memory = crate::MemoryDataset::new(crate::MemorySettings::new(input, slots()))?;
    memory.load()?;
    assert_eq!(memory.len(), rows);
    Ok(rows)
}

#[test]
fn a_slot_that_no_line_of_all_files_names_is_refused() {
    let [first, second] = ["click:1 1:2\n", "click:0 2:3\n\n"];
    assert_eq!(read(&[first, second], false).unwrap(), 2);
    assert_eq!(read(&[first, first], true).unwrap(), 2);
    let other = "click:1 1:2 three:3\n";
    let problem = read(&[other, "\n", first], false).unwrap_err().to_string();
    assert!(problem.contains("names slot `C2` (`2:` in the data)"), "{problem}");
    assert!(problem.starts_with("no line of the files, the first of them `"), "{problem}");
    let problem = read(&["click:1 C1:2 C2:3 x:1\n"], false).unwrap_err().to_string();
    assert!(problem.contains("names slots `C1` (`1:` in the data), `C2`"), "{problem}");
    assert!(problem.ends_with("lines say `C1:` where they must say `1:`"), "{problem}");
    let problem = read(&["click:1 1:2 22:3\n"], false).unwrap_err().to_string();
    assert!(problem.ends_with("they name `22:`, did you mean that?"), "{problem}");
}

#[test]
fn a_slot_without_data_is_zeros_where_all_names_are_known() {
    assert_eq!(read(&["click:1 1:2\n", "click:0 1:3\n"], false).unwrap(), 2);
}

#[test]
fn the_first_lines_tell_before_training() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| folder.path().join(name));
    paths.iter().for_each(|path| std::fs::write(path, "click:1 1:2\n").unwrap());
    let files =
        |paths: &[PathBuf]| Files::new(Source::new(paths.to_vec(), format()), &slots()).unwrap();
    let warning = files(&paths).look_ahead().unwrap().unwrap();
    assert!(warning.contains("names slot `C2`"), "{warning}");
    assert!(warning.ends_with("zeros there, unless later lines do"), "{warning}");
    let warning = files(&paths[..1]).look_ahead().unwrap().unwrap();
    assert!(warning.ends_with("zeros there"), "{warning}");
    std::fs::write(&paths[0], "click:1 1:2 3:3\n").unwrap();
    let warning = files(&paths).look_ahead().unwrap().unwrap();
    assert!(warning.ends_with("if later lines do not, it will be an error"), "{warning}");
    files(&paths[..1]).look_ahead().unwrap_err();
    std::fs::write(&paths[0], "click:1 1:2 2:3\n").unwrap();
    assert_eq!(files(&paths).look_ahead().unwrap(), None);
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("part-0");
    std::fs::write(&path, "\u{feff}click:1 1:2 2:3\n").unwrap();
    let mut samples = Samples::of(&slots());
    let source = Source::new(vec![path.clone()], format());
    Reader::open(&source, 0, &slots()).unwrap().read(&mut samples, 9).unwrap();
    assert_eq!(samples.len(), 1);
    assert_eq!(crate::source::preview(&path, None).unwrap(), b"click:1 1:2 2:3\n");
}

#[test]
fn a_file_that_ends_within_a_line_says_so() {
    let lines = "click:1 1:2 2:3\n".repeat(20);
    let problem = refused(&format!("{lines}click:1 1:"));
    assert!(problem.ends_with("; the file ends here, without a line end: is it cut?"), "{problem}");
    // Lines may leave slots out, and the last one may have no end.
    let (mut samples, bad) = (Samples::of(&slots()), BadLines::default());
    let mut parser = Parser::new(&format(), &slots()).unwrap();
    let text = format!("{lines}click:1 1:2");
    parser.block(text.as_bytes(), 1, Path::new("part-0"), &bad, &mut samples).unwrap();
    assert_eq!(samples.len(), 21);
}
