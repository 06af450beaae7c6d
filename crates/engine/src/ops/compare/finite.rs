//! `isnan_v2`, `isinf_v2` and `isfinite_v2`: what kind of number each element is.

use super::logical::infer_one;
use crate::ops::activation::unary;
use crate::ops::prelude::*;

pub(super) const ISNAN_V2: OpDef = def("isnan_v2", |op| kernel(op, f64::is_nan));
pub(super) const ISINF_V2: OpDef = def("isinf_v2", |op| kernel(op, f64::is_infinite));
pub(super) const ISFINITE_V2: OpDef = def("isfinite_v2", |op| kernel(op, f64::is_finite));

const fn def(name: &'static str, kernel: fn(&OpView<'_>) -> Result<Kernel>) -> OpDef {
    OpDef::new(name, kernel)
        .inputs(const { &[Slot::one("X")] })
        .outputs(const { &[Slot::one("Out")] })
        .infer(infer_one)
        .lod_from("X")
        .split(SplitRule::RowWise)
}

fn kernel(op: &OpView<'_>, f: impl Fn(f64) -> bool + Send + 'static) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    Ok(Box::new(move |run| {
        let dtype = run.tensor(x)?.dtype();
        dispatch!(dtype, T in [f32, f64, i32, i64] => {
            unary::each(run.get::<T>(x)?, run.set::<u8>(&mut out)?, |x: T| u8::from(f(x.to_f64())));
            Ok(())
        }, else => Err(Error::kernel(format!("`X` must hold numbers, not {dtype}"))))
    }))
}
