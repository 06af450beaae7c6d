//! The sizes of a convolution: what its attributes make of the shapes of images and filters.

use super::window::{Axis, Padding, channels_last, pair};
use crate::ops::prelude::*;
use crate::ops::shape::dims::signed;

/// What the attributes say.
pub(super) struct Config {
    strides: [i64; 2],
    dilations: [i64; 2],
    padding: Padding,
    groups: i64,
    last: bool,
}

impl Config {
    pub(super) fn of(op: &OpView<'_>) -> Result<Config> {
        let (padding, groups) = (Padding::of(op)?, op.i64("groups")?);
        // As in Paddle, where the output is to be as large as the input, windows have no gaps.
        let gaps = padding != Padding::Same;
        let dilations = if gaps { pair(op, "dilations")? } else { [1, 1] };
        if groups < 1 {
            return Err(Error::kernel(format!("`groups` must be 1 or more, not {groups}")));
        }
        let (strides, last) = (pair(op, "strides")?, channels_last(op)?);
        Ok(Config { strides, dilations, padding, groups, last })
    }

    /// The positions of the channels and of the two spatial axes in an image tensor.
    fn axes(&self) -> [usize; 3] {
        if self.last { [3, 1, 2] } else { [1, 2, 3] }
    }

    /// The shape of `Output`, as far as it is known.
    pub(super) fn output(&self, input: &[i64], filter: &[i64]) -> Result<Vec<i64>> {
        let (&[images, ..], &[out_channels, channels, _, _], 4) = (input, filter, input.len())
        else {
            let problem = format!("not {input:?} and {filter:?}");
            return Err(Error::kernel(format!(
                "`Input` and `Filter` must be of rank 4, {problem}"
            )));
        };
        let axes = self.axes();
        let (given, groups) = (input[axes[0]], self.groups);
        if given >= 0 && channels >= 0 && given != channels.saturating_mul(groups) {
            return Err(Error::kernel(format!(
                "`Input` {input:?} has {given} channels, but `Filter` {filter:?} in {groups} groups \
                 takes {}",
                channels.saturating_mul(groups)
            )));
        }
        if out_channels >= 0 && out_channels % groups != 0 {
            let problem = format!("has {out_channels} filters, no multiple of {groups} groups");
            return Err(Error::kernel(format!("`Filter` {filter:?} {problem}")));
        }
        let mut out = vec![images; 4];
        out[axes[0]] = out_channels;
        for spatial in 0..2 {
            let (input, window) = (input[axes[1 + spatial]], filter[2 + spatial]);
            let known = input >= 0 && window >= 0;
            out[axes[1 + spatial]] =
                if known { self.axis(spatial, input, window)?.output as i64 } else { -1 };
        }
        Ok(out)
    }

    fn axis(&self, spatial: usize, input: i64, window: i64) -> Result<Axis> {
        let (stride, dilation) = (self.strides[spatial], self.dilations[spatial]);
        let (before, after) = self.padding.around(spatial, input, window, stride);
        let reach = dilation.saturating_mul(window - 1).saturating_add(1);
        let room = input.saturating_add(before + after) - reach;
        if window < 1 || room < 0 {
            return Err(Error::kernel(format!(
                "a window of {window} with dilation {dilation} does not fit {input} elements \
                 padded by {before} and {after}"
            )));
        }
        Ok(Axis {
            input: input as usize,
            output: (room / stride + 1) as usize,
            window: window as usize,
            stride: stride as usize,
            dilation: dilation as usize,
            before: before as usize,
        })
    }

    pub(super) fn sizes(&self, input: Dims, filter: Dims) -> Result<Sizes> {
        let output = self.output(&signed(&input), &signed(&filter))?;
        let [_, y, x] = self.axes();
        let axis =
            |spatial, at: usize| self.axis(spatial, input[at] as i64, filter[2 + spatial] as i64);
        Ok(Sizes {
            images: input[0],
            groups: self.groups as usize,
            channels: filter[1],
            filters: filter[0] / self.groups as usize,
            axes: [axis(0, y)?, axis(1, x)?],
            last: self.last,
            outputs: output.iter().map(|dim| *dim as usize).product(),
        })
    }
}

/// The sizes of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// Images of the batch.
    pub images: usize,
    /// Groups of channels that do not see each other.
    pub groups: usize,
    /// Input channels of a group.
    pub channels: usize,
    /// Output channels of a group.
    pub filters: usize,
    /// The spatial axes, outermost first.
    pub axes: [Axis; 2],
    /// Whether channels come last.
    pub last: bool,
    /// Elements of `Output`.
    pub outputs: usize,
}

impl Sizes {
    /// The sizes of a convolution of these shapes, for whoever has kernels of its own.
    ///
    /// # Errors
    /// When attributes and shapes do not fit.
    pub fn of(op: &OpView<'_>, input: &[usize], filter: &[usize]) -> Result<Sizes> {
        Config::of(op)?.sizes(Dims::new(input), Dims::new(filter))
    }

    /// Elements of an input plane, an output plane, and a filter.
    pub fn planes(&self) -> (usize, usize, usize) {
        let [y, x] = &self.axes;
        (y.input * x.input, y.output * x.output, self.channels * y.window * x.window)
    }

    /// Whether an image is its own columns.
    pub fn is_pointwise(&self) -> bool {
        self.axes.iter().all(Axis::is_identity)
    }

    /// Whether each input channel is seen by too few output channels for a product to pay.
    pub fn is_depthwise(&self) -> bool {
        self.channels == 1 && self.filters <= 4
    }

    /// The planes of group `group` of an image whose planes have `plane` elements.
    pub(super) fn group<T>(image: &[T], group: usize, channels: usize, plane: usize) -> &[T] {
        &image[group * channels * plane..][..channels * plane]
    }

    pub(super) fn group_mut<T>(
        image: &mut [T],
        group: usize,
        channels: usize,
        plane: usize,
    ) -> &mut [T] {
        &mut image[group * channels * plane..][..channels * plane]
    }
}
