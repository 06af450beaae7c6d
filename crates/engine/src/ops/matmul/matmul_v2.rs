//! `matmul_v2` and the older `matmul`, which also scales its result by `alpha`.

use super::product::{Product, Transposes, result_dims};
use crate::ops::prelude::*;

pub(super) const V2: OpDef = def("matmul_v2", V2_ATTRS);
pub(super) const V1: OpDef = def("matmul", V1_ATTRS);

const V2_ATTRS: &[AttrSpec] = &[attr::bool("trans_x", false), attr::bool("trans_y", false)];
const V1_ATTRS: &[AttrSpec] = &[
    attr::bool("transpose_X", false),
    attr::bool("transpose_Y", false),
    attr::float("alpha", 1.0),
];

const fn def(name: &'static str, attrs: &'static [AttrSpec]) -> OpDef {
    OpDef::new(name, kernel)
        .inputs(const { &[Slot::one("X"), Slot::one("Y")] })
        .outputs(const { &[Slot::one("Out")] })
        .attrs(attrs)
        .infer(infer)
        .lod_from("X")
        .split(SplitRule::Fn(split))
        .gradient(
            Gradient::new(&["X", "Y"], grad_kernel)
                .reads(&["X", "Y"])
                .second(second::product)
                .split(SplitRule::Fn(split_grad)),
        )
}

/// Transpositions and factor, whatever this version calls them.
fn options(op: &OpView<'_>) -> Result<(Transposes, f64)> {
    if op.def.name.starts_with("matmul_v2") {
        Ok((Transposes { x: op.bool("trans_x")?, y: op.bool("trans_y")? }, 1.0))
    } else {
        let transposes = Transposes { x: op.bool("transpose_X")?, y: op.bool("transpose_Y")? };
        Ok((transposes, op.f64("alpha")?))
    }
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, y) = (cx.input("X")?, cx.input("Y")?);
    let out = x.with_dims(result_dims(&x.dims, &y.dims, options(cx.op())?.0)?);
    cx.set("Out", out);
    Ok(())
}

/// Whether the rows of `X` make the rows of the result; `Y` is a weight, or rows as well.
fn by_rows(view: &SplitView<'_>) -> Option<()> {
    let (x, y) = (view.meta("X")?, view.meta("Y")?);
    let (transposes, _) = options(view.op).ok()?;
    let leading = x.rank() > 2 || (x.rank() == 2 && !transposes.x);
    let other = match view.spread("Y") {
        Spread::Whole => y.rank() < 3 || y.rank() < x.rank() || y.dims[0] == 1,
        Spread::Rows => x.rank() > 2 && y.rank() == x.rank() && y.dims[0] == x.dims[0],
        Spread::Partial => false,
    };
    let longest = x.rank() >= y.rank();
    (view.spread("X") == Spread::Rows && leading && other && longest).then_some(())
}

fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    by_rows(view).map(|()| vec![Spread::Rows])
}

/// A weight's gradient is a sum over the batch, so each worker has a piece of it.
fn split_grad(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    by_rows(view)?;
    if view.spread("Out@GRAD") != Spread::Rows {
        return None;
    }
    let of_y = if view.spread("Y") == Spread::Rows { Spread::Rows } else { Spread::Partial };
    view.outputs_by_slot(|slot| if slot == "X@GRAD" { Spread::Rows } else { of_y })
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, y, mut out) = (op.input("X")?, op.input("Y")?, op.output("Out")?);
    let (transposes, alpha) = options(op)?;
    float_kernel!(op, "X", |run, T| {
        let product =
            Product::new(&run.dims(x)?, &run.dims(y)?, transposes)?.half(run.rounds_factors);
        product.forward::<T>(alpha as T, run.get(x)?, run.get(y)?, run.set(&mut out)?);
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, y, dout) = (op.input("X")?, op.input("Y")?, op.input("Out@GRAD")?);
    let (mut dx, mut dy) = (op.maybe_output("X@GRAD"), op.maybe_output("Y@GRAD"));
    let (transposes, alpha) = options(op)?;
    float_kernel!(op, "X", |run, T| {
        let product =
            Product::new(&run.dims(x)?, &run.dims(y)?, transposes)?.half(run.rounds_factors);
        let dout = run.get::<T>(dout)?;
        if let Some(dx) = &mut dx {
            product.backward_x::<T>(alpha as T, run.get(y)?, dout, run.set(dx)?);
        }
        if let Some(dy) = &mut dy {
            product.backward_y::<T>(alpha as T, run.get(x)?, dout, run.set(dy)?);
        }
    })
}
