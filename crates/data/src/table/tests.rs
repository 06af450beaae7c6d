//! Tables from text to samples.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::parse::{BadLines, Format, Parser, TableOptions};
use crate::source::{LineShare, Reader, Source};
use crate::{Samples, Slot, Values};

const TEXT: &str = "click,user,age,genres,note\n\
    1,ann,20,a|b,\"x, \"\"y\"\"\"\n\
    0, bob ,30,,\r\n\
    0,ann,,b|c,z\n";

fn csv(header: Header) -> Layout {
    Layout::Csv(Csv { separator: ',', quote: Some('"'), header, comment: Some("#".into()) })
}

fn settings(layout: Layout, features: Vec<(&str, Rule)>) -> Settings {
    let feature = |(column, rule): (&str, Rule)| Feature { column: column.into(), rule };
    Settings {
        layout,
        label: Label { column: "click".into(), positive: vec![], negative: vec![] },
        weight: None,
        features: features.into_iter().map(feature).collect(),
        missing: vec!["NA".into()],
        hash_buckets: 1000,
    }
}

fn words(min_count: u64) -> Words {
    Words::Vocabulary { min_count }
}

fn number(scale: Scale) -> Rule {
    Rule::Number(Number { scale, fill: Fill::Mean })
}

fn slots_of(settings: &Settings) -> (Vec<Slot>, Vec<String>) {
    let mut slots = vec![Slot::id("label")];
    let mut tokens = vec![LABEL.to_owned()];
    for (at, (_, feature)) in settings.sparse().enumerate() {
        let name = format!("C{}", at + 1);
        slots.push(if matches!(feature.rule, Rule::List(..)) {
            Slot::ids(name)
        } else {
            Slot::id(name)
        });
        tokens.push(format!("{IDS}{at}"));
    }
    if settings.dense() > 0 {
        slots.push(Slot::floats("dense_input", settings.dense()));
        tokens.push(DENSE.to_owned());
    }
    (slots, tokens)
}

/// Writes the text, learns from it, and reads it.
fn read(settings: &Settings, text: &str) -> crate::Result<(Learned, Samples)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("part-0");
    std::fs::write(&path, text).unwrap();
    let learned = learn(settings, std::slice::from_ref(&path), 0, 1, &|_| true)?;
    let file = folder.path().join("data.json");
    learned.write(&file).unwrap();
    assert_eq!(Learned::read(&file).unwrap(), learned);
    let samples = samples(&learned, &path, None)?;
    Ok((learned, samples))
}

fn samples(learned: &Learned, path: &Path, share: Option<LineShare>) -> crate::Result<Samples> {
    let (slots, tokens) = slots_of(&learned.settings);
    let table = Arc::new(Table::new(learned.clone())?);
    let format = Format::Table(TableOptions { table, tokens });
    let source = Source { share, ..Source::new(vec![path.to_owned()], format) };
    let mut reader = Reader::open(&source, 0, &slots)?;
    let mut samples = Samples::of(&slots);
    while reader.read(&mut samples, usize::MAX)? {}
    Ok(samples)
}

fn ids(samples: &Samples, column: usize) -> Vec<Vec<u64>> {
    let column = &samples.columns()[column];
    let Values::Ids(ids) = column.values() else { panic!("ids") };
    (0..samples.len()).map(|row| ids[column.range(row)].to_vec()).collect()
}

fn floats(samples: &Samples, column: usize) -> Vec<f32> {
    let Values::Floats(floats) = samples.columns()[column].values() else { panic!("floats") };
    floats.clone()
}

#[test]
fn columns_become_slots() {
    let features = vec![
        ("user", Rule::Word(words(2))),
        ("age", Rule::Bins(Bins::Edges(vec![20.0, 25.0]))),
        ("genres", Rule::List('|', words(1))),
        ("age", number(Scale::Standard)),
    ];
    let settings = settings(csv(Header::Line), features);
    let (learned, samples) = read(&settings, TEXT).unwrap();
    assert_eq!((learned.samples, learned.positive), (3, 1));
    assert_eq!(ids(&samples, 0), [[1], [0], [0]]);
    // One user has no id of its own: `bob`, who is there once.
    assert_eq!(ids(&samples, 1), [[2], [1], [2]]);
    // From 3 on: missing, below 20, from 20, from 25.
    assert_eq!(ids(&samples, 2), [[5], [6], [3]]);
    // From 7 on: others, `b` twice, then nothing, `a` and `c`.
    assert_eq!(ids(&samples, 3), [vec![10, 8], vec![9], vec![8, 11]]);
    assert_eq!(learned.rows(), 12);
    // A mean of 25 and a deviation of 5; what is missing is the mean.
    assert_eq!(floats(&samples, 4), [-1.0, 1.0, 0.0]);
}

#[test]
fn words_that_are_hashed_need_no_look_at_the_data() {
    let features = vec![("user", Rule::Word(Words::Hash)), ("note", Rule::Word(Words::Hash))];
    let settings = settings(csv(Header::Line), features);
    assert!(!settings.must_learn());
    let learned = Learned::without_data(settings);
    assert_eq!(learned.rows(), 1001);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    std::fs::write(&path, TEXT).unwrap();
    let samples = samples(&learned, &path, None).unwrap();
    let users = ids(&samples, 1);
    assert_eq!(users[0], users[2]);
    assert_ne!(users[0], users[1]);
    assert!(users.iter().all(|id| (1..=1000).contains(&id[0])));
}

#[test]
fn scales_and_quantiles_are_those_of_the_data() {
    let rows: String = (0..100).map(|at| format!("{},{at}\n", at % 2)).collect();
    let text = format!("click,x\n{rows}");
    let of = |rule: Rule| {
        let (learned, samples) =
            read(&settings(csv(Header::Line), vec![("x", rule)]), &text).unwrap();
        (learned, samples)
    };
    let (_, least) = of(number(Scale::MinMax));
    assert_eq!((floats(&least, 1)[0], floats(&least, 1)[99]), (0.0, 1.0));
    let (_, plain) = of(number(Scale::None));
    assert_eq!(floats(&plain, 1)[17], 17.0);
    let (_, log) = of(number(Scale::Log));
    let log = floats(&log, 1);
    let mean: f32 = log.iter().sum::<f32>() / 100.0;
    let spread = (log.iter().map(|value| (value - mean).powi(2)).sum::<f32>() / 100.0).sqrt();
    assert!(mean.abs() < 1e-5 && (spread - 1.0).abs() < 1e-5, "{mean} {spread}");
    let (learned, binned) = of(Rule::Bins(Bins::Quantiles(4)));
    let Becomes::Range { edges, .. } = &learned.columns[0].becomes else { panic!("a range") };
    assert_eq!(edges, &[25.0, 50.0, 75.0]);
    assert_eq!(ids(&binned, 1)[24..26], [[2], [3]]);
}

#[test]
fn what_is_wrong_is_named_with_file_line_and_column() {
    let features = || vec![("user", Rule::Word(Words::Hash)), ("age", number(Scale::None))];
    let error = |text: &str, features: Vec<(&str, Rule)>| {
        read(&settings(csv(Header::Line), features), text).unwrap_err().to_string()
    };
    let head = "click,user,age\n";
    for (line, wanted) in [
        ("1,a,x\n", ":2: column `age`: `x` is not a finite number"),
        ("2,a,1\n", ":2: column `click`: `2` is no label: labels are 1 and 0"),
        ("1,a\n", ":2: the line has 2 columns (between `,`), not 3"),
        ("1,a,1,9\n", ":2: the line has 4 columns"),
        ("1,\"a,1\n", ":2: `\"a,1` begins with a quote and does not end in its line"),
        ("1,\"a\"b,1\n", ":2: `\"a\"` is in quotes, and text follows it"),
    ] {
        let error = error(&format!("{head}{line}"), features());
        assert!(error.contains(wanted), "{error}");
    }
    let missing = error("click,usr,age\n1,a,2\n", features());
    assert!(missing.contains(":1: there is no column `user`; did you mean `usr`?"), "{missing}");
    let same = error("click,user,age\n1,a,2\n", features());
    assert!(same.contains("all 1 samples of the training data have the label 1"), "{same}");
    let none = error("click,user,age\n1,a,\n0,a,NA\n", features());
    assert!(none.contains("column `age` has no number in all 2 samples"), "{none}");
}

#[test]
fn labels_may_be_words() {
    let mut of = settings(csv(Header::Names(vec!["x".into(), "click".into()])), vec![]);
    of.features.push(Feature { column: "x".into(), rule: number(Scale::None) });
    of.label.positive = vec![">50K".into(), ">50K.".into()];
    of.label.negative = vec!["<=50K".into()];
    let (_, samples) = read(&of, "# nothing\n1, >50K\n\n2, >50K.\n3, <=50K\n").unwrap();
    assert_eq!(ids(&samples, 0), [[1], [1], [0]]);
    let error = read(&of, "1, >50K\n3, 50K\n").unwrap_err().to_string();
    assert!(
        error.contains(":2: column `click`: `50K` is no label: `data.positive` is `>50K`, "),
        "{error}"
    );
}

#[test]
fn prediction_needs_no_label() {
    let names = ["click", "user", "age"].map(str::to_owned).to_vec();
    for header in [Header::Names(names), Header::Line] {
        let features = vec![("user", Rule::Word(Words::Hash)), ("age", number(Scale::None))];
        let learned = Learned::without_data(settings(csv(header.clone()), features));
        let table = Arc::new(Table::new(learned).unwrap());
        let slots = [Slot::id("C1"), Slot::floats("dense_input", 1)];
        let tokens = vec![format!("{IDS}0"), DENSE.to_owned()];
        let parser = Parser::new(&Format::Table(TableOptions { table, tokens }), &slots).unwrap();
        let read = |head: &str, line: &str| {
            let (mut parser, mut samples) = (parser.clone(), Samples::of(&slots));
            if header == Header::Line {
                parser.begin(head.as_bytes()).unwrap();
            }
            parser.line(line.as_bytes(), &mut samples).unwrap();
            samples
        };
        let with = read("click,user,age\n", "1,ann,7");
        assert_eq!(floats(&with, 1), [7.0]);
        assert_eq!(with, read("user,age\n", "ann,7\r\n"));
    }
}

#[test]
fn columns_may_have_numbers_for_names() {
    let mut of = settings(csv(Header::Numbers), vec![("3", number(Scale::None))]);
    of.label.column = "1".into();
    let (_, samples) = read(&of, "1,x,5,y\n0,x,6,y\n").unwrap();
    assert_eq!(floats(&samples, 1), [5.0, 6.0]);
    let error = read(&of, "1,x\n").unwrap_err().to_string();
    assert!(error.contains(":1: the line has 2 columns, and column 3 is wanted"), "{error}");
    of.label.column = "click".into();
    let error = read(&of, "1,x\n").unwrap_err().to_string();
    assert!(error.contains("`click` is none: write `header: True`"), "{error}");
}

#[test]
fn libsvm_and_libffm_lines_are_tables_too() {
    let fill = Rule::Number(Number { scale: Scale::None, fill: Fill::Value(0.0) });
    let features = vec![("features", Rule::List(' ', words(1))), ("7", fill.clone())];
    let of = settings(Layout::LibSvm, features);
    let text = "+1 3:1 7:1 # a note\n-1 3:1\n0\n";
    let (learned, samples) = read(&of, text).unwrap();
    assert_eq!(learned.rows(), 5);
    assert_eq!(ids(&samples, 0), [[1], [0], [0]]);
    assert_eq!(ids(&samples, 1), [vec![2, 4], vec![2], vec![3]]);
    assert_eq!(floats(&samples, 2), [1.0, 0.0, 0.0]);
    let error = read(&of, "1 3:0.5\n").unwrap_err().to_string();
    assert!(
        error.contains("`3:0.5`: an id has no value beside 1: put `3` under `data.dense`"),
        "{error}"
    );

    let features = vec![("0", Rule::Word(words(1))), ("1", Rule::List(' ', words(1))), ("2", fill)];
    let of = settings(Layout::LibFfm, features);
    let (_, samples) = read(&of, "1 0:17:1 1:5:1 1:6:1 2:9:0.25\n0 0:18:1\n").unwrap();
    assert_eq!(ids(&samples, 1), [[2], [3]]);
    assert_eq!(ids(&samples, 2), [vec![6, 7], vec![5]]);
    assert_eq!(floats(&samples, 3), [0.25, 0.0]);
    for (line, wanted) in [
        ("1 0:17:1 0:18:1\n", "column `0` is there twice: put it under `data.multi`"),
        ("1 0:17\n", "`0:17` is not `field:index:value`"),
        ("0:17:1\n", "`0:17:1` does not begin with a label"),
        ("x 0:17:1\n", "column `click`: `x` is no label"),
    ] {
        let error = read(&of, line).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn processes_that_share_lines_all_read_the_header() {
    let rows: String = (0..100).map(|at| format!("{},u{at},1\n", at % 2)).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    std::fs::write(&path, format!("click,user,age\n{rows}")).unwrap();
    let features = vec![("user", Rule::Word(Words::Hash))];
    let learned = Learned::without_data(settings(csv(Header::Line), features));
    let counts =
        [0, 1].map(|rank| samples(&learned, &path, Some(LineShare { rank, of: 2 })).unwrap().len());
    assert_eq!(counts.iter().sum::<usize>(), 100);
    assert!(counts.iter().all(|&count| count > 30), "{counts:?}");
}

#[test]
fn what_is_learned_does_not_depend_on_threads() {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..5).map(|part| folder.path().join(format!("part-{part}"))).collect();
    for (part, path) in paths.iter().enumerate() {
        let row = |at: usize| format!("{},w{},{}.{at}\n", at % 2, at * part % 13, at * at % 97);
        std::fs::write(path, format!("click,w,x\n{}", (0..200).map(row).collect::<String>()))
            .unwrap();
    }
    let features = vec![
        ("w", Rule::Word(words(3))),
        ("x", number(Scale::Log)),
        ("x", Rule::Bins(Bins::Quantiles(7))),
    ];
    let of = settings(csv(Header::Line), features);
    let [one, four] = [1, 4].map(|threads| learn(&of, &paths, 0, threads, &|_| true).unwrap());
    assert_eq!(one, four);
    let interrupted = learn(&of, &paths, 0, 2, &|_| false).unwrap_err();
    assert!(matches!(interrupted, crate::Error::Interrupted));
}

#[test]
fn bad_lines_may_be_passed_over() {
    let of = settings(csv(Header::Line), vec![("age", number(Scale::None))]);
    let learned = Learned::without_data(of);
    let (slots, tokens) = slots_of(&learned.settings);
    let table = Arc::new(Table::new(learned).unwrap());
    let mut parser = Parser::new(&Format::Table(TableOptions { table, tokens }), &slots).unwrap();
    let text = b"click,age\n1,2\n1,x\n0,\n";
    let (start, lines) = parser.begin(text).unwrap();
    assert_eq!((start, lines), (10, 1));
    let (bad, mut samples) = (BadLines::tolerate(1), Samples::of(&slots));
    parser.block(&text[start..], 2, Path::new("a"), &bad, &mut samples).unwrap();
    assert_eq!((samples.len(), bad.count()), (2, 1));
    assert_eq!(bad.first()[0].line, 3);
}

proptest! {
    #[test]
    fn any_bytes_are_samples_or_bad_lines(
        bytes in prop::collection::vec(prop::sample::select(&b"01ax,|:.\"# -\t\r\n\xff"[..]), 0..200),
    ) {
        let features = || {
            let list = Rule::List('|', Words::Hash);
            vec![("1", Rule::Word(Words::Hash)), ("2", list), ("0", number(Scale::None))]
        };
        let names = ["click", "1", "2", "0"].map(str::to_owned).to_vec();
        for layout in [csv(Header::Line), csv(Header::Names(names)), Layout::LibSvm, Layout::LibFfm] {
            let learned = Learned::without_data(settings(layout, features()));
            let (slots, tokens) = slots_of(&learned.settings);
            let table = Arc::new(Table::new(learned).unwrap());
            let format = Format::Table(TableOptions { table, tokens });
            let mut parser = Parser::new(&format, &slots).unwrap();
            let text = [b"click,1,2,0\n", &bytes[..]].concat();
            let (start, _) = parser.begin(&text).unwrap_or_default();
            let (bad, mut samples) = (BadLines::tolerate(u64::MAX), Samples::of(&slots));
            parser.block(&text[start..], 1, Path::new("a"), &bad, &mut samples).unwrap();
            // A line alone gives what it gives among others.
            let mut single = Samples::of(&slots);
            for line in text[start..].split(|&byte| byte == b'\n') {
                if !line.trim_ascii().is_empty() && !parser.skips(line) {
                    parser.line(line, &mut single).ok();
                }
            }
            prop_assert_eq!(&single, &samples);
        }
        if let Ok(guessed) = guess(&bytes) {
            guessed.profiles(&bytes).ok();
        }
    }
}
