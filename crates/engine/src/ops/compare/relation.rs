//! `equal`, `not_equal`, `less_than`, `less_equal`, `greater_than` and `greater_equal`.

use crate::ops::elementwise::{binary, broadcast};
use crate::ops::prelude::*;

pub(super) const EQUAL: OpDef = def("equal", kernel::<Equal>);
pub(super) const NOT_EQUAL: OpDef = def("not_equal", kernel::<NotEqual>);
pub(super) const LESS_THAN: OpDef = def("less_than", kernel::<Less>);
pub(super) const LESS_EQUAL: OpDef = def("less_equal", kernel::<LessEqual>);
pub(super) const GREATER_THAN: OpDef = def("greater_than", kernel::<Greater>);
pub(super) const GREATER_EQUAL: OpDef = def("greater_equal", kernel::<GreaterEqual>);

const fn def(name: &'static str, kernel: fn(&OpView<'_>) -> Result<Kernel>) -> OpDef {
    OpDef::new(name, kernel)
        .inputs(const { &[Slot::one("X"), Slot::one("Y")] })
        .outputs(const { &[Slot::one("Out")] })
        .attrs(const { &[attr::int("axis", -1), attr::bool("force_cpu", false)] })
        .infer(infer)
        .lod_from("X")
        .split(SplitRule::Fn(broadcast::split))
}

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (x, y) = (cx.input("X")?, cx.input("Y")?);
    let dims = broadcast::result_dims(x, y, cx.op().i64("axis")?)?;
    let out = x.with_dims(dims).with_dtype(DType::Bool);
    cx.set("Out", out);
    Ok(())
}

trait Relation: 'static {
    fn holds<T: Element>(x: T, y: T) -> bool;
}

/// Paddle takes floats less than 1e-8 apart for equal.
#[inline(always)]
fn same<T: Element>(x: T, y: T) -> bool {
    x == y || (T::DTYPE.is_float() && (x.to_f64() - y.to_f64()).abs() < 1e-8)
}

macro_rules! relation {
    ($($name:ident: |$x:ident, $y:ident| $holds:expr;)*) => {$(
        struct $name;

        impl Relation for $name {
            #[inline(always)]
            fn holds<T: Element>($x: T, $y: T) -> bool {
                $holds
            }
        }
    )*};
}

relation! {
    Equal: |x, y| same(x, y);
    NotEqual: |x, y| !same(x, y);
    Less: |x, y| x < y;
    LessEqual: |x, y| x <= y;
    Greater: |x, y| x > y;
    GreaterEqual: |x, y| x >= y;
}

fn kernel<R: Relation>(op: &OpView<'_>) -> Result<Kernel> {
    let (x, y, mut out) = (op.input("X")?, op.input("Y")?, op.output("Out")?);
    let axis = op.i64("axis")?;
    Ok(Box::new(move |run| {
        let walk = broadcast::walk(&run.dims(x)?, &run.dims(y)?, axis)?;
        let dtype = run.tensor(x)?.dtype();
        dispatch!(dtype, T in [f32, f64, i32, i64, u8] => {
            let (x, y) = (run.get::<T>(x)?, run.get::<T>(y)?);
            binary::apply(&walk, x, y, run.set::<u8>(&mut out)?, |x, y| u8::from(R::holds(x, y)))
        }, else => Err(Error::kernel(format!("cannot compare {dtype} elements"))))
    }))
}
