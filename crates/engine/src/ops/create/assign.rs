//! `assign`: a copy; `assign_value`: a tensor written in the program.

use bireme_ir::{Attr, Op, Scalar, VarKind, grad_name};

use crate::ops::prelude::*;
use crate::ops::shape::dims::{ranked, sized};

pub(super) const DEF: OpDef = OpDef::new("assign", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .like(&[("Out", "X")])
    .lod_from("X")
    .grad(GradRule::Fn(grad))
    .split(SplitRule::Fn(split));

pub(super) const VALUE: OpDef = OpDef::new("assign_value", value_kernel)
    .outputs(&[Slot::one("Out")])
    .attrs(&[
        attr::required("shape", AttrKind::Ints),
        attr::required("dtype", AttrKind::Int),
        attr::ints("bool_values", &[]),
        attr::floats("fp32_values", &[]),
        attr::absent("fp64_values", AttrKind::Float64s),
        attr::ints("int32_values", &[]),
        attr::longs("int64_values", &[]),
        attr::absent("values", AttrKind::Scalars),
    ])
    .infer(value_infer);

fn grad(view: &OpView<'_>) -> Result<Vec<Op>> {
    let op = Op::new("assign")
        .input("X", view.op.outputs_of("Out").iter().map(|out| grad_name(out)))
        .output("Out", view.op.inputs_of("X").iter().map(|x| grad_name(x)));
    Ok(vec![op])
}

fn split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let (spread, dense) = (view.spread("X"), view.meta("X")?.kind == VarKind::LodTensor);
    (dense && spread != Spread::Whole).then(|| vec![spread])
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    Ok(Box::new(move |run| {
        match run.value(x) {
            Value::Tensor(x) => run.out(&mut out)?.copy_from(x),
            Value::Rows(x) => {
                let out = run.out_rows(&mut out, x.value.dtype());
                out.rows.clone_from(&x.rows);
                out.height = x.height;
                out.value.copy_from(&x.value);
            }
        }
        Ok(())
    }))
}

fn value_infer(cx: &mut Infer<'_>) -> Result<()> {
    let out = Meta::new(cx.op().dtype("dtype")?, ranked(cx.op().longs("shape")?)?);
    cx.set("Out", out);
    Ok(())
}

fn value_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (constant, mut out) = (constant(op)?, op.output("Out")?);
    Ok(Box::new(move |run| {
        run.out(&mut out)?.copy_from(&constant);
        Ok(())
    }))
}

/// The tensor in the attributes: `values`, or the list of its element type.
fn constant(op: &OpView<'_>) -> Result<Tensor> {
    let (dims, dtype) = (sized(&op.longs("shape")?)?, op.dtype("dtype")?);
    let reals =
        |name: &str| if op.maybe_attr(name).is_some() { op.floats(name) } else { Ok(vec![]) };
    let scalars: Vec<Scalar> = match (op.maybe_attr("values"), dtype) {
        (Some(Attr::Scalars(values)), _) if !values.is_empty() => values,
        (_, DType::Bool) => wholes(op.longs("bool_values")?),
        (_, DType::I32) => wholes(op.longs("int32_values")?),
        (_, DType::I64) => wholes(op.longs("int64_values")?),
        (_, DType::F32) => reals("fp32_values")?.into_iter().map(Scalar::Float64).collect(),
        (_, DType::F64) => reals("fp64_values")?.into_iter().map(Scalar::Float64).collect(),
        (_, other) => return Err(Error::kernel(format!("cannot assign {other} values"))),
    };
    let mut tensor = Tensor::zeros(dtype, [scalars.len()]);
    dispatch!(dtype, T in [f32, f64, i64, i32, u8, i8, i16, f16, bf16] => {
        for (out, scalar) in tensor.as_mut_slice::<T>()?.iter_mut().zip(&scalars) {
            *out = T::from_f64(real(*scalar));
        }
    }, else => unreachable!("every element type is listed"));
    if let Ok(out) = tensor.as_mut_slice::<i64>() {
        for (out, scalar) in out.iter_mut().zip(&scalars) {
            if let Scalar::Long(value) = scalar {
                *out = *value;
            }
        }
    }
    tensor.reshape(dims)?;
    Ok(tensor)
}

fn wholes(values: Vec<i64>) -> Vec<Scalar> {
    values.into_iter().map(Scalar::Long).collect()
}

fn real(scalar: Scalar) -> f64 {
    match scalar {
        Scalar::Bool(value) => f64::from(u8::from(value)),
        Scalar::Long(value) => value as f64,
        Scalar::Float64(value) | Scalar::Complex(value, _) => value,
    }
}
