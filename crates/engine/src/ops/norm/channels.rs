//! A tensor seen as channels: `[outer, channels, inner]`, where statistics are kept per channel.

use crate::ops::prelude::*;

/// The three sizes that matter to a per-channel op.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Channels {
    outer: usize,
    /// The number of channels.
    pub(super) count: usize,
    inner: usize,
}

impl Channels {
    /// `dims` with channels last (`NHWC`, and every matrix) or second (`NCHW`).
    pub(super) fn new(dims: Dims, last: bool) -> Result<Channels> {
        let rank = dims.len();
        if rank < 2 {
            return Err(Error::kernel(format!("`X` must have rank 2 or more, not shape {dims}")));
        }
        let axis = if last { rank - 1 } else { 1 };
        let (outer, inner) = (dims[..axis].iter().product(), dims.tail(axis + 1));
        Ok(Channels { outer, count: dims[axis], inner })
    }

    /// The number of elements in one channel.
    pub(super) fn samples(self) -> usize {
        self.outer * self.inner
    }

    /// `out[c]` is the sum of `f(a, b, shift[c])` over the elements of channel `c`.
    pub(super) fn reduce<T: Real>(
        self,
        (a, b): (&[T], &[T]),
        shift: &[T],
        out: &mut [T],
        f: impl Fn(T, T, T) -> T,
    ) {
        out.fill(T::ZERO);
        vectorized(
            #[inline(always)]
            || {
                let parts = a.chunks_exact(self.part()).zip(b.chunks_exact(self.part()));
                for (part, (a, b)) in parts.enumerate() {
                    if self.inner == 1 {
                        for (((out, a), b), shift) in out.iter_mut().zip(a).zip(b).zip(shift) {
                            *out += f(*a, *b, *shift);
                        }
                    } else {
                        let channel = part % self.count;
                        out[channel] += sum_of_pairs(a, b, |a, b| f(a, b, shift[channel]));
                    }
                }
            },
        );
    }

    /// `out = factor[c] * a + slope[c] * (b - shift[c]) + offset[c]` for the elements of channel
    /// `c`.
    pub(super) fn affine<T: Real>(self, (a, b): (&[T], &[T]), by: &Coefficients<T>, out: &mut [T]) {
        vectorized(
            #[inline(always)]
            || {
                let parts = a.chunks_exact(self.part()).zip(b.chunks_exact(self.part()));
                for (part, (out, (a, b))) in
                    out.chunks_exact_mut(self.part()).zip(parts).enumerate()
                {
                    if self.inner == 1 {
                        by.apply_row(a, b, out);
                    } else {
                        by.apply_channel(part % self.count, a, b, out);
                    }
                }
            },
        );
    }

    /// Neighbours that are worked on together: a row of all channels, or a plane of one.
    fn part(self) -> usize {
        if self.inner == 1 { self.count } else { self.inner }.max(1)
    }
}

/// One linear map a channel; see [`Channels::affine`]. Kept between steps for its memory.
#[derive(Default)]
pub(super) struct Coefficients<T> {
    pub(super) factor: Vec<T>,
    pub(super) slope: Vec<T>,
    pub(super) shift: Vec<T>,
    pub(super) offset: Vec<T>,
}

impl<T: Real> Coefficients<T> {
    /// Makes room for `count` channels, all coefficients 0.
    pub(super) fn reset(&mut self, count: usize) {
        for values in [&mut self.factor, &mut self.slope, &mut self.shift, &mut self.offset] {
            values.clear();
            values.resize(count, T::ZERO);
        }
    }

    #[inline(always)]
    fn apply_row(&self, a: &[T], b: &[T], out: &mut [T]) {
        // Slices of one known length leave no bounds checks in the loop.
        let width = out.len();
        let [factor, slope, shift, offset, a, b] =
            [&self.factor, &self.slope, &self.shift, &self.offset, a, b].map(|v| &v[..width]);
        for i in 0..width {
            out[i] = factor[i] * a[i] + slope[i] * (b[i] - shift[i]) + offset[i];
        }
    }

    #[inline(always)]
    fn apply_channel(&self, channel: usize, a: &[T], b: &[T], out: &mut [T]) {
        let (factor, slope) = (self.factor[channel], self.slope[channel]);
        let (shift, offset) = (self.shift[channel], self.offset[channel]);
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            *out = factor * *a + slope * (*b - shift) + offset;
        }
    }
}
