//! `gather` and `index_select`: slices of a tensor along one axis, in the order that a list of
//! indices gives. The gradient adds each slice back to where it came from.

use super::positions;
use crate::ops::create::cast;
use crate::ops::prelude::*;
use crate::ops::shape::dims::axis_in;
use crate::ops::shape::given::integer;

pub(super) const DEF: OpDef = OpDef::new("gather", |op| kernel(op, "axis", op.maybe_input("Axis")))
    .inputs(&[Slot::one("X"), Slot::one("Index"), Slot::maybe("Axis")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::int("axis", 0)])
    .infer(|cx| {
        let by_tensor = cx.maybe_input("Axis").is_some();
        infer(cx, "axis", by_tensor)
    })
    .split(SplitRule::Fn(|view| split(view, "axis")))
    .gradient(
        Gradient::new(&["X"], |op| grad_kernel(op, "axis", op.maybe_input("Axis")))
            .reads(&["X", "Index", "Axis"])
            .second(second::linear)
            .split(SplitRule::Fn(|view| split_grad(view, "axis"))),
    );

pub(super) const SELECT: OpDef = OpDef::new("index_select", |op| kernel(op, "dim", None))
    .inputs(&[Slot::one("X"), Slot::one("Index")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::int("dim", 0)])
    .infer(|cx| infer(cx, "dim", false))
    .split(SplitRule::Fn(|view| split(view, "dim")))
    .gradient(
        Gradient::new(&["X"], |op| grad_kernel(op, "dim", None))
            .reads(&["X", "Index"])
            .second(second::linear)
            .split(SplitRule::Fn(|view| split_grad(view, "dim"))),
    );

fn infer(cx: &mut Infer<'_>, attr: &str, by_tensor: bool) -> Result<()> {
    let (x, index) = (cx.input("X")?, cx.input("Index")?);
    let count = positions::count(index)?;
    let mut out = x.clone();
    if by_tensor {
        // The axis is known at run time only, but a scalar has none at all.
        axis_in(0, x.rank())?;
        out.dims.fill(-1);
        out.dims.truncate(x.rank() - usize::from(index.rank() == 0));
    } else {
        let axis = axis_in(cx.op().i64(attr)?, x.rank())?;
        // A single index, not a list of one, takes its axis away.
        if index.rank() == 0 {
            out.dims.remove(axis);
        } else {
            out.dims[axis] = count;
        }
    }
    out.lod_level = 0;
    cx.set("Out", out);
    Ok(())
}

/// Rows of a whole table by rows of indices, or columns of rows by whole indices.
fn split(view: &SplitView<'_>, attr: &str) -> Option<Vec<Spread>> {
    let axis = axis_in(view.op.i64(attr).ok()?, view.meta("X")?.rank()).ok()?;
    let fits = match (view.spread("X"), view.spread("Index")) {
        (Spread::Whole, Spread::Rows) => axis == 0,
        (Spread::Rows, Spread::Whole) => axis > 0,
        _ => false,
    };
    (fits && view.inputs.len() == 2).then(|| vec![Spread::Rows])
}

fn split_grad(view: &SplitView<'_>, attr: &str) -> Option<Vec<Spread>> {
    let axis = axis_in(view.op.i64(attr).ok()?, view.meta("X")?.rank()).ok()?;
    if view.spread("Out@GRAD") != Spread::Rows || view.inputs.len() != 3 {
        return None;
    }
    match (view.spread("X"), view.spread("Index")) {
        (Spread::Whole, Spread::Rows) if axis == 0 => Some(vec![Spread::Partial]),
        (Spread::Rows, Spread::Whole) if axis > 0 => Some(vec![Spread::Rows]),
        _ => None,
    }
}

fn kernel(op: &OpView<'_>, attr: &str, by_tensor: Option<In>) -> Result<Kernel> {
    let (x, index, mut out) = (op.input("X")?, op.input("Index")?, op.output("Out")?);
    let axis = op.i64(attr)?;
    let mut positions = Vec::new();
    Ok(Box::new(move |run| {
        let (x, index, out) = (run.tensor(x)?, run.tensor(index)?, run.out(&mut out)?);
        let axis = by_tensor.map_or(Ok(axis), |tensor| integer(run.tensor(tensor)?))?;
        let axis = axis_in(axis, x.dims().len())?;
        positions::read(&mut positions, index, x.dims()[axis])?;
        let keep = (!index.dims().is_empty()).then_some(positions.len());
        out.resize(x.dtype(), with_axis(x.dims(), axis, keep));
        let width = x.dims().tail(axis + 1) * x.dtype().size();
        let slab = x.dims()[axis] * width;
        if width == 0 || slab == 0 || positions.is_empty() {
            return Ok(());
        }
        let outer = out.as_mut_bytes().chunks_exact_mut(positions.len() * width);
        for (out, x) in outer.zip(x.as_bytes().chunks_exact(slab)) {
            for (out, at) in out.chunks_exact_mut(width).zip(&positions) {
                out.copy_from_slice(&x[at * width..(at + 1) * width]);
            }
        }
        Ok(())
    }))
}

/// The dimensions with `axis` set to `keep`, or taken away.
fn with_axis(dims: Dims, axis: usize, keep: Option<usize>) -> Dims {
    let mut all = [0; MAX_RANK];
    let rank = dims.len();
    all[..rank].copy_from_slice(&dims);
    match keep {
        Some(count) => all[axis] = count,
        None => all.copy_within(axis + 1.., axis),
    }
    Dims::new(&all[..rank - usize::from(keep.is_none())])
}

fn grad_kernel(op: &OpView<'_>, attr: &str, by_tensor: Option<In>) -> Result<Kernel> {
    let (x, index) = (op.input("X")?, op.input("Index")?);
    let (dout, mut dx, axis) = (op.input("Out@GRAD")?, op.output("X@GRAD")?, op.i64(attr)?);
    let mut positions = Vec::new();
    Ok(Box::new(move |run| {
        let (dims, dout, dx) = (run.dims(x)?, run.tensor(dout)?, run.out(&mut dx)?);
        let axis = by_tensor.map_or(Ok(axis), |tensor| integer(run.tensor(tensor)?))?;
        let axis = axis_in(axis, dims.len())?;
        positions::read(&mut positions, run.tensor(index)?, dims[axis])?;
        dx.resize(dout.dtype(), dims);
        dx.as_mut_bytes().fill(0);
        let width = dims.tail(axis + 1);
        add_back(dx, dout, &positions, dims[axis] * width, width)
    }))
}

/// Lets `add` work on 32-bit copies of a sum and of what is added to it.
pub(super) fn in_f32(
    sum: &mut Tensor,
    terms: &Tensor,
    add: impl FnOnce(&mut Tensor, &Tensor) -> Result<()>,
) -> Result<()> {
    let mut wide = Tensor::zeros(DType::F32, sum.dims());
    let mut wide_terms = Tensor::zeros(DType::F32, terms.dims());
    cast(sum, &mut wide)?;
    cast(terms, &mut wide_terms)?;
    add(&mut wide, &wide_terms)?;
    cast(&wide, sum)
}

/// Adds slices of `width` elements of `dout` to the positions they came from, slab by slab. Sums of
/// 16-bit floats are made in 32 bits: one that is large would swallow what is added to it.
pub(super) fn add_back(
    dx: &mut Tensor,
    dout: &Tensor,
    positions: &[usize],
    slab: usize,
    width: usize,
) -> Result<()> {
    if width == 0 || slab == 0 || positions.is_empty() {
        return Ok(());
    }
    if matches!(dout.dtype(), DType::F16 | DType::BF16) {
        return in_f32(dx, dout, |dx, dout| add_back(dx, dout, positions, slab, width));
    }
    dispatch!(dout.dtype(), T in [f32, f64, i32, i64] => {
        let outer = dout.as_slice::<T>()?.chunks_exact(positions.len() * width);
        for (dx, dout) in dx.as_mut_slice::<T>()?.chunks_exact_mut(slab).zip(outer) {
            for (dout, at) in dout.chunks_exact(width).zip(positions) {
                let dx = &mut dx[at * width..(at + 1) * width];
                dx.iter_mut().zip(dout).for_each(|(dx, dout)| *dx = dx.plus(*dout));
            }
        }
        Ok(())
    }, else => Err(Error::kernel(format!("cannot add {} elements", dout.dtype()))))
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use crate::ops::testing::*;

    #[test]
    fn gradients_of_16_bits_are_summed_in_32() {
        let op = Op::new("gather").input("X", ["x"]).input("Index", ["i"]).output("Out", ["out"]);
        let many = 600;
        let mut values = HashMap::new();
        let x = Tensor::from_slice([2, 1], &[bf16::ONE; 2]).unwrap();
        values.insert("x".to_owned(), x.into());
        values
            .insert("i".to_owned(), Tensor::from_slice([many], &vec![1i64; many]).unwrap().into());
        run_once(&op, &mut values).unwrap();
        let ones = Tensor::from_slice([many, 1], &vec![bf16::ONE; many]).unwrap();
        values.insert("out@GRAD".to_owned(), ones.into());
        run_gradient(&op, &mut values);
        // One by one in 16 bits the sum would stop at 256.
        assert_eq!(values["x@GRAD"].tensor().unwrap().to_f64_vec(), [0.0, 600.0]);
    }
}
