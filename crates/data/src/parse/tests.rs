//! Lines against a plain parser that splits and looks up, what is written against what was read,
//! and the words of errors.

mod names;
mod plain_parser;

use proptest::collection::vec;
use proptest::prelude::*;

use self::plain_parser::{Cell, plain_criteo, plain_multi_slot, plain_slot_value};
use super::*;
use crate::Values;

fn slots() -> Vec<Slot> {
    vec![
        Slot::id("click"),
        Slot::floats("dense_feature", 3),
        Slot::ids("1"),
        Slot::ids("a_name_of_more_than_sixteen_bytes"),
        Slot { name: "score".into(), kind: crate::Kind::Floats, shape: None, batched: false },
    ]
}

fn formats() -> [Format; 2] {
    [Format::multi_slot(), Format::slot_value()]
}

/// The values of a sample.
fn row(samples: &Samples, row: usize) -> Vec<Vec<Cell>> {
    let cells = |column: &crate::Column| match column.values() {
        Values::Ids(ids) => ids[column.range(row)].iter().map(|&id| Cell::Id(id)).collect(),
        Values::Floats(floats) => {
            floats[column.range(row)].iter().map(|float| Cell::Float(float.to_bits())).collect()
        }
    };
    samples.columns().iter().map(cells).collect()
}

/// What lines become, bad ones passed over.
fn parse(format: &Format, slots: &[Slot], text: &[u8]) -> (Samples, Vec<BadLine>) {
    let mut samples = Samples::of(slots);
    let bad = BadLines::tolerate(u64::MAX);
    let mut parser = Parser::new(format, slots).unwrap();
    parser.block(text, 1, Path::new("file"), &bad, &mut samples).unwrap();
    (samples, bad.first())
}

#[track_caller]
fn refused(format: &Format, line: &str) -> String {
    let slots = slots();
    let mut samples = Samples::of(&slots);
    let mut parser = Parser::new(format, &slots).unwrap();
    let problem = parser.line(line.as_bytes(), &mut samples).unwrap_err();
    assert_eq!(samples, Samples::of(&slots), "a bad line leaves no trace");
    problem
}

#[test]
fn tokens_come_in_any_order_and_may_be_left_out() {
    let text = b"click:1 dense_feature:0.5 dense_feature:1.5 dense_feature:-2 1:7 score:0.25\n\
        1:8 1:9 other:x:y click:0\n\
        \n\
        a_name_of_more_than_sixteen_bytes:5 1:1 a_name_of_more_than_sixteen_bytes:6 \r\n\
        click:1 dense_feature:0.5 dense_feature:1.5 dense_feature:-2 1:7 score:0.25";
    let (samples, bad) = parse(&Format::slot_value(), &slots(), text);
    assert_eq!((samples.len(), bad), (4, vec![]));
    let ids = |at: usize| match samples.columns()[at].values() {
        Values::Ids(ids) => ids.clone(),
        Values::Floats(_) => panic!("ids"),
    };
    assert_eq!(
        [ids(0), ids(2), ids(3)],
        [vec![1, 0, 0, 1], vec![7, 8, 9, 1, 7], vec![0, 0, 5, 6, 0]]
    );
    let dense = [0.5, 1.5, -2.0, 0., 0., 0., 0., 0., 0., 0.5, 1.5, -2.0];
    assert_eq!(*samples.columns()[1].values(), Values::Floats(dense.to_vec()));
    assert_eq!(row(&samples, 0), row(&samples, 3));
}

/// So many names that a parser stops learning their order.
#[test]
fn names_without_any_order_are_looked_up() {
    let names: Vec<String> = (0..300).map(|name| format!("n{name}")).collect();
    let slots: Vec<Slot> = names.iter().map(Slot::id).collect();
    let mut text = String::new();
    for line in 0..40_usize {
        // 7 and 300 have no common divisor, so every name comes once.
        let order = (0..300).map(|at| (at * 7 + 13 * line) % 300);
        text += &order.map(|at| format!("n{at}:{} x{line}_{at}:1 ", at + line)).collect::<String>();
        text.push('\n');
    }
    let (samples, bad) = parse(&Format::slot_value(), &slots, text.as_bytes());
    assert_eq!((samples.len(), bad), (40, vec![]));
    for (line, text) in text.lines().enumerate() {
        let expected = plain_slot_value(text.as_bytes(), &slots).unwrap();
        assert_eq!(row(&samples, line), expected);
    }
}

#[test]
fn padding_and_names_can_be_chosen() {
    let slots = [Slot::id("label"), Slot::ids("query")];
    let options = SlotValueOptions {
        tokens: vec!["click".into(), "7".into()],
        padding: 3,
        ..SlotValueOptions::default()
    };
    let (samples, _) = parse(&Format::SlotValue(options), &slots, b"click:1\n7:5 7:6 label:9\n");
    assert_eq!(*samples.columns()[0].values(), Values::Ids(vec![1, 3]));
    assert_eq!(*samples.columns()[1].values(), Values::Ids(vec![3, 5, 6]));
}

#[test]
fn counts_say_how_many_values_follow() {
    let slots = [Slot::ids("query"), Slot::id("click")];
    let (samples, bad) = parse(&Format::multi_slot(), &slots, b"3 1926 8 17 1 1\n1 5  1 0 \r\n");
    assert_eq!(bad, []);
    assert_eq!(*samples.columns()[0].values(), Values::Ids(vec![1926, 8, 17, 5]));
    assert_eq!(*samples.columns()[1].values(), Values::Ids(vec![1, 0]));
    let options = MultiSlotOptions { parse_ins_id: true, parse_content: true };
    let (named, bad) = parse(&Format::MultiSlot(options), &slots, b"1 x7 1 {} 1 5 1 0\n2 x 1 1\n");
    assert_eq!((named.len(), bad.len()), (1, 1));
    assert!(bad[0].problem.contains("name (ins_id)"), "{}", bad[0].problem);
}

#[test]
fn names_and_contents_are_kept_where_slots_are_for_them() {
    let slots = [Slot::ids("query"), Slot::ids(crate::INS_ID), Slot::ids(crate::CONTENT)];
    let options = MultiSlotOptions { parse_ins_id: true, parse_content: true };
    let text = b"1 x7 1 {} 2 5 6\n  1  abc 1 d 1 9\n1 lost 1 d 1 x\n";
    let (samples, bad) = parse(&Format::MultiSlot(options), &slots, text);
    assert_eq!(bad.len(), 1);
    let mut batch = crate::Batch::of(&slots);
    batch.fill(&samples, 0..2);
    assert_eq!(batch.texts(crate::INS_ID), ["x7", "abc"]);
    assert_eq!(batch.texts(crate::CONTENT), ["{}", "d"]);
    assert_eq!(batch.tensors()[0].as_slice::<i64>().unwrap(), [5, 6, 9]);
}

#[test]
fn a_line_can_be_a_batch() {
    let slots = [Slot::id("label"), Slot::floats("dense", 2), Slot::ids("query")];
    let slots = slots.map(|slot| Slot { batched: true, ..slot });
    let text = b"3 1 0 1 6 1 2 3 4 5 6 3 7 8 9\n1 0 2 0 0 1 5\n";
    let (samples, bad) = parse(&Format::multi_slot(), &slots, text);
    assert_eq!((bad, samples.len()), (vec![], 2));
    let mut batch = crate::Batch::of(&slots);
    let dims = |batch: &crate::Batch| {
        batch.tensors().iter().map(|tensor| tensor.dims().to_vec()).collect::<Vec<_>>()
    };
    batch.fill(&samples, 0..1);
    assert_eq!((batch.rows(), dims(&batch)), (3, vec![vec![3, 1], vec![3, 2], vec![3, 1]]));
    assert_eq!(batch.tensors()[2].lod().to_vec(), [vec![0, 1, 2, 3]]);
    batch.fill(&samples, 0..2);
    assert_eq!((batch.rows(), dims(&batch)[1].clone()), (4, vec![4, 2]));
    for (line, words) in [
        ("2 1 0 3 1 2 3 2 1 2", "slot `dense`: 3 values are not whole samples of [2]"),
        ("2 1 0 4 1 2 3 4 1 7", "of 2 samples by slot `label`, but of 1 by slot `query`"),
    ] {
        let (_, bad) = parse(&Format::multi_slot(), &slots, line.as_bytes());
        assert!(bad[0].problem.contains(words), "{}", bad[0].problem);
    }
}

#[test]
fn a_bad_line_is_named_with_its_slot_and_reason() {
    let (multi, tokens) = (Format::multi_slot(), Format::slot_value());
    for (format, line, words) in [
        (&tokens, "click:1 1:x", "slot `1`: `x` is not a whole number of 64 bits"),
        (&tokens, "click:1.0", "slot `click`: `1.0` is not a whole number of 64 bits"),
        (&tokens, "click:", "slot `click`: `` is not a whole number of 64 bits"),
        (&tokens, "score:nan", "slot `score`: `nan` is not a finite number"),
        (&tokens, "score:1e99", "slot `score`: `1e99` is not a finite number"),
        (&tokens, "click:1 click:1", "slot `click` has 2 values, not 1"),
        (&tokens, "dense_feature:1", "slot `dense_feature` has 1 values, not 3"),
        (&tokens, "click:1 7", "`7` has no colon: tokens are `slot:value`"),
        (&tokens, "1:18446744073709551616", "is not a whole number of 64 bits"),
        (&tokens, "  ", "the line is empty"),
        (&tokens, "click:1\nclick:0", "there is a line end within the line"),
        (&multi, "1 1 3 0.5 x 1", "slot `dense_feature`: `x` is not a finite number"),
        (&multi, "1 1 2 0.5 0.5", "slot `dense_feature` has 2 values, not 3"),
        (&multi, "1 1 3 1 2 3 9 1 2", "slot `1`: the line ends before its 9 values"),
        (&multi, "1 1 3 1 2 3 1 1 1 1 1 1 1", "after the last slot, `score`, there is more"),
    ] {
        let problem = refused(format, line);
        assert!(problem.contains(words), "{line:?}: {problem}");
    }
    let zero = refused(&multi, "1 1 3 1 2 3 0 1 5 1 0.5");
    let words = [
        "Got unexpected input, maybe something wrong with it.",
        "The Origin Input Data:\n1 1 3 1 2 3 0 1 5 1 0.5\n",
        "1. The number of ids can not be zero, you need padding.",
        "2. The input data contains unresolvable characters.",
        "3. We detect the slot 2's feasign number is 0 which is illegal",
    ];
    for words in words {
        assert!(zero.contains(words), "{zero}");
    }
}

#[test]
fn line_numbers_count_bad_and_blank_lines() {
    let slots = [Slot::id("a")];
    let text = b"a:1\n\na:x\na:2\r\n \nb\n";
    let (samples, bad) = parse(&Format::slot_value(), &slots, text);
    assert_eq!(*samples.columns()[0].values(), Values::Ids(vec![1, 2]));
    assert_eq!(bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [3, 6]);
    let mut parser = Parser::new(&Format::slot_value(), &slots).unwrap();
    let (path, bad, mut out) = (Path::new("part-1"), BadLines::default(), Samples::of(&slots));
    let error = parser.block(text, 11, path, &bad, &mut out).unwrap_err().to_string();
    assert_eq!(error, "part-1:13: slot `a`: `x` is not a whole number of 64 bits");
}

#[test]
fn names_that_cannot_be_told_apart_are_refused() {
    let refused = |tokens: &[&str]| {
        let tokens = tokens.iter().map(|&name| name.into()).collect();
        let format = Format::SlotValue(SlotValueOptions { tokens, ..SlotValueOptions::default() });
        Parser::new(&format, &[Slot::id("a"), Slot::id("b")]).unwrap_err().to_string()
    };
    assert!(refused(&["x", "x"]).contains("two slots have the name `x`"));
    assert!(refused(&["x"]).contains("there are 2 slots, but names in the data for 1"));
    assert!(refused(&["x", "y:z"]).contains("`y:z` cannot stand before the colon"));
}

/// The values of PaddleRec's reader, run with `PYTHONHASHSEED=0` on Python 3.11.
#[test]
fn criteo_lines_are_converted_as_paddlerec_does() {
    let mut slots = vec![Slot::id("click"), Slot::floats("dense_feature", 13)];
    slots.extend((1..=26).map(|word| Slot::id(word.to_string())));
    let line = "1\t1\t1\t5\t0\t1382\t4\t15\t2\t181\t1\t2\t\t2\t68fd1e64\t80e26c9b\tfb936136\t\
        7b4723c4\t25c83c98\t7e0ccccf\tde7995b8\t1f89b562\ta73ee510\ta8cd5504\tb2cb9c98\t37c9c164\t\
        2824a5f6\t1adce6ef\t8ba8b39a\t891b62e7\te5ba7672\tf54016b9\t21ddcdc9\tb1252a9d\t07b5194c\t\t\
        3a171ecb\tc5c50484\te8b83407\t9727dd16";
    let (samples, bad) = parse(&Format::criteo(), &slots, format!("{line}\r\n{line}").as_bytes());
    assert_eq!((samples.len(), bad), (2, vec![]));
    let dense: Vec<f32> =
        [1. / 20., 4. / 603., 5. / 100., 0., 1382. / 64000., 4. / 500., 15. / 100., 2. / 50.]
            .into_iter()
            .chain([181. / 500., 1. / 10., 2. / 10., 0., 2. / 50.])
            .map(|value: f64| value as f32)
            .collect();
    assert_eq!(*samples.columns()[1].values(), Values::Floats([dense.clone(), dense].concat()));
    let words: Vec<_> = row(&samples, 0)[2..].iter().map(|cells| cells[0]).collect();
    assert_eq!(words[0], Cell::Id(769_538));
    // `hash("35") % 1000001`: a missing word.
    assert_eq!(words[21], Cell::Id(291_061));
    assert_eq!(row(&samples, 0), row(&samples, 1));

    for (wrong, words) in [
        (line.replacen('\t', " ", 1), "the line has 39 fields, not 40"),
        (line.replacen('1', "2", 1), "the label `2` is neither 0 nor 1"),
        (line.replacen("1382", "x", 1), "number 5 of the line, `x`, is not a finite number"),
        (line.replacen("80e26c9b", "8 b", 1), "slot `2`: `8 b` is not a word"),
    ] {
        let (samples, bad) = parse(&Format::criteo(), &slots, wrong.as_bytes());
        assert_eq!(samples.len(), 0);
        assert!(bad[0].problem.contains(words), "{}", bad[0].problem);
    }
}

#[test]
fn criteo_lines_hold_certain_slots_only() {
    let refused = |slot: Slot| Parser::new(&Format::criteo(), &[slot]).unwrap_err().to_string();
    assert!(refused(Slot::id("27")).contains("the words `1` to `26`"));
    assert!(refused(Slot::floats("3", 1)).contains("which is 1 id"));
    assert!(refused(Slot::floats("dense_feature", 12)).contains("which is 13 numbers"));
}

/// Numbers as files have them, right and wrong.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0_u64..2_000_000).prop_map(|id| id.to_string()),
        4 => (0_u32..2_000_000).prop_map(|part| format!("{}", f64::from(part) / 1e6)),
        1 => any::<u64>().prop_map(|id| id.to_string()),
        1 => any::<i64>().prop_map(|id| id.to_string()),
        1 => any::<f64>().prop_map(|value| value.to_string()),
        1 => "[-+]?[0-9]{0,22}(\\.[0-9]{0,20})?(e-?[0-9]{1,2})?",
        1 => "[0-9x:. ]{0,4}",
    ]
}

fn token() -> impl Strategy<Value = String> {
    let known: Vec<String> = slots().into_iter().map(|slot| slot.name).collect();
    let name = prop_oneof![8 => proptest::sample::select(known), 1 => "[a-z1_:]{0,5}"];
    (name, value(), proptest::sample::select(&[" ", " ", " ", "  ", "\t", "\r"][..]))
        .prop_map(|(name, value, space)| format!("{name}:{value}{space}"))
}

/// Lines whose first tokens are right, so that some lines are right as a whole.
fn slot_value_line() -> impl Strategy<Value = String> {
    let good =
        (0_u8..2, vec(0_u32..1000, 3), vec(any::<u64>(), 0..3)).prop_map(|(click, dense, ids)| {
            let dense = dense.iter().map(|x| format!("dense_feature:{} ", f64::from(*x) / 1e3));
            let ids = ids.iter().map(|id| format!("1:{id} "));
            format!("click:{click} ") + &dense.chain(ids).collect::<String>()
        });
    (good, vec(token(), 0..3), any::<bool>()).prop_map(|(good, tokens, both)| {
        let tokens = tokens.concat();
        if both { good + &tokens } else { tokens }
    })
}

fn good_multi_slot_line() -> impl Strategy<Value = String> + Clone {
    let good = |(click, dense, ids, more, end): (u8, Vec<u32>, Vec<u64>, Vec<u64>, &str)| {
        let dense: String = dense.iter().map(|x| format!("{} ", f64::from(*x) / 1e3)).collect();
        let list = |ids: &[u64]| {
            let list: String = ids.iter().map(|id| format!("{id} ")).collect();
            format!("{} {list}", ids.len())
        };
        format!("1 {click} 3 {dense}{}{}1 0.5{end}", list(&ids), list(&more))
    };
    // Slots of one value are most frequent, also in all lines that are read beside each other.
    let ids = || prop_oneof![4 => vec(0_u64..3_000_000, 1), 1 => vec(any::<u64>(), 1..4)];
    let ends = proptest::sample::select(&["", "", "", " ", "\r", " \r"][..]);
    (0_u8..2, vec(0_u32..1_000_000, 3), ids(), ids(), ends).prop_map(good)
}

fn multi_slot_line() -> impl Strategy<Value = String> {
    let good = good_multi_slot_line();
    let anything = vec(value(), 0..12).prop_map(|values| values.join(" "));
    let damaged =
        (good.clone(), any::<proptest::sample::Index>(), value()).prop_map(|(line, at, value)| {
            let mut tokens: Vec<_> = line.split(' ').collect();
            let at = at.index(tokens.len());
            tokens[at] = &value;
            tokens.join(" ")
        });
    prop_oneof![good, damaged, anything]
}

/// Compares the samples of lines with those of a plain parser.
fn check(
    format: &Format,
    text: &[u8],
    plain: impl Fn(&[u8], &[Slot]) -> Option<Vec<Vec<Cell>>>,
) -> std::result::Result<(), TestCaseError> {
    let slots = slots();
    let lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    let expected: Vec<_> = lines.iter().filter_map(|line| plain(line, &slots)).collect();
    let (samples, _) = parse(format, &slots, text);
    let found: Vec<_> = (0..samples.len()).map(|at| row(&samples, at)).collect();
    prop_assert_eq!(&found, &expected);

    // One line at a time gives the same, and what is written is read again.
    let mut parser = Parser::new(format, &slots).unwrap();
    let mut single = Samples::of(&slots);
    for line in lines {
        let _ = parser.line(line, &mut single);
    }
    prop_assert_eq!(&single, &samples);
    for format in formats() {
        let mut written = Vec::new();
        let writer = LineWriter::new(&format, &slots).unwrap();
        (0..samples.len()).for_each(|row| writer.write(&samples, row, &mut written));
        let (again, bad) = parse(&format, &slots, &written);
        prop_assert_eq!(bad, vec![]);
        prop_assert_eq!(&again, &samples);
    }
    Ok(())
}

/// A field of a raw Criteo line, right or wrong.
fn criteo_field() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (-3_i64..5000).prop_map(|number| number.to_string()),
        6 => "[0-9a-f]{8}",
        2 => Just(String::new()),
        1 => any::<u64>().prop_map(|number| number.to_string()),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => any::<f32>().prop_map(|number| number.to_string()),
        1 => "[ -~]{0,12}",
        1 => "\\PC{8}",
    ]
}

fn good_criteo_line() -> impl Strategy<Value = String> + Clone {
    let number = prop_oneof![8 => "[0-9]{0,4}", 1 => "-?[0-9]{0,9}"];
    ("[01]", vec(number, 13), vec("([0-9a-f]{8})?", 26), "\r?").prop_map(
        |(label, numbers, words, end)| {
            let fields = numbers.iter().chain(&words).map(|field| format!("\t{field}"));
            label + &fields.collect::<String>() + &end
        },
    )
}

fn criteo_line() -> impl Strategy<Value = String> {
    let damage = vec((any::<proptest::sample::Index>(), criteo_field()), 0..3);
    (good_criteo_line(), damage).prop_map(|(line, damage)| {
        let mut fields: Vec<_> = line.split('\t').map(str::to_owned).collect();
        for (at, field) in damage {
            let at = at.index(fields.len());
            fields[at] = field;
        }
        fields.join("\t")
    })
}

/// Compares the samples of Criteo's lines with those of a plain parser.
fn check_criteo(lines: &[String]) -> std::result::Result<(), TestCaseError> {
    let (text, slots) = (lines.join("\n"), criteo_slots());
    let expected: Vec<_> = text.split('\n').filter_map(plain_criteo).collect();
    let (samples, _) = parse(&Format::criteo(), &slots, text.as_bytes());
    let found: Vec<_> = (0..samples.len()).map(|at| row(&samples, at)).collect();
    prop_assert_eq!(found, expected);
    Ok(())
}

proptest! {
    #[test]
    fn criteo_lines_agree_with_a_plain_parser(lines in vec(criteo_line(), 1..4)) {
        check_criteo(&lines)?;
    }

    /// So many good lines that they are read beside each other.
    #[test]
    fn many_lines_agree_with_a_plain_parser(
        criteo in vec(prop_oneof![9 => good_criteo_line(), 1 => criteo_line()], 4..24),
        multi_slot in vec(prop_oneof![9 => good_multi_slot_line(), 1 => multi_slot_line()], 4..24),
    ) {
        check_criteo(&criteo)?;
        check(&Format::multi_slot(), multi_slot.join("\n").as_bytes(), plain_multi_slot)?;
    }

    #[test]
    fn slot_value_lines_agree_with_a_plain_parser(lines in vec(slot_value_line(), 1..8)) {
        check(&Format::slot_value(), lines.join("\n").as_bytes(), plain_slot_value)?;
    }

    #[test]
    fn multi_slot_lines_agree_with_a_plain_parser(lines in vec(multi_slot_line(), 1..8)) {
        check(&Format::multi_slot(), lines.join("\n").as_bytes(), plain_multi_slot)?;
    }

    /// The bounded form of the fuzz target `data_lines`.
    #[test]
    fn any_bytes_are_samples_or_bad_lines(bytes in vec(any::<u8>(), 0..96)) {
        check(&Format::slot_value(), &bytes, plain_slot_value)?;
        check(&Format::multi_slot(), &bytes, plain_multi_slot)?;
        let criteo = [Slot::id("click"), Slot::floats("dense_feature", 13), Slot::id("1")];
        parse(&Format::criteo(), &criteo, &bytes);
    }

    /// Bytes that are likely to mean something.
    #[test]
    fn any_likely_bytes_are_samples_or_bad_lines(text in "(click|1|score|[0-9. :\t\r\n-]){0,40}") {
        check(&Format::slot_value(), text.as_bytes(), plain_slot_value)?;
        check(&Format::multi_slot(), text.as_bytes(), plain_multi_slot)?;
    }
}
