//! Any bytes are samples or bad lines; a line alone gives what it gives among others, and samples
//! survive writing.

#![no_main]

use std::path::Path;

use bireme_data::parse::{BadLines, Format, LineWriter, Parser, criteo_slots};
use bireme_data::{Kind, Samples, Slot};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let slots = [
        Slot::id("click"),
        Slot::floats("dense", 2),
        Slot::ids("1"),
        Slot {
            name: "a_name_of_more_than_sixteen_bytes".into(),
            kind: Kind::Floats,
            shape: None,
            batched: false,
        },
    ];
    for format in [Format::multi_slot(), Format::slot_value()] {
        let samples = parse(&format, &slots, bytes);
        let writer = LineWriter::new(&format, &slots).expect("these formats can be written");
        let mut written = Vec::new();
        (0..samples.len()).for_each(|row| writer.write(&samples, row, &mut written));
        assert_eq!(parse(&format, &slots, &written), samples);
    }
    parse(&Format::criteo(), &criteo_slots(), bytes);
    if let Ok(format) = Format::guess(bytes) {
        let _ = format.guess_slots(bytes);
    }
});

fn parse(format: &Format, slots: &[Slot], bytes: &[u8]) -> Samples {
    let mut parser = Parser::new(format, slots).expect("the slots fit the format");
    let (mut samples, bad) = (Samples::of(slots), BadLines::tolerate(u64::MAX));
    // A last line without an end may be taken for cut, which is nothing that a line alone shows.
    let bytes = &[bytes, b"\n"].concat();
    let parsed = parser.block(bytes, 1, Path::new("input"), &bad, &mut samples);
    parsed.expect("all bad lines are tolerated");
    let mut single = Samples::of(slots);
    for line in bytes.split(|&byte| byte == b'\n') {
        let _ = parser.line(line, &mut single);
    }
    assert_eq!(single, samples);
    samples
}
