//! `concat`: tensors side by side along an axis.

use super::blocks;
use super::dims::axis_in;
use super::given::integer;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("concat", kernel)
    .inputs(&[Slot::many("X"), Slot::maybe("AxisTensor")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::int("axis", 0)])
    .infer(infer)
    .split(SplitRule::Fn(|view| split_inside(view, "X")))
    .gradient(
        Gradient::new(&["X"], grad_kernel).reads(&["X", "AxisTensor"]).second(second::linear),
    );

/// Row by row, unless attribute `axis`, counted in slot `slot`, is the batch itself.
pub(super) fn split_inside(view: &SplitView<'_>, slot: &str) -> Option<Vec<Spread>> {
    let axis = axis_in(view.op.i64("axis").ok()?, view.meta(slot)?.rank()).ok()?;
    if axis == 0 || view.op.op.inputs.get("AxisTensor").is_some_and(|vars| !vars.is_empty()) {
        return None;
    }
    SplitRule::RowWise.apply(view)
}

/// An axis from attribute `axis` or from the tensor in slot `AxisTensor`.
#[derive(Clone, Copy)]
pub(super) struct Axis {
    attr: i64,
    tensor: Option<In>,
}

impl Axis {
    pub(super) fn new(op: &OpView<'_>) -> Result<Axis> {
        Ok(Axis { attr: op.i64("axis")?, tensor: op.maybe_input("AxisTensor") })
    }

    /// The axis of a tensor of `rank` dimensions, when it is known before anything runs.
    pub(super) fn known(self, rank: usize) -> Result<Option<usize>> {
        if self.tensor.is_some() { Ok(None) } else { axis_in(self.attr, rank).map(Some) }
    }

    /// The axis in this step.
    pub(super) fn read(self, run: &Run<'_>, rank: usize) -> Result<usize> {
        let axis = self.tensor.map_or(Ok(self.attr), |tensor| integer(run.tensor(tensor)?))?;
        axis_in(axis, rank)
    }
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let inputs = cx.inputs("X");
    let first = *inputs.first().ok_or_else(|| Error::kernel("`X` is empty"))?;
    let Some(axis) = Axis::new(cx.op())?.known(first.rank())? else {
        cx.set("Out", first.with_dims(vec![-1; first.rank()]));
        return Ok(());
    };
    let mut dims = first.dims.clone();
    for input in &inputs[1..] {
        let refuse = || {
            let shapes = format!("{:?} and {:?}", first.dims, input.dims);
            Error::kernel(format!("shapes {shapes} cannot be joined along axis {axis}"))
        };
        if input.rank() != first.rank() || input.dtype != first.dtype {
            return Err(refuse());
        }
        for (at, (dim, other)) in dims.iter_mut().zip(&input.dims).enumerate() {
            *dim = match at == axis {
                true if *dim == -1 || *other == -1 => -1,
                true => *dim + other,
                false => same_dim(*dim, *other).map_err(|_| refuse())?,
            };
        }
    }
    let mut out = first.with_dims(dims);
    if axis == 0 {
        out.lod_level = 0;
    }
    cx.set("Out", out);
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (inputs, axis, mut out) = (op.inputs("X"), Axis::new(op)?, op.output("Out")?);
    if inputs.is_empty() {
        return Err(Error::kernel("`X` is empty"));
    }
    Ok(Box::new(move |run| {
        let first = run.tensor(inputs[0])?;
        let axis = axis.read(run, first.dims().len())?;
        let dims = joined(run, &inputs, axis)?;
        let out = run.out(&mut out)?;
        out.resize(first.dtype(), dims);
        let row = dims.tail(axis) * first.dtype().size();
        let mut at = 0;
        for input in &inputs {
            let input = run.tensor(*input)?;
            let width = input.dims().tail(axis) * input.dtype().size();
            blocks::put(out.as_mut_bytes(), row, at, input.as_bytes(), width);
            at += width;
        }
        out.set_lod(if axis == 0 { &[] } else { first.lod() });
        Ok(())
    }))
}

/// The shape of the result, checked again because shapes may have been open until now.
fn joined(run: &Run<'_>, inputs: &[In], axis: usize) -> Result<Dims> {
    let first = run.tensor(inputs[0])?;
    let mut total = 0;
    for input in inputs {
        let input = run.tensor(*input)?;
        let (dims, like) = (input.dims(), first.dims());
        let fits = dims.len() == like.len()
            && dims[..axis] == like[..axis]
            && dims[axis + 1..] == like[axis + 1..];
        if !fits || input.dtype() != first.dtype() {
            let problem = format!("shapes {like} and {dims} cannot be joined along axis {axis}");
            return Err(Error::kernel(problem));
        }
        total += dims[axis];
    }
    let mut dims = [0; crate::tensor::MAX_RANK];
    dims[..first.dims().len()].copy_from_slice(&first.dims());
    dims[axis] = total;
    Ok(Dims::new(&dims[..first.dims().len()]))
}

/// The outputs of slot `slot` with the positions they belong to, without those nobody wants.
pub(in crate::ops) fn wanted_outputs(op: &OpView<'_>, slot: &str) -> Vec<Option<Out>> {
    let names = op.op.outputs_of(slot);
    let wanted = |(out, name): (Out, &String)| (name != bireme_ir::EMPTY_VAR).then_some(out);
    op.outputs(slot).into_iter().zip(names).map(wanted).collect()
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (inputs, dout) = (op.inputs("X"), op.input("Out@GRAD")?);
    let (axis, mut outputs) = (Axis::new(op)?, wanted_outputs(op, "X@GRAD"));
    if inputs.is_empty() || inputs.len() != outputs.len() {
        return Err(Error::kernel("`X@GRAD` must have one variable for each of `X`"));
    }
    Ok(Box::new(move |run| {
        let dout = run.tensor(dout)?;
        let axis = axis.read(run, dout.dims().len())?;
        if joined(run, &inputs, axis)? != dout.dims() {
            return Err(Error::kernel("`Out@GRAD` has not the shape of the joined `X`"));
        }
        let row = dout.dims().tail(axis) * dout.dtype().size();
        let mut at = 0;
        for (input, output) in inputs.iter().zip(&mut outputs) {
            let dims = run.dims(*input)?;
            let width = dims.tail(axis) * dout.dtype().size();
            if let Some(output) = output {
                let dx = run.out(output)?;
                dx.resize(dout.dtype(), dims);
                blocks::take(dout.as_bytes(), row, at, dx.as_mut_bytes(), width);
            }
            at += width;
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn nothing_cannot_be_joined() {
        let none: [String; 0] = [];
        for (kind, to) in [("concat", "Out"), ("stack", "Y")] {
            let op = Op::new(kind).input("X", none.clone()).output(to, ["out"]);
            assert!(run_once(&op, &mut HashMap::new()).is_err(), "{kind}");
        }
    }
}
