//! Which samples become one, and what it has.

use std::path::Path;
use std::sync::Arc;

use crate::parse::{BadLines, Format, MultiSlotOptions, Parser};
use crate::{
    Batch, CONTENT, INS_ID, Input, MemoryDataset, MemorySettings, Result, Rows, Samples, Slot,
};

fn slots() -> Vec<Slot> {
    vec![
        Slot::floats("dense", 2),
        Slot::ids("query"),
        Slot::ids("item"),
        Slot::ids(INS_ID),
        Slot::ids(CONTENT),
    ]
}

/// One file of lines.
struct Lines(&'static str);

struct Left(Option<&'static str>);

impl Input for Lines {
    fn files(&self) -> usize {
        1
    }

    fn open(&self, _: usize) -> Result<Box<dyn Rows>> {
        Ok(Box::new(Left(Some(self.0))))
    }
}

impl Rows for Left {
    fn read(&mut self, out: &mut Samples, _: usize) -> Result<bool> {
        let options = MultiSlotOptions { parse_ins_id: true, parse_content: true };
        let mut parser = Parser::new(&Format::MultiSlot(options), &slots())?;
        let text = self.0.take().unwrap_or_default();
        let path = Path::new("lines");
        parser.block(text.as_bytes(), 1, path, &BadLines::default(), out)?;
        Ok(false)
    }
}

fn loaded(lines: &'static str) -> MemoryDataset {
    let settings = MemorySettings::new(Arc::new(Lines(lines)), slots());
    let mut dataset = MemoryDataset::new(settings).unwrap();
    dataset.load().unwrap();
    dataset
}

/// Name, content, numbers and ids of each sample, by name.
fn samples(dataset: &MemoryDataset) -> Vec<String> {
    let mut batches = dataset.open(1).unwrap();
    let mut batch = Batch::of(&slots());
    let mut found = Vec::new();
    while batches[0].next(&mut batch).unwrap() {
        let tensors = batch.tensors();
        found.push(format!(
            "{} {} {:?} {:?} {:?}",
            batch.texts(INS_ID)[0],
            batch.texts(CONTENT)[0],
            tensors[0].to_f64_vec(),
            tensors[1].to_f64_vec(),
            tensors[2].to_f64_vec(),
        ));
    }
    found.sort();
    found
}

#[test]
fn samples_of_a_name_become_one() {
    let mut dataset = loaded(
        "1 b 1 first 2 0 0 1 7 1 0\n\
         1 a 1 x 2 1.5 0 2 3 4 1 0\n\
         1 b 1 second 2 0 2.5 1 0 2 0 9\n\
         1 a 1 y 2 0 0 1 0 1 5\n",
    );
    let merged = dataset.merge(2, 1).unwrap();
    assert_eq!((merged.dropped, dataset.len()), (0, 2));
    // The last numbers that are not all 0; of ids, those of the one sample that has some.
    assert_eq!(
        samples(&dataset),
        ["a x [1.5, 0.0] [3.0, 4.0] [5.0]", "b first [0.0, 2.5] [7.0] [9.0]"]
    );
}

#[test]
fn what_does_not_fit_together_is_left_out_and_named() {
    let lines = "1 a 1 x 2 0 0 1 1 1 0\n\
                 1 a 1 x 2 0 0 1 2 1 0\n\
                 1 b 1 x 2 0 0 1 0 1 0\n\
                 1 b 1 x 2 0 0 1 0 1 3\n\
                 1 c 1 x 2 0 0 1 0 1 3\n";
    let mut dataset = loaded(lines);
    let merged = dataset.merge(2, 1).unwrap();
    assert_eq!(merged.dropped, 3);
    assert_eq!(
        merged.reasons,
        [
            "drop ins a size=2, because conflict_slot=query",
            "drop ins c size=1, because merge_size=2"
        ]
    );
    assert_eq!(samples(&dataset), ["b x [0.0, 0.0] [0.0] [3.0]"]);
    // Any number of samples, if nobody says how many.
    let mut dataset = loaded(lines);
    assert_eq!(dataset.merge(0, 1).unwrap().dropped, 2);
}

#[test]
fn samples_without_names_cannot_be_merged() {
    let settings = MemorySettings::new(Arc::new(Lines("")), vec![Slot::ids("a")]);
    let error = MemoryDataset::new(settings).unwrap().merge(2, 1).unwrap_err();
    assert!(error.to_string().contains("parse_ins_id"), "{error}");
}
