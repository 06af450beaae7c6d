//! The windows of a pooling op: which part of each spatial axis every output looks at.

use crate::ops::conv::window::{Padding, channels_last, pair};
use crate::ops::prelude::*;

/// What the attributes say.
pub(super) struct Config {
    window: [i64; 2],
    strides: [i64; 2],
    padding: Padding,
    /// One window covers the whole image.
    global: bool,
    /// `window` is the size of the output, and windows are as large as that makes them.
    adaptive: bool,
    /// A last window may hang over the edge.
    ceil: bool,
    /// Padding does not count in a mean.
    exclusive: bool,
    last: bool,
}

/// The part of an axis that one output looks at, without padding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
    /// What it counts in the size of the window.
    pub(super) weight: usize,
}

/// A step's images as `[outer, height, width, inner]`, and the spans of both axes.
#[derive(Default)]
pub(super) struct Windows {
    pub(super) outer: usize,
    pub(super) width: usize,
    pub(super) inner: usize,
    /// Elements of one of the `outer` inputs.
    pub(super) plane: usize,
    pub(super) rows: Vec<Span>,
    pub(super) columns: Vec<Span>,
}

impl Config {
    pub(super) fn of(op: &OpView<'_>) -> Result<Config> {
        let maybe = |name| op.maybe_attr(name).map_or(Ok(false), |_| op.bool(name));
        let (global, adaptive) = (op.bool("global_pooling")?, op.bool("adaptive")?);
        let given = op.maybe_attr("data_format").is_some();
        Ok(Config {
            window: if global { [1, 1] } else { pair(op, "ksize")? },
            strides: pair(op, "strides")?,
            padding: if global || adaptive { Padding::Valid } else { Padding::of(op)? },
            global,
            adaptive: adaptive && !global,
            ceil: maybe("ceil_mode")?,
            exclusive: op.maybe_attr("exclusive").map_or(Ok(true), |_| op.bool("exclusive"))?,
            last: given && channels_last(op)?,
        })
    }

    /// Whether no element lies in two windows, and all windows are of one size.
    pub(super) fn is_apart(&self) -> bool {
        let apart = self.window.iter().zip(&self.strides).all(|(window, stride)| window <= stride);
        let whole = !matches!(self.padding, Padding::Same) && !self.ceil;
        apart && whole && !self.global && !self.adaptive
    }

    /// The elements of a window.
    pub(super) fn window_size(&self) -> i64 {
        self.window.iter().product()
    }

    fn spatial(&self) -> [usize; 2] {
        if self.last { [1, 2] } else { [2, 3] }
    }

    /// The number of outputs along an axis and the padding in front of it.
    fn outputs(&self, axis: usize, input: i64) -> Result<(i64, i64)> {
        let (window, stride) = (self.window[axis], self.strides[axis]);
        if self.global {
            return Ok((1, 0));
        }
        if self.adaptive {
            return Ok((window, 0));
        }
        let (before, after) = self.padding.around(axis, input, window, stride);
        let room = input.saturating_add(before + after) - window;
        let up = if self.ceil { stride - 1 } else { 0 };
        let count = (room + up).div_euclid(stride) + 1;
        if count < 1 {
            return Err(Error::kernel(format!(
                "a window of {window} does not fit {input} elements padded by {before} and {after}"
            )));
        }
        Ok((count, before))
    }

    /// The shape rule: `X` with other spatial dimensions.
    pub(super) fn output(&self, x: &Meta) -> Result<Meta> {
        if x.rank() != 4 {
            return Err(Error::kernel(format!("`X` must be of rank 4, not {:?}", x.dims)));
        }
        let mut out = x.clone();
        for (axis, at) in self.spatial().into_iter().enumerate() {
            let fixed = self.global || self.adaptive;
            let known = fixed || x.dims[at] >= 0;
            out.dims[at] = if known { self.outputs(axis, x.dims[at])?.0 } else { -1 };
        }
        out.lod_level = 0;
        Ok(out)
    }

    /// Sets the windows over images of shape `x`; `outputs` is how many elements the result has.
    pub(super) fn lay(&self, windows: &mut Windows, x: Dims, outputs: usize) -> Result<()> {
        let [y_at, x_at] = self.spatial();
        let [images, ..] = *x else {
            return Err(Error::kernel(format!("`X` must be of rank 4, not {x}")));
        };
        let (channels, height, width) = (x[if self.last { 3 } else { 1 }], x[y_at], x[x_at]);
        windows.width = width;
        windows.outer = if self.last { images } else { images * channels };
        windows.inner = if self.last { channels } else { 1 };
        windows.plane = height * width * windows.inner;
        self.spans(&mut windows.rows, 0, height)?;
        self.spans(&mut windows.columns, 1, width)?;
        let expected = images * channels * windows.rows.len() * windows.columns.len();
        if expected != outputs {
            let problem = format!("{outputs} elements, not {expected}");
            return Err(Error::kernel(format!("the result of pooling {x} has {problem}")));
        }
        Ok(())
    }

    fn spans(&self, spans: &mut Vec<Span>, axis: usize, input: usize) -> Result<()> {
        let (count, before) = self.outputs(axis, input as i64)?;
        let (count, window, stride) = (count as usize, self.window[axis], self.strides[axis]);
        spans.clear();
        if self.global || self.adaptive {
            spans.extend((0..count).map(|at| {
                let (start, end) = (at * input / count, ((at + 1) * input).div_ceil(count));
                Span { start, end, weight: end - start }
            }));
            return Ok(());
        }
        let input = input as i64;
        spans.extend((0..count as i64).map(|at| {
            let start = at * stride - before;
            // Paddle lets a window hang over by the padding in front, whatever is behind.
            let end = (start + window).min(input + before);
            let (inner_start, inner_end) = (start.clamp(0, input), end.clamp(0, input));
            let inside = (inner_end - inner_start).max(0);
            let weight = if self.exclusive { inside } else { end - start };
            Span {
                start: inner_start as usize,
                end: (inner_start + inside) as usize,
                weight: weight.max(0) as usize,
            }
        }));
        Ok(())
    }
}

impl Windows {
    /// Calls `window(output, rows, columns)` for each window of a plane, in order; `output` is the
    /// position of its first element.
    #[inline(always)]
    pub(super) fn each(&self, mut window: impl FnMut(usize, &Span, &Span)) {
        let mut output = 0;
        for rows in &self.rows {
            for columns in &self.columns {
                window(output, rows, columns);
                output += self.inner;
            }
        }
    }

    /// Elements of one of the `outer` results.
    pub(super) fn result(&self) -> usize {
        self.rows.len() * self.columns.len() * self.inner
    }

    /// The positions in a plane of the line of a window in row `row`.
    #[inline(always)]
    pub(super) fn line(&self, row: usize, columns: &Span) -> std::ops::Range<usize> {
        let at = |column| (row * self.width + column) * self.inner;
        at(columns.start)..at(columns.end)
    }
}

/// `Out` (and `Mask`, of 32-bit integers) of pooled `X`.
pub(super) fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let out = Config::of(cx.op())?.output(cx.input("X")?)?;
    if cx.op().def.signature.outputs.iter().any(|slot| slot.name == "Mask") {
        cx.set("Mask", out.with_dtype(DType::I32));
    }
    cx.set("Out", out);
    Ok(())
}
