//! A tensor seen as channels: `[outer, channels, inner]`, where statistics are kept per channel.

use crate::ops::real::{Real, sum2};
use crate::tensor::Dims;
use crate::{Error, Result};

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
        if self.inner == 1 {
            let rows = a.chunks_exact(self.count.max(1)).zip(b.chunks_exact(self.count.max(1)));
            for (a, b) in rows {
                for (((out, a), b), shift) in out.iter_mut().zip(a).zip(b).zip(shift) {
                    *out += f(*a, *b, *shift);
                }
            }
            return;
        }
        let planes = a.chunks_exact(self.inner.max(1)).zip(b.chunks_exact(self.inner.max(1)));
        for (plane, (a, b)) in planes.enumerate() {
            let channel = plane % self.count;
            out[channel] += sum2(a, b, |a, b| f(a, b, shift[channel]));
        }
    }

    /// `out = factor[c] * a + slope[c] * (b - shift[c]) + offset[c]` for the elements of channel
    /// `c`.
    pub(super) fn affine<T: Real>(self, (a, b): (&[T], &[T]), by: &Coefficients<T>, out: &mut [T]) {
        let width = if self.inner == 1 { self.count } else { self.inner }.max(1);
        let parts = out.chunks_exact_mut(width).zip(a.chunks_exact(width));
        for (plane, ((out, a), b)) in parts.zip(b.chunks_exact(width)).enumerate() {
            if self.inner == 1 {
                let [factor, slope, shift, offset] =
                    [&by.factor, &by.slope, &by.shift, &by.offset].map(|values| &values[..width]);
                for i in 0..width {
                    out[i] = factor[i] * a[i] + slope[i] * (b[i] - shift[i]) + offset[i];
                }
            } else {
                let channel = plane % self.count;
                let (factor, slope) = (by.factor[channel], by.slope[channel]);
                let (shift, offset) = (by.shift[channel], by.offset[channel]);
                for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
                    *out = factor * *a + slope * (*b - shift) + offset;
                }
            }
        }
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
}
