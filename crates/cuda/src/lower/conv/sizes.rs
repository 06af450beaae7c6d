//! The sizes of a convolution: what its attributes make of the shapes of images and filters.

use bireme_ir::DType;

use crate::lower::products::multiply::float;
use crate::lower::{Lowering, Outcome, Var, host};

/// Bytes that columns may take.
const MAX_COLUMNS: usize = 64 << 20;

/// The most calls for one op; beyond, the host is asked.
pub(super) const MAX_CALLS: usize = 256;

/// One axis of a sliding window, as in `conv.cu`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) input: usize,
    pub(super) output: usize,
    pub(super) window: usize,
    pub(super) stride: usize,
    pub(super) dilation: usize,
    pub(super) before: usize,
}

/// The sizes of a convolution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) images: usize,
    pub(super) groups: usize,
    /// Input channels of a group.
    pub(super) channels: usize,
    /// Output channels of a group.
    pub(super) filters: usize,
    pub(super) axes: [Axis; 2],
    /// Whether channels come last.
    pub(super) last: bool,
    pub(super) dtype: DType,
}

impl Sizes {
    /// From the attributes and shapes, which the shape rule has checked.
    pub(super) fn of(l: &Lowering<'_>, input: &Var, filter: &Var, output: &Var) -> Outcome<Sizes> {
        let last = l.op.string("data_format")? == "NHWC";
        let at = if last { [1, 2] } else { [2, 3] };
        let (ranks, groups) =
            ([input, filter, output].map(|var| var.dims.len()), l.op.i64("groups")?);
        let is_small = [input, filter, output].iter().all(|var| i32::try_from(var.numel()).is_ok());
        let is_typed = filter.dtype == input.dtype && output.dtype == input.dtype;
        if ranks != [4, 4, 4] || groups < 1 || !is_small || !is_typed {
            return host();
        }
        let axis = |spatial: usize| {
            let sizes =
                [input.dims[at[spatial]], filter.dims[2 + spatial], output.dims[at[spatial]]];
            Axis::of(l, spatial, sizes)
        };
        let groups = groups as usize;
        let (channels, filters) = (filter.dims[1], filter.dims[0] / groups);
        let axes = [axis(0)?, axis(1)?];
        float(input.dtype)?;
        Ok(Sizes {
            images: input.dims[0],
            groups,
            channels,
            filters,
            axes,
            last,
            dtype: input.dtype,
        })
    }

    /// Elements of an input plane, an output plane, and a filter.
    pub(super) fn planes(&self) -> [usize; 3] {
        let [y, x] = &self.axes;
        [y.input * x.input, y.output * x.output, self.channels * y.window * x.window]
    }

    /// Whether an image is its own columns.
    pub(super) fn is_pointwise(&self) -> bool {
        let same = |axis: &Axis| {
            axis.window == 1 && axis.stride == 1 && axis.before == 0 && axis.input == axis.output
        };
        !self.last && self.axes.iter().all(same)
    }

    /// Whether each channel is seen by too few filters for a product to pay.
    pub(super) fn is_depthwise(&self) -> bool {
        self.channels == 1 && self.filters <= 4
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
        let axis = |axis: &Axis| {
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
        let [_, outside, weights] = self.planes();
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

impl Axis {
    fn of(l: &Lowering<'_>, spatial: usize, [input, window, output]: [usize; 3]) -> Outcome<Axis> {
        let attr = |name: &str| -> Outcome<usize> {
            match l.op.longs(name)?.get(spatial).map(|value| usize::try_from(*value)) {
                Some(Ok(value)) => Ok(value),
                _ => host(),
            }
        };
        let (stride, dilation) = (attr("strides")?, attr("dilations")?);
        let paddings = l.op.longs("paddings")?;
        let (dilation, before) = match l.op.string("padding_algorithm")?.as_str() {
            // Windows have no gaps where the output is to be as large as the input.
            "SAME" => {
                let reach = (output.max(1) - 1) * stride + window;
                (1, reach.saturating_sub(input) / 2)
            }
            "VALID" => (dilation, 0),
            _ if paddings.len() == 4 => (dilation, paddings[2 * spatial].max(0) as usize),
            _ if paddings.len() == 2 => (dilation, paddings[spatial].max(0) as usize),
            _ => return host(),
        };
        Ok(Axis { input, output, window, stride, dilation, before })
    }
}
