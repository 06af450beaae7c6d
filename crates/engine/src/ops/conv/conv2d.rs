//! `conv2d` and `depthwise_conv2d`: `Output[n, o, y, x]` is the sum of `Filter[o, c, i, j]` times
//! what its window at `(y, x)` sees of channel `c` of its group.
//!
//! Image by image and group by group: windows become columns in memory that is kept between steps,
//! then one matrix product. A window of one element needs no columns, and a group of one channel no
//! product. Images with channels last are turned around first, as in Paddle.

use super::sizes::{Config, Sizes};
use super::{columns, depthwise};
use crate::gemm::{Matrix, Order, gemm, gemm_add};
use crate::ops::prelude::*;

const ATTRS: &[AttrSpec] = &[
    attr::ints("strides", &[1, 1]),
    attr::ints("paddings", &[0, 0]),
    attr::str("padding_algorithm", "EXPLICIT"),
    attr::ints("dilations", &[1, 1]),
    attr::int("groups", 1),
    attr::str("data_format", "NCHW"),
];

pub(super) const DEF: OpDef = def("conv2d");
pub(super) const DEPTHWISE: OpDef = def("depthwise_conv2d");

const fn def(name: &'static str) -> OpDef {
    OpDef::new(name, kernel)
        .inputs(const { &[Slot::one("Input"), Slot::one("Filter")] })
        .outputs(const { &[Slot::one("Output")] })
        .attrs(ATTRS)
        .infer(infer)
        .split(SplitRule::batch(&["Input"]))
        .gradient(
            Gradient::new(&["Input", "Filter"], grad_kernel)
                .reads(&["Input", "Filter"])
                .second(second::product),
        )
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (input, filter) = (cx.input("Input")?, cx.input("Filter")?);
    let out = Config::of(cx.op())?.output(&input.dims, &filter.dims)?;
    let mut out = input.with_dims(out);
    out.lod_level = 0;
    cx.set("Output", out);
    Ok(())
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
        let empty = || Tensor::empty(DType::F32);
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
    let (input, filter, mut output) =
        (op.input("Input")?, op.input("Filter")?, op.output("Output")?);
    let (config, mut scratch) = (Config::of(op)?, Scratch::new());
    float_kernel!(op, "Input", |run, T| {
        let sizes = config.sizes(run.dims(input)?, run.dims(filter)?)?;
        let (x, filter, out) = (run.get(input)?, run.get(filter)?, run.set(&mut output)?);
        forward::<T>(&sizes, x, filter, out, &mut scratch)?;
    })
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
            gemm(m, n, k, result, filter, Order::Plain, windows, Order::Plain);
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
    let mut grad = Grad {
        input: op.input("Input")?,
        filter: op.input("Filter")?,
        dout: op.input("Output@GRAD")?,
        dinput: op.maybe_output("Input@GRAD"),
        dfilter: op.maybe_output("Filter@GRAD"),
    };
    let (config, mut scratch) = (Config::of(op)?, Scratch::new());
    float_kernel!(op, "Output@GRAD", |run, T| {
        let sizes = config.sizes(run.dims(grad.input)?, run.dims(grad.filter)?)?;
        let dims = run.dims(grad.dout)?;
        if dims.numel() != sizes.outputs {
            let problem = format!("has shape {dims}, not the {} elements", sizes.outputs);
            return Err(Error::kernel(format!("`Output@GRAD` {problem} of `Output`")));
        }
        grad.run::<T>(run, &sizes, &mut scratch)?;
    })
}

impl Grad {
    fn run<T: Real + Matrix>(
        &mut self,
        run: &Run<'_>,
        sizes: &Sizes,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (inside, outside, _) = sizes.planes();
        let (channels, filters) = (sizes.groups * sizes.channels, sizes.groups * sizes.filters);
        let (x, filter, dout) =
            (run.get::<T>(self.input)?, run.get::<T>(self.filter)?, run.get::<T>(self.dout)?);
        let (columns, turned, turned_out) = scratch.room::<T>(sizes)?;
        let mut dinput = self.dinput.as_mut().map(|dx| run.set::<T>(dx)).transpose()?;
        let mut dfilter = self.dfilter.as_mut().map(|dfilter| run.set::<T>(dfilter)).transpose()?;
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
        gemm_add(m, n, k, dfilter, dout, Order::Plain, windows, Order::Transposed);
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
            gemm(m, n, k, dx, filter, Order::Transposed, dout, Order::Plain);
        } else {
            gemm(m, n, k, columns, filter, Order::Transposed, dout, Order::Plain);
            dx.fill(T::ZERO);
            columns::scatter(&sizes.axes, columns, dx);
        }
    }
}
