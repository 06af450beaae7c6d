//! Text as PaddleRec's Criteo data has it, from a fixed seed: a label, 13 numbers of which a third
//! are zero and the others have six digits behind the point, and 26 ids below a million.

use std::io::Write;

const NUMBERS: usize = 13;
const WORDS: usize = 26;

/// `click:1 dense_feature:0.163941 … 1:104733 … 26:415402`, a sample a line.
pub(super) fn slot_value(rows: usize) -> Vec<u8> {
    let mut random = Random(1);
    lines(rows, |line| {
        put(line, format_args!("click:{}", random.below(2)));
        for _ in 0..NUMBERS {
            put(line, format_args!(" dense_feature:{}", random.number()));
        }
        for slot in 1..=WORDS {
            put(line, format_args!(" {slot}:{}", random.id()));
        }
    })
}

/// `1 1 1 104733 … 1 415402 13 0.163941 …`, a sample a line.
pub(super) fn multi_slot(rows: usize) -> Vec<u8> {
    let mut random = Random(1);
    lines(rows, |line| {
        put(line, format_args!("1 {}", random.below(2)));
        for _ in 0..WORDS {
            put(line, format_args!(" 1 {}", random.id()));
        }
        put(line, format_args!(" {NUMBERS}"));
        for _ in 0..NUMBERS {
            put(line, format_args!(" {}", random.number()));
        }
    })
}

/// Raw lines: numbers of one to four digits and words of eight, some of which are missing.
pub(super) fn criteo(rows: usize) -> Vec<u8> {
    let mut random = Random(1);
    lines(rows, |line| {
        put(line, format_args!("{}", random.below(2)));
        for _ in 0..NUMBERS {
            let digits = 10_u64.pow(1 + random.below(4) as u32);
            match random.below(6) {
                0 => line.push(b'\t'),
                _ => put(line, format_args!("\t{}", random.below(digits))),
            }
        }
        for _ in 0..WORDS {
            match random.below(20) {
                0 => line.push(b'\t'),
                _ => put(line, format_args!("\t{:08x}", random.below(1 << 32))),
            }
        }
    })
}

/// A label, numbers with six digits behind the point and words of eight characters, with commas.
pub(super) fn csv(rows: usize) -> Vec<u8> {
    let mut random = Random(1);
    lines(rows, |line| {
        put(line, format_args!("{}", random.below(2)));
        for _ in 0..NUMBERS {
            put(line, format_args!(",{}", random.number()));
        }
        for _ in 0..WORDS {
            put(line, format_args!(",{:08x}", random.below(1 << 32)));
        }
    })
}

fn lines(rows: usize, mut line: impl FnMut(&mut Vec<u8>)) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..rows {
        line(&mut text);
        text.push(b'\n');
    }
    text
}

fn put(line: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    line.write_fmt(text).expect("memory can be written");
}

/// A linear congruential generator: its upper bits are random enough for digits.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) % end
    }

    fn id(&mut self) -> u64 {
        self.below(1_000_001)
    }

    fn number(&mut self) -> String {
        match self.below(3) {
            0 => "0.0".to_owned(),
            _ => format!("0.{:06}", self.below(1_000_000)),
        }
    }
}
