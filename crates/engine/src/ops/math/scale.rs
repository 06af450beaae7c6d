//! `scale`: `Out = scale * X + bias`, or `scale * (X + bias)`.

use bireme_ir::{Op, VarKind};

use crate::ops::prelude::*;
use crate::ops::shape::given::first_number;

pub(super) const DEF: OpDef = OpDef::new("scale", kernel)
    .inputs(&[Slot::one("X"), Slot::maybe("ScaleTensor")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[
        attr::float("scale", 1.0),
        attr::float("bias", 0.0),
        attr::bool("bias_after_scale", true),
    ])
    .like(&[("Out", "X")])
    .lod_from("X")
    .inplace(&[("X", "Out")])
    .grad(GradRule::Fn(grad))
    .split(SplitRule::Fn(split));

/// The gradient is a scale by the same factor.
fn grad(view: &OpView<'_>) -> Result<Vec<Op>> {
    let mut op = Op::new("scale")
        .input("X", view.op.outputs_of("Out").iter().map(|out| bireme_ir::grad_name(out)))
        .output("Out", view.op.inputs_of("X").iter().map(|x| bireme_ir::grad_name(x)))
        .attr("scale", view.attr("scale")?)
        .attr("bias", 0.0f32)
        .attr("bias_after_scale", true);
    if let Some(factor) = view.op.inputs.get("ScaleTensor") {
        op.inputs.insert("ScaleTensor".to_owned(), factor.clone());
    }
    Ok(vec![op])
}

/// Linear without a bias, so it may scale rows or pieces of a sum alike.
fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let spread = view.spread("X");
    let dense = view.meta("X")?.kind == VarKind::LodTensor;
    let piecewise = spread != Spread::Partial || view.op.f64("bias").is_ok_and(|bias| bias == 0.0);
    (dense && piecewise && view.spread("ScaleTensor") == Spread::Whole).then(|| vec![spread])
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (mut x, factor) = (op.in_out("X", "Out")?, op.maybe_input("ScaleTensor"));
    let (scale, bias, after) = (op.f64("scale")?, op.f64("bias")?, op.bool("bias_after_scale")?);
    Ok(Box::new(move |run| {
        let scale = match factor {
            Some(factor) => number_of(run.tensor(factor)?)?,
            None => scale,
        };
        let bias = if after { bias } else { bias * scale };
        run.carry_over(&mut x)?;
        match run.out_value(&mut x.out) {
            Value::Tensor(out) => affine(out, scale, bias),
            Value::Rows(out) => affine(&mut out.value, scale, bias),
        }
    }))
}

/// The factor that `ScaleTensor` holds.
fn number_of(factor: &Tensor) -> Result<f64> {
    first_number(factor).ok_or_else(|| {
        let (dtype, dims) = (factor.dtype(), factor.dims());
        Error::kernel(format!("`ScaleTensor` must hold a number, but is {dtype} of shape {dims}"))
    })
}

fn affine(out: &mut Tensor, scale: f64, bias: f64) -> Result<()> {
    let dtype = out.dtype();
    dispatch!(dtype, T in [f32, f64, i32, i64] => {
        let (scale, bias) = (T::from_f64(scale), T::from_f64(bias));
        let out = out.as_mut_slice::<T>()?;
        vectorized(
            #[inline(always)]
            || out.iter_mut().for_each(|out| *out = out.times(scale).plus(bias)),
        );
        Ok(())
    }, else => Err(Error::kernel(format!("cannot scale {dtype} elements"))))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn a_factor_without_a_number_is_refused() {
        let op = Op::new("scale").input("X", ["x"]).input("ScaleTensor", ["factor"]);
        let op = op.output("Out", ["out"]).attr("scale", 3.0f32);
        let mut values = HashMap::new();
        values.insert("x".to_owned(), Tensor::from_slice([2], &[1f32, 2.0]).unwrap().into());
        values.insert("factor".to_owned(), Tensor::from_slice([0], &[0f32; 0]).unwrap().into());
        let error = run_once(&op, &mut values).unwrap_err().to_string();
        assert!(error.contains("`ScaleTensor` must hold a number"), "{error}");
    }
}
