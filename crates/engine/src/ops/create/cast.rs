//! `cast`: another element type. Reals become integers by truncation, anything but 0 is true.

use bireme_ir::{Op, grad_name};

use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("cast", kernel)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[attr::required("out_dtype", AttrKind::Int), attr::required("in_dtype", AttrKind::Int)])
    .infer(infer)
    .lod_from("X")
    .any_width()
    .grad(GradRule::Fn(grad))
    .split(SplitRule::RowWise);

/// The gradient is cast back.
fn grad(view: &OpView<'_>) -> Result<Vec<Op>> {
    let op = Op::new("cast")
        .input("X", view.op.outputs_of("Out").iter().map(|out| grad_name(out)))
        .output("Out", view.op.inputs_of("X").iter().map(|x| grad_name(x)))
        .attr("in_dtype", view.attr("out_dtype")?)
        .attr("out_dtype", view.attr("in_dtype")?);
    Ok(vec![op])
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let out = cx.input("X")?.with_dtype(cx.op().dtype("out_dtype")?);
    cx.set("Out", out);
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out, dtype) = (op.input("X")?, op.output("Out")?, op.dtype("out_dtype")?);
    Ok(Box::new(move |run| {
        let (x, out) = (run.tensor(x)?, run.out(&mut out)?);
        out.resize(dtype, x.dims());
        cast(x, out)
    }))
}

/// Fills `out` with the elements of `x`, which has as many.
pub(in crate::ops) fn cast(x: &Tensor, out: &mut Tensor) -> Result<()> {
    if x.dtype() == out.dtype() {
        out.as_mut_bytes().copy_from_slice(x.as_bytes());
        return Ok(());
    }
    let to_bool = out.dtype() == DType::Bool;
    dispatch!(x.dtype(), S in [f32, f64, i64, i32, u8, i8, i16, f16, bf16] => {
        let x = x.as_slice::<S>()?;
        if to_bool {
            let out = out.as_mut_slice::<u8>()?;
            out.iter_mut().zip(x).for_each(|(out, x)| *out = u8::from(*x != S::default()));
            return Ok(());
        }
        dispatch!(out.dtype(), D in [f32, f64, i64, i32, u8, i8, i16, f16, bf16] => {
            let out = out.as_mut_slice::<D>()?;
            out.iter_mut().zip(x).for_each(|(out, x)| *out = x.convert());
            Ok(())
        }, else => unreachable!("every element type is listed"))
    }, else => unreachable!("every element type is listed"))
}

/// Conversion by way of the widest type of its kind, which holds every value exactly: integers
/// wrap when they are too large, as in C.
trait Convert: Element {
    fn convert<D: Target>(self) -> D;
}

/// The other side of [`Convert`].
trait Target: Element {
    fn of_whole(value: i64) -> Self;
    fn of_real(value: f64) -> Self;
}

macro_rules! whole {
    ($($t:ty),*) => {$(
        impl Convert for $t {
            fn convert<D: Target>(self) -> D {
                D::of_whole(i64::from(self))
            }
        }
        impl Target for $t {
            fn of_whole(value: i64) -> $t {
                value as $t
            }
            fn of_real(value: f64) -> $t {
                value as i64 as $t
            }
        }
    )*};
}

macro_rules! real {
    ($($t:ty => $from_whole:expr),*) => {$(
        impl Convert for $t {
            fn convert<D: Target>(self) -> D {
                D::of_real(self.to_f64())
            }
        }
        impl Target for $t {
            fn of_whole(value: i64) -> $t {
                $from_whole(value)
            }
            fn of_real(value: f64) -> $t {
                Element::from_f64(value)
            }
        }
    )*};
}

whole!(i64, i32, i16, i8, u8);
real!(
    f32 => |value: i64| value as f32,
    f64 => |value: i64| value as f64,
    f16 => |value: i64| f16::from_f64(value as f64),
    bf16 => |value: i64| bf16::from_f64(value as f64)
);

#[cfg(test)]
mod tests {
    use super::*;

    fn to<D: Element>(x: &Tensor, dtype: DType) -> Vec<D> {
        let mut out = Tensor::zeros(dtype, x.dims());
        cast(x, &mut out).unwrap();
        out.as_slice::<D>().unwrap().to_vec()
    }

    /// Values that real Paddle 2.6.2 gives, but for those whose C conversion is undefined.
    #[test]
    fn every_type_reaches_every_other() {
        let x = Tensor::from_slice([4], &[1.7f32, -1.7, 300.0, 0.0]).unwrap();
        assert_eq!(to::<i64>(&x, DType::I64), [1, -1, 300, 0]);
        assert_eq!(to::<u8>(&x, DType::U8), [1, 255, 44, 0]);
        assert_eq!(to::<u8>(&x, DType::Bool), [1, 1, 1, 0]);
        let large = Tensor::from_slice([2], &[(1i64 << 53) + 1, (1 << 40) + 5]).unwrap();
        assert_eq!(to::<i32>(&large, DType::I32), [1, 5]);
        assert_eq!(to::<f64>(&large, DType::F64), [9_007_199_254_740_992.0, 1_099_511_627_781.0]);
        for from in DType::ALL {
            let mut one = Tensor::zeros(from, [3]);
            cast(&Tensor::from_slice([3], &[0.0f32, 1.0, 2.0]).unwrap(), &mut one).unwrap();
            let expected = if from == DType::Bool { [0.0, 1.0, 1.0] } else { [0.0, 1.0, 2.0] };
            for dtype in DType::ALL {
                let mut out = Tensor::zeros(dtype, [3]);
                cast(&one, &mut out).unwrap();
                let seen = if dtype == DType::Bool { [0.0, 1.0, 1.0] } else { expected };
                assert_eq!(out.to_f64_vec(), seen, "{from} to {dtype}");
            }
        }
    }
}
