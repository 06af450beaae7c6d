//! Lines that can be read in a hurry, because they are as programs write them: several beside each
//! other.
//!
//! Where a token starts is known when the one before it has been read, so a processor waits for
//! every one of them; with several lines it works on the others meanwhile, and a column grows by
//! several values at once. Most files have no other lines. Whatever is unusual about one, it is left
//! to the parsers that read one line after the other and can say what is wrong.

use pulp::{Arch, Simd, WithSimd};

use super::ByFormat;
use crate::Samples;

/// Lines that are read beside each other.
pub(super) const LANES: usize = 4;

/// The same for every lane, with its number as a constant: what a loop keeps in memory stays in
/// registers.
macro_rules! every_lane {
    ($lane:ident => $body:block) => {{
        const { assert!($crate::parse::plain_lines::LANES == 4) };
        every_lane!(@ $lane = 0, $body);
        every_lane!(@ $lane = 1, $body);
        every_lane!(@ $lane = 2, $body);
        every_lane!(@ $lane = 3, $body);
    }};
    (@ $lane:ident = $number:literal, $body:block) => {{
        const $lane: usize = $number;
        $body
    }};
}
pub(super) use every_lane;

/// Where some lines are.
pub(super) struct Lines {
    /// Where each starts.
    pub(super) starts: [usize; LANES],
    /// Where each ends: at its line end, or at the carriage return before that.
    pub(super) ends: [usize; LANES],
    /// Where the line behind them starts.
    next: usize,
}

/// Appends the samples of plain lines, the first of which starts at `at`; returns where the first
/// one starts that is left to others.
pub(super) fn append(
    by_format: &ByFormat,
    text: &[u8],
    at: usize,
    counts: &mut Vec<[u32; LANES]>,
    out: &mut Samples,
) -> usize {
    counts.resize(out.columns().len(), [1; LANES]);
    Arch::new().dispatch(Reading { by_format, text, at, counts, out })
}

/// What is compiled for each level of vector instructions. A closure would not do: it is not always
/// inlined into the function that has the instructions.
struct Reading<'a> {
    by_format: &'a ByFormat,
    text: &'a [u8],
    at: usize,
    /// How many values each line has for each slot.
    counts: &'a mut [[u32; LANES]],
    out: &'a mut Samples,
}

impl WithSimd for Reading<'_> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        let Reading { by_format, text, mut at, counts, out } = self;
        while let Some(lines) = Lines::find(text, at) {
            let columns = out.columns_mut();
            let read = match by_format {
                ByFormat::MultiSlot(parser) if parser.has_plain_lines() => {
                    parser.plain_lines(text, &lines, columns, counts)
                }
                ByFormat::Criteo(parser) => parser.plain_lines(text, &lines, columns),
                ByFormat::MultiSlot(_) | ByFormat::SlotValue(_) | ByFormat::Table(_) => None,
            };
            if read.is_none() {
                out.drop_unfinished();
                break;
            }
            match by_format {
                ByFormat::MultiSlot(_) => out.end_rows(counts),
                _ => out.end_even_rows(LANES),
            }
            at = lines.next;
        }
        at
    }
}

impl Lines {
    /// The lines from `at` on, if there are enough.
    #[inline(always)]
    fn find(text: &[u8], at: usize) -> Option<Lines> {
        let (mut starts, mut ends, mut next) = ([0; LANES], [0; LANES], at);
        for (start, end) in starts.iter_mut().zip(&mut ends) {
            let line = text.get(next..)?;
            let len = memchr::memchr(b'\n', line)?;
            let carriage = len > 0 && line[len - 1] == b'\r';
            (*start, *end) = (next, next + len - usize::from(carriage));
            next += len + 1;
        }
        Some(Lines { starts, ends, next })
    }

    /// Whether each line ends at its place in `at`, or has nothing but spaces from there on.
    #[inline(always)]
    pub(super) fn all_end(&self, text: &[u8], at: &[usize; LANES]) -> bool {
        *at == self.ends
            || at.iter().zip(&self.ends).all(|(&at, &end)| super::skip_spaces(text, at) == end)
    }
}
