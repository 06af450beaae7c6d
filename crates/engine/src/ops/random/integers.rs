//! `randint` and `randperm`.

use super::draw::Draw;
use crate::ops::prelude::*;
use crate::ops::shape::dims::{ranked, sized};
use crate::ops::shape::given::Given;

pub(super) const RANDINT: OpDef = OpDef::new("randint", randint)
    .inputs(&[Slot::maybe("ShapeTensor"), Slot::any("ShapeTensorList")])
    .outputs(&[Slot::one("Out")])
    .attrs(&[
        attr::required("low", AttrKind::Int),
        attr::required("high", AttrKind::Int),
        attr::longs("shape", &[]),
        attr::int("dtype", DType::I64.code()),
        attr::int("seed", 0),
    ])
    .infer(|cx: &mut Infer<'_>| {
        let dims = shape(cx.op())?.guess(cx)?;
        let out = Meta::new(cx.op().dtype("dtype")?, ranked(dims)?);
        cx.set("Out", out);
        Ok(())
    });

pub(super) const RANDPERM: OpDef = OpDef::new("randperm", randperm)
    .outputs(&[Slot::one("Out")])
    .attrs(&[
        attr::required("n", AttrKind::Int),
        attr::int("dtype", DType::I64.code()),
        attr::int("seed", 0),
    ])
    .infer(|cx: &mut Infer<'_>| {
        let out = Meta::new(cx.op().dtype("dtype")?, [cx.op().i64("n")?]);
        cx.set("Out", out);
        Ok(())
    });

fn shape(op: &OpView<'_>) -> Result<Given> {
    Given::new(op, "shape", "ShapeTensor", "ShapeTensorList")
}

/// A number below `bound` from 64 random bits: the upper half of their product.
pub(in crate::ops) fn below(bits: u64, bound: u64) -> u64 {
    ((u128::from(bits) * u128::from(bound)) >> 64) as u64
}

fn set(out: &mut Tensor, value: impl Fn(u64) -> i64) -> Result<()> {
    dispatch!(out.dtype(), T in [i64, i32, f32, f64] => {
        for (index, out) in (0..).zip(out.as_mut_slice::<T>()?) {
            *out = T::from_f64(value(index) as f64);
        }
        Ok(())
    }, else => Err(Error::kernel(format!("no random integers as {}", out.dtype()))))
}

fn randint(op: &OpView<'_>) -> Result<Kernel> {
    let (low, high, mut shape) = (op.i64("low")?, op.i64("high")?, shape(op)?);
    let (draw, dtype, mut out) = (Draw::new(op)?, op.dtype("dtype")?, op.output("Out")?);
    if low >= high {
        return Err(Error::kernel(format!("there is no integer from {low} below {high}")));
    }
    Ok(Box::new(move |run| {
        let (out, draw) = (run.out(&mut out)?, draw.step(run.step));
        out.resize(dtype, sized(shape.read(run)?)?);
        let count = high.wrapping_sub(low).cast_unsigned();
        set(out, |index| low.wrapping_add_unsigned(below(draw.u64(index), count)))
    }))
}

fn randperm(op: &OpView<'_>) -> Result<Kernel> {
    let (draw, dtype, mut out) = (Draw::new(op)?, op.dtype("dtype")?, op.output("Out")?);
    let count = op.i64("n")?;
    let count = usize::try_from(count).map_err(|_| {
        Error::kernel(format!("attribute `n` must not be negative, but is {count}"))
    })?;
    let mut order: Vec<i64> = Vec::new();
    Ok(Box::new(move |run| {
        let (out, draw) = (run.out(&mut out)?, draw.step(run.step));
        order.clear();
        order.extend(0..count as i64);
        // Fisher and Yates.
        for last in (1..count).rev() {
            order.swap(last, below(draw.u64(last as u64), last as u64 + 1) as usize);
        }
        out.resize(dtype, [count]);
        set(out, |index| order[index as usize])
    }))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    fn run(op: &Op) -> Vec<i64> {
        let mut values = HashMap::new();
        run_once(op, &mut values).unwrap();
        values["out"].tensor().unwrap().as_slice::<i64>().unwrap().to_vec()
    }

    #[test]
    fn integers_fill_their_interval() {
        let op = Op::new("randint").output("Out", ["out"]).attr("low", -3).attr("high", 4);
        let op = op.attr("shape", vec![7000i64]).attr("seed", 5);
        let values = run(&op);
        for expected in -3..4 {
            let count = values.iter().filter(|value| **value == expected).count();
            assert!((800..1200).contains(&count), "{expected} comes {count} times");
        }
        assert!(values.iter().all(|value| (-3..4).contains(value)));
        assert!(run_once(&op.attr("high", -3), &mut HashMap::new()).is_err());
    }

    #[test]
    fn a_permutation_has_each_number_once() {
        let mut values =
            run(&Op::new("randperm").output("Out", ["out"]).attr("n", 100).attr("seed", 5));
        assert_ne!(values, (0..100).collect::<Vec<_>>());
        values.sort_unstable();
        assert_eq!(values, (0..100).collect::<Vec<_>>());
    }
}
