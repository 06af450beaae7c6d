//! `einsum`: sums of products along axes that an equation names.
//!
//! Its gradient reads the operands themselves. In programs of Paddle it reads what the op kept
//! instead: `InnerCache`, the operands in the order of the product, and `x_shape`, their shapes.

mod contraction;
mod equation;

#[cfg(test)]
mod tests;

use bireme_ir::EMPTY_VAR;

pub use self::contraction::{Axis, Contraction, Side};

use self::contraction::Scratch;
use self::equation::Equation;
use crate::gemm::Matrix;
use crate::ops::prelude::*;
use crate::ops::shape::dims::signed;

const ATTRS: &[AttrSpec] = &[attr::required("equation", AttrKind::String)];

pub(super) const DEF: OpDef = OpDef::new("einsum", kernel)
    .inputs(&[Slot::many("Operands")])
    .outputs(&[Slot::one("Out"), Slot::any("InnerCache"), Slot::any("XShape")])
    .attrs(ATTRS)
    .infer(infer)
    .grad(GradRule::Op(&["Operands"]))
    .split(SplitRule::Fn(split));

pub(super) const GRAD: OpDef = OpDef::new("einsum_grad", grad_kernel)
    .inputs(&[
        Slot::any("Operands"),
        Slot::any("InnerCache"),
        Slot::any("x_shape"),
        Slot::one("Out@GRAD"),
    ])
    .outputs(&[Slot::many("Operands@GRAD")])
    .attrs(ATTRS)
    .infer(infer_grad)
    .split(SplitRule::Fn(split_grad));

fn equation(op: &OpView<'_>) -> Result<Equation> {
    Equation::parse(&op.string("equation")?)
}

/// How the products of an `einsum` op are made up, for operands of these shapes: for those who run them
/// elsewhere.
///
/// # Errors
/// When the operands do not fit the op's equation.
pub fn contraction(op: &OpView<'_>, operands: &[Dims]) -> Result<Contraction> {
    let shapes: Vec<Vec<i64>> = operands.iter().map(|dims| signed(dims)).collect();
    let shapes: Vec<&[i64]> = shapes.iter().map(Vec::as_slice).collect();
    Contraction::new(&equation(op)?.label(&shapes)?, operands)
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let operands = cx.inputs("Operands");
    let first = operands[0];
    if let Some(other) = operands.iter().find(|operand| operand.dtype != first.dtype) {
        let (a, b) = (first.dtype, other.dtype);
        return Err(Error::kernel(format!("operands must be of one type, not {a} and {b}")));
    }
    let shapes: Vec<&[i64]> = operands.iter().map(|operand| operand.dims.as_slice()).collect();
    let labels = equation(cx.op())?.label(&shapes)?;
    let dims: Vec<i64> = labels.output.iter().map(|label| labels.size(*label)).collect();
    let known: Option<Vec<Dims>> = operands.iter().map(|operand| concrete(operand)).collect();
    let kept = match known {
        Some(known) => {
            let contraction = Contraction::new(&labels, &known)?;
            (0..known.len()).map(|operand| contraction.ordered(operand) as i64).collect()
        }
        None => vec![-1; operands.len()],
    };
    let dtype = first.dtype;
    cx.set("Out", Meta::new(dtype, dims));
    cx.set_each("InnerCache", kept.into_iter().map(|count| Meta::new(dtype, [count])));
    let shapes = shapes.iter().map(|dims| Meta::new(dtype, *dims)).collect::<Vec<_>>();
    cx.set_each("XShape", shapes);
    Ok(())
}

fn concrete(meta: &Meta) -> Option<Dims> {
    let dims = meta.dims.iter().map(|dim| usize::try_from(*dim).ok());
    Some(Dims::new(&dims.collect::<Option<Vec<_>>>()?))
}

fn infer_grad(cx: &mut Infer<'_>) -> Result<()> {
    let operands = cx.inputs("Operands");
    let like = if operands.is_empty() { cx.inputs("x_shape") } else { operands };
    let grads: Vec<Meta> = like.into_iter().cloned().collect();
    if grads.is_empty() {
        return Err(Error::kernel("input slots `Operands` and `x_shape` are both empty"));
    }
    cx.set_each("Operands@GRAD", grads);
    Ok(())
}

/// Rows stay rows when the first axis of the output is the first axis of all operands that are
/// spread by rows, and no axis of the others. What is left is the operands that have rows.
fn rows(view: &SplitView<'_>) -> Option<Vec<bool>> {
    let operands = view.op.input_positions("Operands");
    let metas = view.inputs[operands.clone()].iter();
    let shapes: Vec<&[i64]> = metas.map(|meta| meta.dims.as_slice()).collect();
    let labels = equation(view.op).ok()?.label(&shapes).ok()?;
    let row = *labels.output.first()?;
    let once = |axes: &[u8]| axes.iter().filter(|axis| **axis == row).count() == 1;
    let mut with_rows = Vec::new();
    for (axes, spread) in labels.inputs.iter().zip(&view.spreads[operands]) {
        match spread {
            Spread::Rows if axes.first() == Some(&row) && once(axes) => with_rows.push(true),
            Spread::Whole if !axes.contains(&row) => with_rows.push(false),
            _ => return None,
        }
    }
    (with_rows.contains(&true) && once(&labels.output)).then_some(with_rows)
}

fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    rows(view)?;
    view.outputs_by_slot(|slot| match slot {
        "Out" => Spread::Rows,
        _ => Spread::Whole,
    })
    // What is kept for the gradient of Paddle's programs has no rows.
    .filter(|spreads| spreads.len() == 1)
}

fn split_grad(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    if view.spread("Out@GRAD") != Spread::Rows || view.op.inputs("Operands").is_empty() {
        return None;
    }
    let spread = |rows: bool| if rows { Spread::Rows } else { Spread::Partial };
    Some(rows(view)?.into_iter().map(spread).collect())
}

/// The plan for the shapes of the last step; most steps have the same.
struct Planned {
    equation: Equation,
    dims: Vec<Dims>,
    contraction: Option<Contraction>,
    /// Operands in order, where they are not already.
    ordered: [Tensor; 2],
    scratch: Scratch,
}

impl Planned {
    fn of(op: &OpView<'_>) -> Result<Planned> {
        let empty = || Tensor::empty(DType::F32);
        Ok(Planned {
            equation: equation(op)?,
            dims: Vec::new(),
            contraction: None,
            ordered: [empty(), empty()],
            scratch: Scratch::new(),
        })
    }

    /// Makes the plan fit `count` operands of these shapes.
    fn fit(&mut self, count: usize, dims: impl Fn(usize) -> Result<Dims>) -> Result<()> {
        let mut same = self.contraction.is_some();
        for i in 0..count {
            same = same && self.dims.get(i) == Some(&dims(i)?);
        }
        if !same {
            self.dims = (0..count).map(dims).collect::<Result<_>>()?;
            let shapes: Vec<Vec<i64>> = self.dims.iter().map(|dims| signed(dims)).collect();
            let shapes: Vec<&[i64]> = shapes.iter().map(Vec::as_slice).collect();
            let labels = self.equation.label(&shapes)?;
            self.contraction = Some(Contraction::new(&labels, &self.dims)?);
        }
        Ok(())
    }
}

/// An operand in order: as it is, or put in order in `to`.
fn in_order<'a, T: Real>(
    contraction: &Contraction,
    operand: usize,
    from: &'a Tensor,
    to: &'a mut Tensor,
    scratch: &mut Scratch,
) -> Result<&'a Tensor> {
    if contraction.is_ordered(operand) {
        return Ok(from);
    }
    contraction.order::<T>(operand, from, to, scratch)?;
    Ok(to)
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (operands, mut out) = (op.inputs("Operands"), op.output("Out")?);
    let (mut caches, mut shapes) = (op.outputs("InnerCache"), op.outputs("XShape"));
    let mut planned = Planned::of(op)?;
    float_kernel!(op, "Operands", |run, T| {
        planned.fit(operands.len(), |i| run.dims(operands[i]))?;
        for shape in &mut shapes {
            // Only their shapes mean something; zeros are finite.
            run.out(shape)?.as_mut_bytes().fill(0);
        }
        forward::<T>(run, &operands, &mut caches, &mut out, &mut planned)?;
    })
}

fn forward<T: Matrix + Real>(
    run: &Run<'_>,
    operands: &[In],
    caches: &mut [Out],
    out: &mut Out,
    planned: &mut Planned,
) -> Result<()> {
    let Planned { contraction: Some(contraction), ordered, scratch, .. } = planned else {
        return Err(Error::kernel("internal error: no plan"));
    };
    let mut sides = [None, None];
    let mut caches = caches.iter_mut();
    for (i, own) in ordered.iter_mut().enumerate().take(operands.len()) {
        let from = run.tensor(operands[i])?;
        sides[i] = Some(match caches.next() {
            Some(cache) => {
                let cache = run.out(cache)?;
                contraction.order::<T>(i, from, cache, scratch)?;
                &*cache
            }
            None => in_order::<T>(contraction, i, from, own, scratch)?,
        });
    }
    contraction.forward::<T>(sides, run.out(out)?, scratch)
}

/// Where the gradient finds operands in order, and shapes.
enum Source {
    /// The operands themselves.
    Operands(Vec<In>),
    /// What Paddle's programs keep: operands in order, and shapes.
    Kept(Vec<In>, Vec<In>),
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let operands = op.inputs("Operands");
    let source = if operands.is_empty() {
        Source::Kept(op.inputs("InnerCache"), op.inputs("x_shape"))
    } else {
        Source::Operands(operands)
    };
    let dout = op.input("Out@GRAD")?;
    let names = op.op.outputs_of("Operands@GRAD");
    let grads = op.outputs("Operands@GRAD").into_iter().zip(names);
    let mut grads: Vec<Option<Out>> =
        grads.map(|(grad, name)| (name != EMPTY_VAR).then_some(grad)).collect();
    let mut planned = Planned::of(op)?;
    let mut dproduct = Tensor::empty(DType::F32);
    float_kernel!(op, "Out@GRAD", |run, T| {
        planned.fit(grads.len(), |i| match &source {
            Source::Operands(operands) => run.dims(operands[i]),
            Source::Kept(_, shapes) => run.dims(shapes[i]),
        })?;
        backward::<T>(run, &source, dout, &mut grads, &mut planned, &mut dproduct)?;
    })
}

fn backward<T: Matrix + Real>(
    run: &Run<'_>,
    source: &Source,
    dout: In,
    grads: &mut [Option<Out>],
    planned: &mut Planned,
    dproduct: &mut Tensor,
) -> Result<()> {
    let Planned { contraction: Some(contraction), ordered, scratch, .. } = planned else {
        return Err(Error::kernel("internal error: no plan"));
    };
    contraction.product_grad::<T>(run.tensor(dout)?, dproduct, scratch);
    let count = grads.len();
    for (i, grad) in grads.iter_mut().enumerate() {
        let Some(grad) = grad else { continue };
        let other = 1 - i;
        let other = match source {
            _ if count == 1 => None,
            Source::Kept(kept, _) => {
                let kept = run.tensor(kept[other])?;
                if kept.numel() != contraction.ordered(other) {
                    return Err(Error::kernel("`InnerCache` does not come from this `einsum` op"));
                }
                Some(kept)
            }
            Source::Operands(operands) => {
                let from = run.tensor(operands[other])?;
                Some(in_order::<T>(contraction, other, from, &mut ordered[other], scratch)?)
            }
        };
        contraction.backward::<T>(i, dproduct, other, run.out(grad)?, scratch)?;
    }
    Ok(())
}
