//! Parsers: text in memory to samples, on one core.

mod text;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bireme_data::Samples;
use bireme_data::parse::{BadLines, Format, Parser, criteo_slots};
use bireme_data::table::{
    Csv, Feature, Fill, Header, Label, Layout, Learned, Number, Rule, Scale, Settings, Table, Words,
};
use bireme_rec::run::columns;

/// Samples of each text.
const ROWS: usize = 20_000;
/// Bytes that are parsed and timed at once: so short that mostly nobody else gets the core
/// meanwhile.
const BLOCK: usize = 1 << 16;

/// Every case, in the order of the table.
pub(crate) const CASES: &[Case] = &[
    Case { name: "parse_slot_value", what: What::SlotValue },
    Case { name: "parse_multislot", what: What::MultiSlot },
    Case { name: "parse_criteo", what: What::Criteo },
    Case { name: "parse_csv", what: What::Csv },
];

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    SlotValue,
    MultiSlot,
    Criteo,
    Csv,
}

/// Seconds for the whole text.
#[derive(Debug)]
pub(crate) struct Figure {
    bytes: usize,
    parse_s: f64,
    floor_s: f64,
}

impl Figure {
    /// Billions of bytes that are parsed in a second.
    pub(crate) fn value(&self) -> f64 {
        self.bytes as f64 / self.parse_s / 1e9
    }

    /// The time to find the line ends over the time to parse.
    pub(crate) fn ratio(&self) -> f64 {
        self.floor_s / self.parse_s
    }

    /// Millions of samples that are parsed in a second.
    pub(crate) fn samples(&self) -> f64 {
        ROWS as f64 / self.parse_s / 1e6
    }
}

impl Case {
    /// Measures for about `seconds`, after a warm-up.
    ///
    /// # Errors
    /// When the text does not parse.
    pub(crate) fn measure(&self, seconds: f64) -> Result<Figure> {
        let (format, text) = match self.what {
            What::SlotValue => (Format::slot_value(), text::slot_value(ROWS)),
            What::MultiSlot => (Format::multi_slot(), text::multi_slot(ROWS)),
            What::Criteo => (Format::criteo(), text::criteo(ROWS)),
            What::Csv => (csv()?, text::csv(ROWS)),
        };
        let slots = criteo_slots();
        let mut parser = Parser::new(&format, &slots)?;
        let (bad, mut samples, path) =
            (BadLines::default(), Samples::of(&slots), Path::new("text"));
        let blocks = blocks(&text)?;
        // The best time of each block over all rounds counts: others can only lengthen it.
        let mut best = vec![(f64::INFINITY, f64::INFINITY); blocks.len()];
        let (started, time) = (Instant::now(), Duration::from_secs_f64(seconds));
        let mut rounds = 0;
        while rounds < 3 || started.elapsed() < time {
            let mut rows = 0;
            for (block, (parse_s, floor_s)) in blocks.iter().zip(&mut best) {
                samples.clear();
                let started = Instant::now();
                parser.block(block, 1, path, &bad, &mut samples)?;
                *parse_s = parse_s.min(started.elapsed().as_secs_f64());
                let started = Instant::now();
                let ends = memchr::memchr_iter(b'\n', block).count();
                *floor_s = floor_s.min(started.elapsed().as_secs_f64());
                ensure!(ends == samples.len(), "a block of {ends} lines has other samples");
                rows += ends;
            }
            ensure!(rows == ROWS, "{rows} samples were parsed, not {ROWS}");
            rounds += 1;
        }
        let (parse_s, floor_s) =
            best.iter().fold((0.0, 0.0), |sum, best| (sum.0 + best.0, sum.1 + best.1));
        Ok(Figure { bytes: text.len(), parse_s, floor_s })
    }
}

/// 40 columns by their numbers: a label, 13 numbers, and 26 words that are hashed.
fn csv() -> Result<Format> {
    let number = Number { scale: Scale::None, fill: Fill::Value(0.0) };
    let numbers = (2..=14).map(|column| (column, Rule::Number(number)));
    let words = (15..=40).map(|column| (column, Rule::Word(Words::Hash)));
    let feature = |(column, rule): (usize, Rule)| Feature { column: column.to_string(), rule };
    let (separator, quote, header, comment) = (',', Some('"'), Header::Numbers, None);
    let settings = Settings {
        layout: Layout::Csv(Csv { separator, quote, header, comment }),
        label: Label { column: "1".to_owned(), positive: Vec::new(), negative: Vec::new() },
        weight: None,
        features: numbers.chain(words).map(feature).collect(),
        missing: Vec::new(),
        hash_buckets: 1_000_000,
    };
    let table = Arc::new(Table::new(Learned::without_data(settings))?);
    Ok(columns::slots(&table).1)
}

/// Whole lines of about the size of a block.
fn blocks(text: &[u8]) -> Result<Vec<&[u8]>> {
    let (mut blocks, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let start = &rest[..rest.len().min(BLOCK)];
        let end = memchr::memrchr(b'\n', start).context("a line is longer than a block")? + 1;
        let (block, others) = rest.split_at(end);
        blocks.push(block);
        rest = others;
    }
    Ok(blocks)
}
