//! `bireme data`: what people see of their files, and what becomes of them.

use std::fs;
use std::path::Path;

use expect_test::{Expect, expect};

use crate::{Ran, bireme};

const SLOT_VALUE: &str = "click:1 dense_feature:0.5 dense_feature:0.25 1:104733 1:887343\n\
    1:7 click:0 dense_feature:0.0 dense_feature:-1.5\n\
    click:0 1:104733 dense_feature:3 dense_feature:0.125 2:9\n";

/// Runs `bireme data` with arguments that are divided by spaces.
fn data(folder: &Path, args: &str) -> Ran {
    let args: Vec<&str> = ["data"].into_iter().chain(args.split(' ')).collect();
    bireme(folder, &args, "")
}

#[track_caller]
fn check(ran: &Ran, expected: &Expect) {
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    expected.assert_eq(&ran.stdout);
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("part-0"), SLOT_VALUE).unwrap();
    folder
}

#[test]
fn head_shows_samples_slot_by_slot() {
    let folder = folder();
    check(
        &data(folder.path(), "head part-0 -n 2"),
        &expect![[r#"
            1 file of slot_value lines with 4 slots

            slot           type      1              2
            click          id        1              0
            dense_feature  2 floats  0.5 0.25       0 -1.5
            1              ids       104733 887343  7
            2              id        0              0
        "#]],
    );
    check(
        &data(folder.path(), "head part-0 --slots 1,dense_feature:float2 -n 1"),
        &expect![[r#"
            1 file of slot_value lines with 2 slots

            slot           type      1
            1              ids       104733 887343
            dense_feature  2 floats  0.5 0.25
        "#]],
    );
}

#[test]
fn long_lists_are_cut() {
    let folder = folder();
    let ids: String = (1..=40).map(|id| format!(" 1:{}", id * 1000)).collect();
    fs::write(folder.path().join("long"), format!("click:1{ids}\n")).unwrap();
    let ran = data(folder.path(), "head long");
    assert!(ran.stdout.contains("1000 2000 3000 4000 5000 … (40)"), "{}", ran.stdout);
}

#[test]
fn stat_counts_what_is_there() {
    let folder = folder();
    check(
        &data(folder.path(), "stat part-0"),
        &expect![[r#"
            format     slot_value
            files      1
            size       169 B
            samples    3
            bad lines  0
            positive   0.3333 (slot `click`)

            slot           type      values  a sample  distinct    least  largest    mean
            click          id             3         1         2
            dense_feature  2 floats       6         2            -1.5000   3.0000  0.3958
            1              ids            4       1-2         3
            2              id             3         1         2
        "#]],
    );
}

#[test]
fn bad_lines_are_named_and_may_be_skipped() {
    let folder = folder();
    fs::write(folder.path().join("part-1"), "click:1\nclick:x\n\nclick:0 1\n").unwrap();
    let slots = "--slots click:id --format slot_value";
    let ran = data(folder.path(), &format!("stat part-1 {slots}"));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    expect![[r#"
        error: part-1:2: slot `click`: `x` is not a whole number of 64 bits
    "#]]
    .assert_eq(&ran.stderr);
    let ran = data(folder.path(), &format!("stat part-1 {slots} --skip_bad_lines 2"));
    assert_eq!(ran.code, Some(0));
    assert!(ran.stdout.contains("samples    1\nbad lines  2\n"), "{}", ran.stdout);
    expect![[r#"
        warning: 2 bad lines were skipped:
          part-1:2: slot `click`: `x` is not a whole number of 64 bits
          part-1:4: `1` has no colon: tokens are `slot:value`
    "#]]
    .assert_eq(&ran.stderr);
}

#[test]
fn files_become_another_format_and_the_same_again() {
    let folder = folder();
    let slots = "--slots click:id,1,2,dense_feature:float2";
    check(
        &data(folder.path(), &format!("convert part-0 {slots} --to multislot -o multi.gz")),
        &expect![[r#"
            3 samples in 1 file written to multi.gz
        "#]],
    );
    let command =
        format!("convert multi.gz {slots} --format multislot --to slot_value -o out/x.zst");
    assert_eq!(data(folder.path(), &command).code, Some(0));
    let command = format!("convert out/*.zst {slots} --to multislot -o again");
    assert_eq!(data(folder.path(), &command).code, Some(0));
    expect![[r#"
        1 1 2 104733 887343 1 0 2 0.5 0.25
        1 0 1 7 1 0 2 0 -1.5
        1 0 1 104733 1 9 2 3 0.125
    "#]]
    .assert_eq(&fs::read_to_string(folder.path().join("again")).unwrap());
    let command = "convert out part-0 --slots click:id --to multislot -o all";
    assert_eq!(data(folder.path(), command).code, Some(0));
    for name in ["x.zst", "part-0"] {
        assert!(folder.path().join("all").join(name).is_file());
    }
}

#[test]
fn raw_criteo_lines_get_their_slots_and_ids() {
    let folder = folder();
    let line = format!("1\t10{}\t68fd1e64{}\n", "\t".repeat(12), "\t".repeat(25));
    fs::write(folder.path().join("raw.tsv"), line).unwrap();
    let ran = data(folder.path(), "convert raw.tsv --to slot_value -o raw.txt");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let text = fs::read_to_string(folder.path().join("raw.txt")).unwrap();
    assert!(text.starts_with("click:1 1:769538 2:"), "{text}");
    assert!(text.contains(" dense_feature:0.5 dense_feature:0 "), "{text}");
    let ran = data(folder.path(), "convert part-0 --to criteo -o raw");
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("ids are hashes of words"), "{}", ran.stderr);
}

#[test]
fn files_go_through_a_command_first() {
    let folder = folder();
    let args = ["data", "head", "part-0", "-n", "1", "--pipe-command", "sed s/click/label/"];
    let ran = bireme(folder.path(), &args, "");
    assert!(ran.stdout.contains("label          id"), "{}{}", ran.stdout, ran.stderr);
    let args = ["data", "stat", "part-0", "--slots", "click:id", "--pipe-command", "cat; exit 4"];
    let ran = bireme(folder.path(), &args, "");
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("failed with exit code 4"), "{}", ran.stderr);
}

#[test]
fn what_cannot_be_read_or_written_is_refused() {
    let folder = folder();
    fs::write(folder.path().join("table.csv"), "age,job\n1,2\n").unwrap();
    fs::write(folder.path().join("empty"), "").unwrap();
    for (args, words) in [
        ("head none", "cannot read `none`: there is no such file or folder"),
        ("head x*", "no file matches the pattern"),
        ("head table.csv", "`age,job` looks neither"),
        ("head empty", "holds no lines"),
        ("stat part-0 --label x", "there is no slot `x`"),
        ("convert part-0 --to multislot -o part-0", "would overwrite itself"),
        ("convert part-0 part-0 --to multislot -o d", "two files would become `d/part-0`"),
    ] {
        let ran = data(folder.path(), args);
        assert_eq!(ran.code, Some(1), "{args}");
        assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains(words), "{}", ran.stderr);
    }
    assert_eq!(fs::read_to_string(folder.path().join("part-0")).unwrap(), SLOT_VALUE);
    let ran = data(folder.path(), "head part-0 --slots a:int");
    assert_eq!(ran.code, Some(2));
}
