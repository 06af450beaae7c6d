//! `conv2d` and `depthwise_conv2d`: `Output[n, o, y, x]` is the sum of `Filter[o, c, i, j]` times
//! what its window at `(y, x)` sees of channel `c` of its group.
//!
//! Image by image and group by group: windows become columns in memory that is kept between steps,
//! then one matrix product. A window of one element needs no columns, and a group of one channel no
//! product. Images with channels last are turned around first, as in Paddle.

use bireme_ir::AttrSpec;

use super::window::{Axis, Padding, channels_last, pair};
use super::{columns, depthwise};
use crate::gemm::{Layout, Matrix, gemm, gemm_add};
use crate::op::{
    GradRule, In, Infer, Kernel, OpDef, OpView, Out, Run, Slot, SplitRule, SplitView, Spread, attr,
};
use crate::ops::real::{Real, not_float};
use crate::ops::shape::dims::signed;
use crate::tensor::{Dims, Tensor};
use crate::{Error, Result, dispatch};

const ATTRS: &[AttrSpec] = &[
    attr::ints("strides", &[1, 1]),
    attr::ints("paddings", &[0, 0]),
    attr::str("padding_algorithm", "EXPLICIT"),
    attr::ints("dilations", &[1, 1]),
    attr::int("groups", 1),
    attr::str("data_format", "NCHW"),
];

pub(super) const DEF: OpDef = def("conv2d");
pub(super) const GRAD: OpDef = grad_def("conv2d_grad");
pub(super) const DEPTHWISE: OpDef = def("depthwise_conv2d");
pub(super) const DEPTHWISE_GRAD: OpDef = grad_def("depthwise_conv2d_grad");

const fn def(name: &'static str) -> OpDef {
    OpDef::new(name, kernel)
        .inputs(const { &[Slot::one("Input"), Slot::one("Filter")] })
        .outputs(const { &[Slot::one("Output")] })
        .attrs(ATTRS)
        .infer(infer)
        .grad(GradRule::Op { inputs: &["Input", "Filter"], outputs: &[] })
        .split(SplitRule::Fn(split))
}

const fn grad_def(name: &'static str) -> OpDef {
    OpDef::new(name, grad_kernel)
        .inputs(const { &[Slot::one("Input"), Slot::one("Filter"), Slot::one("Output@GRAD")] })
        .outputs(const { &[Slot::maybe("Input@GRAD"), Slot::maybe("Filter@GRAD")] })
        .attrs(ATTRS)
        .like(&[("Input@GRAD", "Input"), ("Filter@GRAD", "Filter")])
        .split(SplitRule::Fn(split_grad))
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (input, filter) = (cx.input("Input")?, cx.input("Filter")?);
    let out = Config::of(cx.op())?.output(&input.dims, &filter.dims)?;
    let mut out = input.with_dims(out);
    out.lod_level = 0;
    cx.set("Output", out);
    Ok(())
}

fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let fits = view.spread("Input") == Spread::Rows && view.spread("Filter") == Spread::Whole;
    fits.then(|| vec![Spread::Rows])
}

/// The filter's gradient is a sum over the batch, so each worker has a piece of it.
fn split_grad(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let rows = view.spread("Input") == Spread::Rows && view.spread("Output@GRAD") == Spread::Rows;
    if !rows || view.spread("Filter") != Spread::Whole {
        return None;
    }
    view.outputs_by_slot(|slot| if slot == "Input@GRAD" { Spread::Rows } else { Spread::Partial })
}

/// What the attributes say.
struct Config {
    strides: [i64; 2],
    dilations: [i64; 2],
    padding: Padding,
    groups: i64,
    last: bool,
}

impl Config {
    fn of(op: &OpView<'_>) -> Result<Config> {
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
    fn output(&self, input: &[i64], filter: &[i64]) -> Result<Vec<i64>> {
        let (&[images, ..], &[out_channels, channels, _, _], 4) = (input, filter, input.len())
        else {
            let problem = format!("not {input:?} and {filter:?}");
            return Err(Error::kernel(format!("`Input` and `Filter` must be of rank 4, {problem}")));
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

    fn sizes(&self, input: Dims, filter: Dims) -> Result<Sizes> {
        let output = self.output(&signed(&input), &signed(&filter))?;
        let [_, y, x] = self.axes();
        let axis = |spatial, at: usize| {
            self.axis(spatial, input[at] as i64, filter[2 + spatial] as i64)
        };
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
struct Sizes {
    images: usize,
    groups: usize,
    /// Input channels of a group.
    channels: usize,
    /// Output channels of a group.
    filters: usize,
    axes: [Axis; 2],
    last: bool,
    /// Elements of `Output`.
    outputs: usize,
}

impl Sizes {
    /// Elements of an input plane, an output plane, and a filter.
    fn planes(&self) -> (usize, usize, usize) {
        let [y, x] = &self.axes;
        (y.input * x.input, y.output * x.output, self.channels * y.window * x.window)
    }

    /// Whether an image is its own columns.
    fn is_pointwise(&self) -> bool {
        self.axes.iter().all(Axis::is_identity)
    }

    /// Whether each output channel sees one input channel.
    fn is_depthwise(&self) -> bool {
        self.channels == 1
    }

    /// The planes of group `group` of an image whose planes have `plane` elements.
    fn group<T>(image: &[T], group: usize, channels: usize, plane: usize) -> &[T] {
        &image[group * channels * plane..][..channels * plane]
    }

    fn group_mut<T>(image: &mut [T], group: usize, channels: usize, plane: usize) -> &mut [T] {
        &mut image[group * channels * plane..][..channels * plane]
    }
}

/// Memory that is kept between steps.
struct Scratch {
    columns: Tensor,
    /// One image with its channels first.
    input: Tensor,
    output: Tensor,
}

impl Scratch {
    fn new() -> Scratch {
        let empty = || Tensor::empty(bireme_ir::DType::F32);
        Scratch { columns: empty(), input: empty(), output: empty() }
    }

    /// Makes room for what the sizes need; returns columns, input and output image.
    fn room<T: Real>(&mut self, sizes: &Sizes) -> Result<(&mut [T], &mut [T], &mut [T])> {
        let (inside, outside, filter) = sizes.planes();
        let columns = !(sizes.is_pointwise() || sizes.is_depthwise());
        let groups = if sizes.last { sizes.groups } else { 0 };
        self.columns.resize(T::DTYPE, [if columns { filter * outside } else { 0 }]);
        self.input.resize(T::DTYPE, [groups * sizes.channels * inside]);
        self.output.resize(T::DTYPE, [groups * sizes.filters * outside]);
        let (columns, input) = (self.columns.as_mut_slice()?, self.input.as_mut_slice()?);
        Ok((columns, input, self.output.as_mut_slice()?))
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (input, filter, output) = (op.input("Input")?, op.input("Filter")?, op.output("Output")?);
    let (config, mut scratch) = (Config::of(op)?, Scratch::new());
    Ok(Box::new(move |run| {
        let sizes = config.sizes(run.dims(input)?, run.dims(filter)?)?;
        let dtype = run.tensor(input)?.dtype();
        dispatch!(dtype, T in [f32, f64] => {
            let (x, filter, out) = (run.get(input)?, run.get(filter)?, run.set(output)?);
            forward::<T>(&sizes, x, filter, out, &mut scratch)
        }, else => Err(not_float("Input", dtype)))
    }))
}

fn forward<T: Real + Matrix>(
    sizes: &Sizes,
    x: &[T],
    filter: &[T],
    out: &mut [T],
    scratch: &mut Scratch,
) -> Result<()> {
    let (inside, outside, weights) = sizes.planes();
    let (channels, filters) = (sizes.groups * sizes.channels, sizes.groups * sizes.filters);
    let (columns, turned, turned_out) = scratch.room::<T>(sizes)?;
    for image in 0..sizes.images {
        let x = Sizes::group(x, image, channels, inside);
        let out = Sizes::group_mut(out, image, filters, outside);
        if sizes.last {
            columns::transpose(x, inside, turned);
        }
        let x = if sizes.last { &*turned } else { x };
        let result = if sizes.last { &mut *turned_out } else { &mut *out };
        for group in 0..sizes.groups {
            let x = Sizes::group(x, group, sizes.channels, inside);
            let filter = Sizes::group(filter, group, sizes.filters, weights);
            let result = Sizes::group_mut(result, group, sizes.filters, outside);
            if sizes.is_depthwise() {
                for at in 0..sizes.filters {
                    let out = Sizes::group_mut(result, at, 1, outside);
                    depthwise::forward(&sizes.axes, x, Sizes::group(filter, at, 1, weights), out);
                }
                continue;
            }
            let windows = windows(sizes, x, columns);
            let (m, n, k) = (sizes.filters, outside, weights);
            gemm(m, n, k, result, filter, Layout::Plain, windows, Layout::Plain);
        }
        if sizes.last {
            columns::transpose(turned_out, filters, out);
        }
    }
    Ok(())
}

/// The windows of the planes of a group, as columns.
fn windows<'a, T: Real>(sizes: &Sizes, planes: &'a [T], columns: &'a mut [T]) -> &'a [T] {
    if sizes.is_pointwise() {
        return planes;
    }
    columns::gather(&sizes.axes, planes, columns);
    columns
}

/// The variables of the gradient op.
struct Grad {
    input: In,
    filter: In,
    dout: In,
    dinput: Option<Out>,
    dfilter: Option<Out>,
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let grad = Grad {
        input: op.input("Input")?,
        filter: op.input("Filter")?,
        dout: op.input("Output@GRAD")?,
        dinput: op.maybe_output("Input@GRAD"),
        dfilter: op.maybe_output("Filter@GRAD"),
    };
    let (config, mut scratch) = (Config::of(op)?, Scratch::new());
    Ok(Box::new(move |run| {
        let sizes = config.sizes(run.dims(grad.input)?, run.dims(grad.filter)?)?;
        let (dims, dtype) = (run.dims(grad.dout)?, run.tensor(grad.dout)?.dtype());
        if dims.numel() != sizes.outputs {
            let problem = format!("has shape {dims}, not the {} elements", sizes.outputs);
            return Err(Error::kernel(format!("`Output@GRAD` {problem} of `Output`")));
        }
        dispatch!(dtype, T in [f32, f64] => grad.run::<T>(run, &sizes, &mut scratch),
            else => Err(not_float("Output@GRAD", dtype)))
    }))
}

impl Grad {
    fn run<T: Real + Matrix>(
        &self,
        run: &Run<'_>,
        sizes: &Sizes,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (inside, outside, _) = sizes.planes();
        let (channels, filters) = (sizes.groups * sizes.channels, sizes.groups * sizes.filters);
        let (x, filter, dout) =
            (run.get::<T>(self.input)?, run.get::<T>(self.filter)?, run.get::<T>(self.dout)?);
        let (columns, turned, turned_out) = scratch.room::<T>(sizes)?;
        let mut dinput = self.dinput.map(|dx| run.set::<T>(dx)).transpose()?;
        let mut dfilter = self.dfilter.map(|dfilter| run.set::<T>(dfilter)).transpose()?;
        if let Some(dfilter) = &mut dfilter {
            dfilter.fill(T::ZERO);
        }
        for image in 0..sizes.images {
            let x = Sizes::group(x, image, channels, inside);
            let dout = Sizes::group(dout, image, filters, outside);
            if sizes.last {
                columns::transpose(dout, outside, turned_out);
            }
            let dout = if sizes.last { &*turned_out } else { dout };
            if let Some(dfilter) = &mut dfilter {
                if sizes.last {
                    columns::transpose(x, inside, turned);
                }
                let x = if sizes.last { &*turned } else { x };
                add_filter_grad(sizes, x, dout, dfilter, columns);
            }
            if let Some(dinput) = &mut dinput {
                let dx = Sizes::group_mut(dinput, image, channels, inside);
                let to = if sizes.last { &mut *turned } else { &mut *dx };
                input_grad(sizes, dout, filter, to, columns);
                if sizes.last {
                    columns::transpose(turned, channels, dx);
                }
            }
        }
        Ok(())
    }
}

fn add_filter_grad<T: Real + Matrix>(
    sizes: &Sizes,
    x: &[T],
    dout: &[T],
    dfilter: &mut [T],
    columns: &mut [T],
) {
    let (inside, outside, weights) = sizes.planes();
    for group in 0..sizes.groups {
        let x = Sizes::group(x, group, sizes.channels, inside);
        let dout = Sizes::group(dout, group, sizes.filters, outside);
        let dfilter = Sizes::group_mut(dfilter, group, sizes.filters, weights);
        if sizes.is_depthwise() {
            for at in 0..sizes.filters {
                let dfilter = Sizes::group_mut(dfilter, at, 1, weights);
                let dout = Sizes::group(dout, at, 1, outside);
                depthwise::filter_grad(&sizes.axes, x, dout, dfilter);
            }
            continue;
        }
        let windows = windows(sizes, x, columns);
        let (m, n, k) = (sizes.filters, weights, outside);
        gemm_add(m, n, k, dfilter, dout, Layout::Plain, windows, Layout::Transposed);
    }
}

fn input_grad<T: Real + Matrix>(
    sizes: &Sizes,
    dout: &[T],
    filter: &[T],
    dx: &mut [T],
    columns: &mut [T],
) {
    let (inside, outside, weights) = sizes.planes();
    for group in 0..sizes.groups {
        let dout = Sizes::group(dout, group, sizes.filters, outside);
        let filter = Sizes::group(filter, group, sizes.filters, weights);
        let dx = Sizes::group_mut(dx, group, sizes.channels, inside);
        let (m, n, k) = (weights, outside, sizes.filters);
        if sizes.is_depthwise() {
            dx.fill(T::ZERO);
            for at in 0..sizes.filters {
                let weights = Sizes::group(filter, at, 1, weights);
                depthwise::input_grad(&sizes.axes, Sizes::group(dout, at, 1, outside), weights, dx);
            }
        } else if sizes.is_pointwise() {
            gemm(m, n, k, dx, filter, Layout::Transposed, dout, Layout::Plain);
        } else {
            gemm(m, n, k, columns, filter, Layout::Transposed, dout, Layout::Plain);
            dx.fill(T::ZERO);
            columns::scatter(&sizes.axes, columns, dx);
        }
    }
}
