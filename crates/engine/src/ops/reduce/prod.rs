//! `reduce_prod`: the product along some axes. The gradient of a factor is the product of the
//! others, also where factors are zero (Paddle's is NaN there).

use super::axes::{self, Axes};
use crate::ops::elementwise::broadcast_walk::BroadcastWalk;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef =
    axes::def("reduce_prod", kernel).gradient(axes::gradient_from_both(grad_kernel));

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, mut out) = (op.input("X")?, op.output("Out")?);
    let axes = Axes::of(op)?;
    Ok(Box::new(move |run| {
        let (walk, _) = axes.walk(run.dims(x)?)?;
        let dtype = run.tensor(x)?.dtype();
        dispatch!(dtype, T in [f32, f64, i32, i64] => {
            let (x, out) = (run.get::<T>(x)?, run.set::<T>(&mut out)?);
            let run = |product: T, x: &[T]| x.iter().fold(product, |product, x| product.times(*x));
            axes::reduce(&walk, x, out, T::ONE, T::times, run);
            Ok(())
        }, else => Err(Error::kernel(format!("cannot multiply {dtype} elements"))))
    }))
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (x, out) = (op.input("X")?, op.input("Out")?);
    let (dout, mut dx) = (op.input("Out@GRAD")?, op.output("X@GRAD")?);
    let axes = Axes::of(op)?;
    float_kernel!(op, "X", |run, T| {
        let (walk, _) = axes.walk(run.dims(x)?)?;
        let (x, out, dout) = (run.get::<T>(x)?, run.get::<T>(out)?, run.get::<T>(dout)?);
        let dx = run.set::<T>(&mut dx)?;
        if !x.contains(&0.0) {
            axes::spread(&walk, x, out, dout, dx, |x, out, dout| dout * out / x);
            return Ok(());
        }
        let (other, zero) = beside_zeros(&walk, x, dout);
        axes::spread(
            &walk,
            x,
            &other,
            &zero,
            dx,
            |x, other, zero| {
                if x == 0.0 { zero } else { other / x }
            },
        );
    })
}

/// For each product, with the gradient in it: the product, for factors that are not zero, and that
/// of all the other factors, for one that is. With one zero a product changes with that factor
/// alone, with two it does not change at all.
fn beside_zeros<T: Real>(walk: &BroadcastWalk<1>, x: &[T], dout: &[T]) -> (Vec<T>, Vec<T>) {
    let (none, one) = (T::ZERO, T::ONE);
    let mut zeros = vec![none; dout.len()];
    let count = |zeros: T, x: T| if x == none { zeros + one } else { zeros };
    let run = |zeros: T, x: &[T]| x.iter().fold(zeros, |zeros, x| count(zeros, *x));
    axes::reduce(walk, x, &mut zeros, none, count, run);
    let mut products = vec![one; dout.len()];
    let times = |product: T, x: T| if x == none { product } else { product * x };
    let run = |product: T, x: &[T]| x.iter().fold(product, |product, x| times(product, *x));
    axes::reduce(walk, x, &mut products, one, times, run);
    let scaled = || products.iter().zip(dout).map(|(product, dout)| *product * *dout).zip(&zeros);
    let other = scaled().map(|(value, zeros)| if *zeros == none { value } else { none });
    let zero = scaled().map(|(value, zeros)| if *zeros == one { value } else { none });
    (other.collect(), zero.collect())
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    #[test]
    fn a_zero_among_the_factors_has_a_gradient() {
        let x = [1f32, 2.0, 0.0, 3.0, 0.0, 0.0, 2.0, 3.0, 1.0, 2.0, 4.0, 0.5];
        // numpy: np.prod of the other elements of a row (or column), times the gradient.
        let by_row = [0.0, 0.0, 6.0, 0.0, 0.0, 0.0, 0.0, 0.0, 12.0, 6.0, 3.0, 24.0];
        let by_column = [0.0, 0.0, 8.0, 1.5, 2.0, 8.0, 0.0, 1.5, 0.0, 0.0, 0.0, 9.0];
        for (axis, expected, grad) in
            [(1, by_row, vec![1f32, 1.0, 3.0]), (0, by_column, vec![2f32, 2.0, 1.0, 1.0])]
        {
            let op = Op::new("reduce_prod").input("X", ["x"]).output("Out", ["out"]);
            let op = op.attr("dim", vec![axis]);
            let mut values = HashMap::new();
            values.insert("x".to_owned(), Tensor::from_slice([3, 4], &x).unwrap().into());
            run_once(&op, &mut values).unwrap();
            let grad = Tensor::from_slice([grad.len()], &grad).unwrap();
            values.insert("out@GRAD".to_owned(), grad.into());
            run_gradient(&op, &mut values);
            assert_eq!(values["x@GRAD"].tensor().unwrap().as_slice::<f32>().unwrap(), expected);
        }
    }
}
