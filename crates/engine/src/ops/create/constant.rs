//! `fill_constant` and its kin: tensors of one value, of a given shape or that of another tensor.

use crate::ops::prelude::*;
use crate::ops::shape::dims::{axis_in, ranked, sized};
use crate::ops::shape::given::Given;

pub(super) const DEF: OpDef = OpDef::new("fill_constant", kernel)
    .inputs(&[Slot::maybe("ValueTensor"), Slot::maybe("ShapeTensor"), Slot::any("ShapeTensorList")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[
        attr::int("dtype", DType::F32.code()),
        attr::longs("shape", &[]),
        attr::float("value", 0.0),
        attr::str("str_value", ""),
        attr::bool("force_cpu", false),
        attr::int("place_type", -1),
    ])
    .infer(infer);

pub(super) const BATCH_SIZE_LIKE: OpDef = OpDef::new("fill_constant_batch_size_like", batch_kernel)
    .inputs(&[Slot::one("Input")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[
        attr::required("shape", AttrKind::Ints),
        attr::int("input_dim_idx", 0),
        attr::int("output_dim_idx", 0),
        attr::int("dtype", DType::F32.code()),
        attr::float("value", 0.0),
        attr::str("str_value", ""),
        attr::bool("force_cpu", false),
    ])
    .infer(batch_infer)
    .split(SplitRule::Fn(batch_split));

pub(super) const ANY_LIKE: OpDef = OpDef::new("fill_any_like", |op| like_kernel(op, number(op)?))
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::float("value", 0.0), attr::int("dtype", -1)])
    .infer(like_infer)
    .lod_from("X")
    .split(SplitRule::RowWise);

pub(super) const ZEROS_LIKE: OpDef =
    OpDef::new("fill_zeros_like", |op| like_kernel(op, Number { real: 0.0, whole: Some(0) }))
        .inputs(&[Slot::one("X")])
        .outputs(&[Slot::one("Out")])
        .like(&[("Out", "X")])
        .lod_from("X")
        .split(SplitRule::RowWise);

/// A value to fill with; `whole` keeps integers exact that a real number would round.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Number {
    real: f64,
    whole: Option<i64>,
}

/// The value of attribute `value`, or of `str_value` where the op has one and it is given.
fn number(op: &OpView<'_>) -> Result<Number> {
    let real = op.f64("value")?;
    let text =
        if op.maybe_attr("str_value").is_some() { op.string("str_value")? } else { "".into() };
    match text.trim() {
        "" => Ok(Number { real, whole: None }),
        text => parse(text)
            .ok_or_else(|| Error::kernel(format!("attribute `str_value` `{text}` is no number"))),
    }
}

/// Rust reads `inf`, `-inf` and `nan` as Paddle writes them.
fn parse(text: &str) -> Option<Number> {
    Some(Number { real: text.parse().ok()?, whole: text.parse().ok() })
}

fn fill(out: &mut Tensor, value: Number) -> Result<()> {
    let real = match out.dtype() {
        DType::Bool => f64::from(u8::from(value.real != 0.0)),
        _ => value.real,
    };
    if let (DType::I64, Some(whole)) = (out.dtype(), value.whole) {
        out.as_mut_slice::<i64>()?.fill(whole);
        return Ok(());
    }
    dispatch!(out.dtype(), T in [f32, f64, i64, i32, u8, i8, i16, f16, bf16] => {
        out.as_mut_slice::<T>()?.fill(T::from_f64(real));
        Ok(())
    }, else => unreachable!("every element type is listed"))
}

fn shape(op: &OpView<'_>) -> Result<Given> {
    Given::new(op, "shape", "ShapeTensor", "ShapeTensorList")
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let dims = shape(cx.op())?.guess(cx)?;
    let out = Meta::new(cx.op().dtype("dtype")?, ranked(dims)?);
    cx.set("Out", out);
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (value, mut shape, dtype) = (number(op)?, shape(op)?, op.dtype("dtype")?);
    let (from, mut out) = (op.maybe_input("ValueTensor"), op.output("Out")?);
    Ok(Box::new(move |run| {
        let value = match from {
            Some(from) => value_of(run.tensor(from)?)?,
            None => value,
        };
        let out = run.out(&mut out)?;
        out.resize(dtype, sized(shape.read(run)?)?);
        fill(out, value)
    }))
}

fn value_of(tensor: &Tensor) -> Result<Number> {
    dispatch!(tensor.dtype(), T in [f32, f64, i64, i32, u8, i8, i16, f16, bf16] => {
        let value = tensor.as_slice::<T>()?.first().copied();
        let real = value.ok_or_else(|| Error::kernel("`ValueTensor` has no elements"))?.to_f64();
        let whole = tensor.as_slice::<i64>().ok().map(|values| values[0]);
        Ok(Number { real, whole })
    }, else => unreachable!("every element type is listed"))
}

/// The shape of `Out`: the one given, with the batch dimension of `Input`.
fn batch_shape(op: &OpView<'_>, input: &[i64]) -> Result<Vec<i64>> {
    let mut dims = op.longs("shape")?;
    let from = axis_in(op.i64("input_dim_idx")?, input.len())?;
    let to = axis_in(op.i64("output_dim_idx")?, dims.len())?;
    dims[to] = input[from];
    ranked(dims)
}

fn batch_infer(cx: &mut Infer<'_>) -> Result<()> {
    let input = cx.input("Input")?;
    let mut dims = input.dims.clone();
    // A ragged batch counts sequences, which only the data knows.
    if let (Some(rows), true) = (dims.first_mut(), input.lod_level > 0) {
        *rows = -1;
    }
    let dims = batch_shape(cx.op(), &dims)?;
    let out = Meta::new(cx.op().dtype("dtype")?, dims);
    cx.set("Out", out);
    Ok(())
}

fn batch_split(view: &SplitView<'_>) -> Option<Vec<Spread>> {
    let by_rows =
        view.op.i64("input_dim_idx").ok()? == 0 && view.op.i64("output_dim_idx").ok()? == 0;
    let dense = view.meta("Input")?.lod_level == 0 && view.spread("Input") == Spread::Rows;
    let fits = view.inputs[0].dims[0] == view.outputs[0].dims[0];
    (by_rows && dense && fits).then(|| vec![Spread::Rows])
}

fn batch_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (input, mut out) = (op.input("Input")?, op.output("Out")?);
    let (value, dtype) = (number(op)?, op.dtype("dtype")?);
    let (from, to) = (op.i64("input_dim_idx")?, op.i64("output_dim_idx")?);
    let mut dims = op.longs("shape")?;
    let to = axis_in(to, dims.len())?;
    Ok(Box::new(move |run| {
        let input = run.tensor(input)?;
        let from = axis_in(from, input.dims().len())?;
        dims[to] = match input.lod().last() {
            Some(offsets) if from == 0 => offsets.len() as i64 - 1,
            _ => input.dims()[from] as i64,
        };
        let out = run.out(&mut out)?;
        out.resize(dtype, sized(&dims)?);
        fill(out, value)
    }))
}

fn like_infer(cx: &mut Infer<'_>) -> Result<()> {
    let x = cx.input("X")?;
    let dtype = if cx.op().i64("dtype")? == -1 { x.dtype } else { cx.op().dtype("dtype")? };
    cx.set("Out", x.with_dtype(dtype));
    Ok(())
}

fn like_kernel(op: &OpView<'_>, value: Number) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    Ok(Box::new(move |run| {
        let out = run.out(&mut out)?;
        let (dtype, dims) = (out.dtype(), run.dims(x)?);
        out.resize(dtype, dims);
        fill(out, value)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_keep_integers_exact() {
        assert_eq!(parse("9007199254740993").unwrap().whole, Some(9_007_199_254_740_993));
        assert_eq!(parse("-inf").unwrap().real, f64::NEG_INFINITY);
        assert!(parse("nan").unwrap().real.is_nan());
        assert_eq!(parse("3.7"), Some(Number { real: 3.7, whole: None }));
        assert_eq!(parse("three"), None);
        let mut out = Tensor::zeros(DType::Bool, [2]);
        fill(&mut out, parse("2").unwrap()).unwrap();
        assert_eq!(out.as_slice::<u8>().unwrap(), [1, 1]);
    }
}
