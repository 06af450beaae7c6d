//! What ops share that put the same elements, in the same order, under another shape: `reshape2`,
//! `squeeze2`, `unsqueeze2`, `flatten*`.
//!
//! `XShape` is an output without elements whose dimensions are `[0, X's dimensions...]`: it tells
//! the gradient the shape of `X` without keeping `X` alive.

use crate::ops::prelude::*;

/// The gradient of an op that keeps the shape of `X` in `XShape`.
pub(super) const BY_SHAPE: Gradient = Gradient::new(&["X"], grad_kernel)
    .reads(&["XShape"])
    .infer(infer_grad)
    .second(second::relabelled)
    .split(SplitRule::Fn(split_grad));

/// The gradient of an older op, which reads `X` for its shape.
pub(super) const BY_X: Gradient = Gradient::new(&["X"], grad_kernel)
    .reads(&["X"])
    .second(second::relabelled)
    .split(SplitRule::Fn(split_grad));
use crate::ops::shape::dims::{keep_lod, ranked, signed, sized};
use crate::ops::shape::given::Given;

/// The dimensions of `Out`, from those of `X` (-1 where unknown) and the op's integers.
pub(super) type Rule = fn(&[i64], &[i64]) -> Result<Vec<i64>>;

/// The shape rule of an op whose integers are known.
pub(super) fn infer(cx: &mut Infer<'_>, integers: &[i64], rule: Rule) -> Result<()> {
    let dims = rule(&cx.input("X")?.dims, integers)?;
    infer_as(cx, dims)
}

/// `Out` has dimensions `dims`; `XShape` remembers those of `X`.
pub(super) fn infer_as(cx: &mut Infer<'_>, dims: Vec<i64>) -> Result<()> {
    let x = cx.input("X")?;
    let mut out = x.with_dims(ranked(dims)?);
    if out.dims.first() != x.dims.first() {
        out.lod_level = 0;
    }
    cx.set("Out", out);
    if has_xshape(cx.op()) {
        let xshape = Meta::new(x.dtype, ranked([&[0], x.dims.as_slice()].concat())?);
        cx.set("XShape", xshape);
    }
    Ok(())
}

/// The shape rule of a gradient that reads `XShape`.
pub(super) fn infer_grad(cx: &mut Infer<'_>) -> Result<()> {
    let (xshape, dout) = (cx.input("XShape")?, cx.input("Out@GRAD")?);
    let dims = xshape.dims.get(1..).ok_or_else(|| Error::kernel("`XShape` has no dimensions"))?;
    cx.set("X@GRAD", Meta::new(dout.dtype, dims));
    Ok(())
}

/// Rows stay rows where both first dimensions are multiples of the batch, because elements keep
/// their order; and any relabelling of a sum's pieces is a piece of the relabelled sum.
pub(super) fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    // A shape in a tensor speaks of the whole batch.
    let spread = relabelled(view, "X").filter(|_| view.inputs.len() == 1)?;
    view.outputs_by_slot(|slot| if slot == "Out" { spread } else { Spread::Whole })
}

/// As [`split`], for the gradient.
pub(super) fn split_grad(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    relabelled(view, "Out@GRAD").map(|spread| vec![spread])
}

fn relabelled(view: &SplitView<'_>, slot: &str) -> Option<Spread> {
    let batch = view.batch as i64;
    // Rows of no elements do not tell how many there are.
    if view.meta(slot)?.dims.contains(&0) {
        return None;
    }
    let fits = match view.spread(slot) {
        Spread::Rows => view.outputs[0].dims.first().is_some_and(|d| *d > 0 && *d % batch == 0),
        Spread::Partial => true,
        Spread::Whole => false,
    };
    fits.then(|| view.spread(slot))
}

/// Copies `X` to `Out`. The shape is computed here only when the shape rule had to leave it open.
pub(super) fn kernel(op: &OpView<'_>, mut given: Given, rule: Rule) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    let mut xshape = if has_xshape(op) { op.maybe_output("XShape") } else { None };
    let mut open = given.known().is_none();
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        open |= out.numel() != x.numel() || x.numel() == 0;
        if open {
            let dims = sized(&rule(&signed(&x.dims()), given.read(run)?)?)?;
            resize(x, out, dims)?;
            if let Some(xshape) = &mut xshape {
                let dims = sized(&ranked([&[0], signed(&x.dims()).as_slice()].concat())?)?;
                run.out(xshape)?.resize(x.dtype(), dims);
            }
        }
        copy(x, out);
        Ok(())
    }))
}

/// Copies `Out@GRAD` to `X@GRAD`.
pub(super) fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (dout, mut dx) = (op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let by_xshape = op.def.signature.inputs.iter().any(|slot| slot.name == "XShape");
    let like = op.input(if by_xshape { "XShape" } else { "X" })?;
    let mut open = false;
    Ok(Box::new(move |run| {
        let (dout, dx) = (run.tensor(dout)?, run.out(&mut dx)?);
        open |= dx.numel() != dout.numel() || dx.numel() == 0;
        if open {
            let dims = run.dims(like)?;
            let skip = usize::from(by_xshape).min(dims.len());
            resize(dout, dx, Dims::new(&dims[skip..]))?;
        }
        copy(dout, dx);
        Ok(())
    }))
}

fn resize(x: &Tensor, out: &mut Tensor, dims: Dims) -> Result<()> {
    if dims.numel() != x.numel() {
        return Err(Error::ElementCount { dims, values: x.numel() });
    }
    out.resize(x.dtype(), dims);
    Ok(())
}

fn copy(x: &Tensor, out: &mut Tensor) {
    let dims = out.dims();
    out.resize(x.dtype(), dims);
    out.as_mut_bytes().copy_from_slice(x.as_bytes());
    keep_lod(x, out);
}

fn has_xshape(op: &OpView<'_>) -> bool {
    op.def.signature.outputs.iter().any(|slot| slot.name == "XShape")
}
