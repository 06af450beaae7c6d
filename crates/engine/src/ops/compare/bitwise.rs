//! `bitwise_and`, `bitwise_or`, `bitwise_xor` and `bitwise_not`: of the bits of integers, and of
//! truth values.

use std::ops::{BitAnd, BitOr, BitXor, Not};

use crate::ops::activation::unary;
use crate::ops::elementwise::{binary, broadcast};
use crate::ops::prelude::*;

pub(super) const AND: OpDef = def("bitwise_and", kernel::<And>);
pub(super) const OR: OpDef = def("bitwise_or", kernel::<Or>);
pub(super) const XOR: OpDef = def("bitwise_xor", kernel::<Xor>);

/// Paddle's have no `axis`; it stands here for the broadcasting that they share with others.
const fn def(name: &'static str, kernel: fn(&OpView<'_>) -> Result<Kernel>) -> OpDef {
    OpDef::new(name, kernel)
        .inputs(const { &[Slot::one("X"), Slot::one("Y")] })
        .outputs(const { &[Slot::one("Out")] })
        .attrs(const { &[attr::int("axis", -1)] })
        .infer(broadcast::infer)
        .lod_from("X")
        .split(SplitRule::Fn(broadcast::split))
}

pub(super) const NOT: OpDef = OpDef::new("bitwise_not", not)
    .inputs(&[Slot::one("X")])
    .outputs(&[Slot::one("Out")])
    .like(&[("Out", "X")])
    .lod_from("X")
    .split(SplitRule::RowWise);

/// A function of two bits, on all bits of two elements.
trait Bits: 'static {
    fn of<T: BitAnd<Output = T> + BitOr<Output = T> + BitXor<Output = T>>(x: T, y: T) -> T;
}

struct And;

impl Bits for And {
    fn of<T: BitAnd<Output = T> + BitOr<Output = T> + BitXor<Output = T>>(x: T, y: T) -> T {
        x & y
    }
}

struct Or;

impl Bits for Or {
    fn of<T: BitAnd<Output = T> + BitOr<Output = T> + BitXor<Output = T>>(x: T, y: T) -> T {
        x | y
    }
}

struct Xor;

impl Bits for Xor {
    fn of<T: BitAnd<Output = T> + BitOr<Output = T> + BitXor<Output = T>>(x: T, y: T) -> T {
        x ^ y
    }
}

fn no_bits(dtype: DType) -> Error {
    Error::kernel(format!("bits are those of integers and truth values, not of {dtype} elements"))
}

fn kernel<B: Bits>(op: &OpView<'_>) -> Result<Kernel> {
    let (x, y, mut out) = (op.input("X")?, op.input("Y")?, op.output("Out")?);
    let axis = op.i64("axis")?;
    Ok(Box::new(move |run| {
        let walk = broadcast::walk(&run.dims(x)?, &run.dims(y)?, axis)?;
        let dtype = run.tensor(x)?.dtype();
        dispatch!(dtype, T in [u8, i8, i16, i32, i64] => {
            let (x, y) = (run.get::<T>(x)?, run.get::<T>(y)?);
            binary::apply(&walk, x, y, run.set::<T>(&mut out)?, B::of::<T>)
        }, else => Err(no_bits(dtype)))
    }))
}

fn not(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    Ok(Box::new(move |run| {
        let dtype = run.tensor(x)?.dtype();
        if dtype == DType::Bool {
            // Of a truth value's byte one bit counts.
            unary::each(run.get::<u8>(x)?, run.set::<u8>(&mut out)?, |x| x ^ 1);
            return Ok(());
        }
        dispatch!(dtype, T in [u8, i8, i16, i32, i64] => {
            unary::each(run.get::<T>(x)?, run.set::<T>(&mut out)?, Not::not);
            Ok(())
        }, else => Err(no_bits(dtype)))
    }))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn numbers_with_fractions_have_no_bits() {
        let x: Value = Tensor::from_slice([1], &[1f32]).unwrap().into();
        let mut values = HashMap::from([("x".to_owned(), x.clone()), ("y".to_owned(), x)]);
        for op in [Op::new("bitwise_and").input("Y", ["y"]), Op::new("bitwise_not")] {
            let op = op.input("X", ["x"]).output("Out", ["out"]);
            let error = run_once(&op, &mut values).unwrap_err().to_string();
            assert!(error.contains("not of float32 elements"), "{error}");
        }
    }
}
