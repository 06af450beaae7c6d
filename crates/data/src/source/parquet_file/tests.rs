//! A Parquet file with plain columns and lists, and what is missing in it.

use std::fs::File;
use std::sync::Arc;

use parquet::data_type::{DoubleType, FloatType, Int32Type, Int64Type};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::parse::{BadLines, Format};
use crate::source::{Reader, Source};
use crate::{Kind, Samples, Slot, Values};

const SCHEMA: &str = "message samples {
    REQUIRED INT32 click (UINT_32);
    OPTIONAL INT64 user;
    OPTIONAL group query (LIST) { REPEATED group list { OPTIONAL INT64 element; } }
    REQUIRED DOUBLE score;
    REPEATED FLOAT dense;
}";

/// Two row groups of three rows each.
fn write(path: &std::path::Path, score: f64) {
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).unwrap();
    for _ in 0..2 {
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int32Type>().write_batch(&[1, 0, -1], None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&[7, -1], Some(&[1, 0, 1]), None).unwrap();
        column.close().unwrap();
        // [1, 2], null, [3, null, 4]
        let mut column = group.next_column().unwrap().unwrap();
        let (defs, reps) = (&[3, 3, 0, 3, 2, 3], &[0, 1, 0, 0, 1, 1]);
        column.typed::<Int64Type>().write_batch(&[1, 2, 3, 4], Some(defs), Some(reps)).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<DoubleType>().write_batch(&[0.5, score, 0.25], None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let (defs, reps) = (&[1, 1, 0, 1, 1], &[0, 1, 0, 0, 1]);
        column.typed::<FloatType>().write_batch(&[1., 2., 3., 4.], Some(defs), Some(reps)).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
}

fn slots() -> Vec<Slot> {
    vec![
        Slot::floats("dense", 2),
        Slot::id("click"),
        Slot::id("user"),
        Slot::ids("query"),
        Slot { name: "score".into(), kind: Kind::Floats, shape: None, batched: false },
    ]
}

fn read(source: &Source, slots: &[Slot]) -> crate::Result<Samples> {
    let mut samples = Samples::of(slots);
    let mut reader = Reader::open(source, 0, slots)?;
    while reader.read(&mut samples, usize::MAX)? {}
    Ok(samples)
}

#[test]
fn columns_and_lists_become_slots() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("part-0");
    write(&path, -2.0);
    let source = Source::new(vec![path], Format::slot_value());
    let samples = read(&source, &slots()).unwrap();
    assert_eq!(samples.len(), 6);
    let ids = |at: usize| match samples.columns()[at].values() {
        Values::Ids(ids) => ids[..ids.len() / 2].to_vec(),
        Values::Floats(_) => panic!("ids"),
    };
    assert_eq!(ids(1), [1, 0, u64::from(u32::MAX)]);
    assert_eq!(ids(2), [7, 0, u64::MAX]);
    assert_eq!(ids(3), [1, 2, 0, 3, 4]);
    let Values::Floats(dense) = samples.columns()[0].values() else { panic!("floats") };
    assert_eq!(dense[..6], [1., 2., 0., 0., 3., 4.]);
    let Values::Floats(score) = samples.columns()[4].values() else { panic!("floats") };
    assert_eq!(score[..3], [0.5, -2.0, 0.25]);
}

#[test]
fn wrong_rows_and_columns_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("part-0");
    write(&path, f64::NAN);
    let mut source = Source::new(vec![path.clone()], Format::slot_value());
    let error = read(&source, &slots()).unwrap_err().to_string();
    assert!(error.contains("part-0:2: slot `score`: NaN is not a finite number"), "{error}");
    source.bad_lines = Arc::new(BadLines::tolerate(2));
    assert_eq!(read(&source, &slots()).unwrap().len(), 4);
    for (slot, words) in [
        (Slot::id("none"), "it has no column `none`"),
        (Slot::id("score"), "slot `score` needs a column of INT64 or INT32"),
        (Slot::floats("dense", 3), "slot `dense` has 2 values, not 3"),
    ] {
        let source = Source::new(vec![path.clone()], Format::slot_value());
        let error = read(&source, &[slot]).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    assert!(read(&source, &slots()).unwrap_err().to_string().starts_with("cannot read `"));
}
