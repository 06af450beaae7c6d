//! A window that slides over the two spatial axes of images: what convolution and pooling share.
//!
//! An axis knows which of its outputs see real input through a given tap of the window, so no loop
//! below tests for padding element by element.

use std::ops::Range;

use crate::ops::prelude::*;

/// One axis of a sliding window. Output `o` sees input `o * stride + tap * dilation - before`
/// through tap `tap` of the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axis {
    /// Elements of the input.
    pub input: usize,
    /// Elements of the output.
    pub output: usize,
    /// Taps of the window.
    pub window: usize,
    /// Inputs from one output's window to the next.
    pub stride: usize,
    /// Inputs from one tap to the next.
    pub dilation: usize,
    /// Padding in front of the input.
    pub before: usize,
}

impl Axis {
    /// The outputs that see real input through `tap`, and what the first of them sees.
    pub(in crate::ops) fn inside(&self, tap: usize) -> (Range<usize>, usize) {
        let shift = tap * self.dilation;
        let end = (self.input + self.before).saturating_sub(shift).div_ceil(self.stride);
        let end = end.min(self.output);
        let first = self.before.saturating_sub(shift).div_ceil(self.stride).min(end);
        (first..end, (first * self.stride + shift).saturating_sub(self.before))
    }

    /// Whether outputs are inputs, one to one.
    pub(in crate::ops) fn is_identity(&self) -> bool {
        self.window == 1 && self.stride == 1 && self.before == 0 && self.input == self.output
    }
}

/// Calls `run(output, input, len, stride)` for each line of outputs of a plane that sees real input
/// through one tap; neighbours are `stride` inputs apart.
#[inline(always)]
pub(in crate::ops) fn each_run(
    [y, x]: &[Axis; 2],
    [tap_y, tap_x]: [usize; 2],
    mut run: impl FnMut(usize, usize, usize, usize),
) {
    let ((rows, first_row), (columns, first)) = (y.inside(tap_y), x.inside(tap_x));
    if columns.is_empty() || rows.is_empty() {
        return;
    }
    let at = |row: usize| (first_row + row * y.stride) * x.input + first;
    // Windows as wide as the image, as those over the words of a text, make one line of all rows.
    if x.output == 1 {
        return run(rows.start, at(0), rows.len(), y.stride * x.input);
    }
    for (i, row) in rows.enumerate() {
        run(row * x.output + columns.start, at(i), columns.len(), x.stride);
    }
}

/// How images are padded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::ops) enum Padding {
    /// Before and after the first axis, before and after the second.
    Explicit([i64; 4]),
    /// As many outputs as inputs, divided by the stride.
    Same,
    /// None.
    Valid,
}

impl Padding {
    /// What attributes `padding_algorithm` and `paddings` say.
    pub(in crate::ops) fn of(op: &OpView<'_>) -> Result<Padding> {
        let algorithm = match op.maybe_attr("padding_algorithm") {
            Some(_) => op.string("padding_algorithm")?,
            None => "EXPLICIT".to_owned(),
        };
        match (algorithm.as_str(), op.longs("paddings")?.as_slice()) {
            ("SAME", _) => Ok(Padding::Same),
            ("VALID", _) => Ok(Padding::Valid),
            ("EXPLICIT", given) if given.iter().any(|padding| *padding < 0) => {
                Err(Error::kernel(format!("`paddings` must not be negative, but are {given:?}")))
            }
            ("EXPLICIT", [y, x]) => Ok(Padding::Explicit([*y, *y, *x, *x])),
            ("EXPLICIT", [top, bottom, left, right]) => {
                Ok(Padding::Explicit([*top, *bottom, *left, *right]))
            }
            ("EXPLICIT", given) => {
                Err(Error::kernel(format!("`paddings` must be 2 or 4 numbers, not {given:?}")))
            }
            (other, _) => Err(Error::kernel(format!(
                "`padding_algorithm` must be EXPLICIT, SAME or VALID, not `{other}`"
            ))),
        }
    }

    /// The padding before and after axis `axis` (0 or 1).
    pub(in crate::ops) fn around(
        self,
        axis: usize,
        input: i64,
        window: i64,
        stride: i64,
    ) -> (i64, i64) {
        match self {
            Padding::Explicit(all) => (all[2 * axis], all[2 * axis + 1]),
            Padding::Valid => (0, 0),
            Padding::Same => {
                let outputs = (input + stride - 1) / stride;
                let total = ((outputs - 1) * stride + window - input).max(0);
                (total / 2, total - total / 2)
            }
        }
    }
}

/// Two positive numbers of an attribute, one for each axis.
pub(in crate::ops) fn pair(op: &OpView<'_>, name: &str) -> Result<[i64; 2]> {
    match op.longs(name)?.as_slice() {
        [y, x] if *y > 0 && *x > 0 => Ok([*y, *x]),
        given => Err(Error::kernel(format!("`{name}` must be 2 positive numbers, not {given:?}"))),
    }
}

/// Whether channels come last: `NHWC` rather than `NCHW`.
pub(in crate::ops) fn channels_last(op: &OpView<'_>) -> Result<bool> {
    match op.string("data_format")?.as_str() {
        "NCHW" | "AnyLayout" => Ok(false),
        "NHWC" => Ok(true),
        other => Err(Error::kernel(format!("`data_format` must be NCHW or NHWC, not `{other}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_see_what_the_definition_says() {
        for (input, window, stride, dilation, before, after) in
            [(5, 3, 1, 1, 1, 1), (5, 3, 2, 1, 0, 2), (7, 2, 3, 2, 4, 0), (3, 5, 1, 1, 2, 4)]
        {
            let reach = dilation * (window - 1) + 1;
            let output = (input + before + after - reach) / stride + 1;
            let axis = Axis { input, output, window, stride, dilation, before };
            for tap in 0..window {
                let sees = |o: usize| (o * stride + tap * dilation).checked_sub(before);
                let inside: Vec<usize> =
                    (0..output).filter(|o| sees(*o).is_some_and(|i| i < input)).collect();
                let (range, first) = axis.inside(tap);
                assert_eq!(range.clone().collect::<Vec<_>>(), inside, "{axis:?} tap {tap}");
                assert!(range.is_empty() || Some(first) == sees(range.start));
            }
        }
    }
}
