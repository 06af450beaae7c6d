//! `norm`: divides by the Euclidean norm along `axis` (`l2_normalize`).

use bireme_ir::AttrKind;

use crate::ops::prelude::*;

const ATTRS: &[AttrSpec] = &[
    attr::required("axis", AttrKind::Int),
    attr::float("epsilon", 1e-10),
    attr::bool("is_test", false),
];

pub(super) const DEF: OpDef = OpDef::new("norm", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out"), Slot::maybe("Norm")])
    .attrs(ATTRS)
    .infer(infer)
    .lod_from("X")
    .split(SplitRule::Fn(split))
    .gradient(Gradient::new(&["X"], grad_kernel).reads(&["X", "Norm"]).formula(formula));

/// The gradient as other ops, with the norm computed anew: a gradient does not reach it otherwise.
fn formula(f: &mut Formula<'_>) -> Result<()> {
    let (x, dout) = (f.input("X")?, f.input("Out@GRAD")?);
    let (axis, epsilon) = (f.op().i64("axis")? as i32, f.op().f64("epsilon")?);
    let square = f.mul(&x, &x);
    let sum = f.sum(&square, &[axis], true);
    let sum = f.affine(&sum, 1.0, epsilon);
    let inverse = f.unary("rsqrt", &sum);
    let out = f.mul(&x, &inverse);
    let along = f.mul(&out, &dout);
    let along = f.sum(&along, &[axis], true);
    let share = f.mul(&out, &along);
    let rest = f.sub(&dout, &share);
    let dx = f.mul(&rest, &inverse);
    f.give("X@GRAD", &dx);
    Ok(())
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    let mut norm = x.clone();
    match norm.dims.get_mut(x.axis(cx.op().i64("axis")?)?) {
        Some(dim) => *dim = 1,
        None => return Err(Error::kernel("`X` must have at least one dimension")),
    }
    cx.set("Norm", norm);
    cx.like(&[("Out", "X")])
}

/// Rows are independent unless the norm runs over them.
fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let rank = view.outputs.first()?.rank() as i64;
    let axis = view.op.i64("axis").ok()?;
    if axis == 0 || axis + rank == 0 { None } else { SplitRule::RowWise.apply(view) }
}

/// Elements that share a norm: `len` of them, `step` apart, starting in each block of `len * step`.
fn lines(dims: Dims, axis: i64) -> (usize, usize) {
    let axis = if axis < 0 { axis + dims.len() as i64 } else { axis } as usize;
    (dims[axis], dims.tail(axis + 1))
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, mut norm) = (op.input("X")?, op.output("Out")?, op.maybe_output("Norm"));
    let (axis, epsilon) = (op.i64("axis")?, op.f64("epsilon")?);
    float_kernel!(op, "X", |run, T| {
        let (len, step) = lines(run.dims(x)?, axis);
        let (x, out) = (run.get::<T>(x)?, run.set::<T>(&mut out)?);
        let mut norms = norm.as_mut().map(|norm| run.set::<T>(norm)).transpose()?;
        let blocks =
            x.chunks_exact((len * step).max(1)).zip(out.chunks_exact_mut((len * step).max(1)));
        for (block, (x, out)) in blocks.enumerate() {
            for first in 0..step {
                let line = || (first..len * step).step_by(step);
                let square: T = line().map(|at| x[at] * x[at]).sum();
                let norm = (square + epsilon as T).sqrt();
                line().for_each(|at| out[at] = x[at] / norm);
                norms.iter_mut().for_each(|norms| norms[block * step + first] = norm);
            }
        }
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, norm) = (op.input("X")?, op.input("Norm")?);
    let (dout, mut dx) = (op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let axis = op.i64("axis")?;
    float_kernel!(op, "X", |run, T| {
        let (len, step) = lines(run.dims(x)?, axis);
        let (x, norms) = (run.get::<T>(x)?, run.get::<T>(norm)?);
        let (dout, dx) = (run.get::<T>(dout)?, run.set::<T>(&mut dx)?);
        let size = (len * step).max(1);
        let blocks = x.chunks_exact(size).zip(dout.chunks_exact(size));
        for (block, ((x, dout), dx)) in blocks.zip(dx.chunks_exact_mut(size)).enumerate() {
            for first in 0..step {
                let line = || (first..len * step).step_by(step);
                let norm = norms[block * step + first];
                let along: T = line().map(|at| x[at] * dout[at]).sum();
                let along = along / (norm * norm);
                line().for_each(|at| dx[at] = (dout[at] - x[at] * along) / norm);
            }
        }
    })
}
