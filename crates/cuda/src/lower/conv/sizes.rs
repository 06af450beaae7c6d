//! The sizes of a convolution as kernels are given them; the engine says what they are.

use std::ops::Deref;

use bireme_engine::ops::{ConvAxis, ConvSizes};
use bireme_ir::DType;

use crate::lower::products::multiply::float;
use crate::lower::{Lowering, Outcome, Var, host};

/// Bytes that columns may take.
const MAX_COLUMNS: usize = 64 << 20;

/// The most calls for one op; beyond, the host is asked.
pub(super) const MAX_CALLS: usize = 256;

/// The sizes of a convolution of elements of one type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    of: ConvSizes,
    pub(super) dtype: DType,
}

impl Deref for Sizes {
    type Target = ConvSizes;

    fn deref(&self) -> &ConvSizes {
        &self.of
    }
}

impl Sizes {
    /// From the attributes and shapes; declines what kernels cannot count.
    pub(super) fn of(l: &Lowering<'_>, input: &Var, filter: &Var, output: &Var) -> Outcome<Sizes> {
        let is_small = [input, filter, output].iter().all(|var| i32::try_from(var.numel()).is_ok());
        let is_typed = filter.dtype == input.dtype && output.dtype == input.dtype;
        if !is_small || !is_typed {
            return host();
        }
        float(input.dtype)?;
        Ok(Sizes { of: ConvSizes::of(l.op, &input.dims, &filter.dims)?, dtype: input.dtype })
    }

    /// Whether an image is its own columns, as it lies.
    pub(super) fn is_pointwise(&self) -> bool {
        !self.last && self.of.is_pointwise()
    }

    /// Elements from one image, channel, line and element to the next, of images with `channels`
    /// channels.
    fn steps(&self, channels: usize, height: usize, width: usize) -> [usize; 4] {
        if self.last {
            [height * width * channels, 1, width * channels, channels]
        } else {
            [channels * height * width, height * width, width, 1]
        }
    }

    pub(super) fn input_steps(&self) -> [usize; 4] {
        let [y, x] = &self.axes;
        self.steps(self.groups * self.channels, y.input, x.input)
    }

    pub(super) fn output_steps(&self) -> [usize; 4] {
        let [y, x] = &self.axes;
        self.steps(self.groups * self.filters, y.output, x.output)
    }

    /// What kernels call `Images`, for `count` images.
    pub(super) fn images(&self, count: usize) -> [u32; 18] {
        let axis = |axis: &ConvAxis| {
            [axis.input, axis.output, axis.window, axis.stride, axis.dilation, axis.before]
        };
        let [y, x] = &self.axes;
        let head = [count, self.groups * self.channels];
        let all = head.into_iter().chain(axis(y)).chain(axis(x)).chain(self.input_steps());
        let mut images = [0; 18];
        images.iter_mut().zip(all).for_each(|(to, from)| *to = from as u32);
        images
    }

    /// What kernels call `Filters`.
    pub(super) fn few(&self) -> [u32; 5] {
        let [a, b, c, d] = self.output_steps();
        [self.filters, a, b, c, d].map(|size| size as u32)
    }

    /// The images one after the other, as many at a time as their columns fit: their first, and how
    /// many. Declines what takes too many calls.
    pub(super) fn chunks(&self) -> Outcome<Vec<(usize, usize)>> {
        let (_, outside, weights) = self.planes();
        let columns = self.groups * weights * outside;
        if i32::try_from(columns).is_err() {
            return host();
        }
        let bytes = columns * self.dtype.size();
        let at_once = (MAX_COLUMNS / bytes.max(1)).clamp(1, self.images.max(1));
        if self.images.div_ceil(at_once) * self.groups > MAX_CALLS {
            return host();
        }
        let starts = (0..self.images).step_by(at_once);
        Ok(starts.map(|first| (first, at_once.min(self.images - first))).collect())
    }
}
