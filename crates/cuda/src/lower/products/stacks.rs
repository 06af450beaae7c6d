//! Products of stacks of matrices, as the engine's `ops/matmul/product.rs` has them: how stacks
//! repeat where they are 1 or missing, and how few calls of the library make them up.

use bireme_ir::DType;

use super::columns::sum_middle;
use super::multiply::{Operand, dense, float, multiply};
use crate::lower::{Lowering, Outcome, host};
use crate::work::{Product, Ref};

/// The most calls of the library for one op; beyond, the host is asked.
const MAX_CALLS: usize = 64;

/// The most scratch memory for products that are summed afterwards.
const MAX_SCRATCH: usize = 1 << 30;

/// An axis of the stack: how many matrices, and how many matrices apart they are in each operand (0
/// where it repeats).
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    count: usize,
    steps: [usize; 2],
}

/// A product of two shapes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stacks {
    m: usize,
    n: usize,
    k: usize,
    transposes: [bool; 2],
    axes: Vec<Axis>,
}

impl Stacks {
    /// How `x` and `y` multiply; a vector on the left is a row, on the right a column.
    pub(super) fn of(x: &[usize], y: &[usize], transposes: [bool; 2]) -> Outcome<Stacks> {
        let ([x_stack, y_stack], [[m, k], [inner, n]]) = match (x, y) {
            ([], _) | (_, []) => return host(),
            (_, _) => {
                let (x_stack, x_sizes) = matrix(x, transposes[0], true);
                let (y_stack, y_sizes) = matrix(y, transposes[1], false);
                ([x_stack, y_stack], [x_sizes, y_sizes])
            }
        };
        if k != inner {
            return host();
        }
        let transposes = [transposes[0] && x.len() > 1, transposes[1] && y.len() > 1];
        if y_stack.iter().all(|dim| *dim == 1) && !transposes[0] {
            // All rows below each other are one matrix.
            let m = m * x_stack.iter().product::<usize>();
            return Ok(Stacks { m, n, k, transposes, axes: Vec::new() });
        }
        Ok(Stacks { m, n, k, transposes, axes: axes(x_stack, y_stack)? })
    }

    /// `out = alpha * x * y`
    pub(super) fn forward(
        &self,
        l: &mut Lowering<'_>,
        dtype: DType,
        alpha: f32,
        [x, y, out]: [Ref; 3],
    ) -> Outcome {
        let x = self.stacked(x, Some(0), self.transposes[0]);
        let y = self.stacked(y, Some(1), self.transposes[1]);
        self.products(l, dtype, [self.m, self.n, self.k], [&x, &y], out, alpha)
    }

    /// `dx = alpha * dout * y'`, summed over what `x` repeats over.
    pub(super) fn backward_x(
        &self,
        l: &mut Lowering<'_>,
        dtype: DType,
        alpha: f32,
        [y, dout, dx]: [Ref; 3],
    ) -> Outcome {
        let [ta, tb] = self.transposes;
        let (m, n, k) = (self.m, self.n, self.k);
        if ta {
            let (y, dout) = (self.stacked(y, Some(1), tb), self.stacked(dout, None, true));
            self.summed(l, dtype, [k, m, n], [&y, &dout], dx, 0, alpha)
        } else {
            let (dout, y) = (self.stacked(dout, None, false), self.stacked(y, Some(1), !tb));
            self.summed(l, dtype, [m, k, n], [&dout, &y], dx, 0, alpha)
        }
    }

    /// `dy = alpha * x' * dout`, summed over what `y` repeats over.
    pub(super) fn backward_y(
        &self,
        l: &mut Lowering<'_>,
        dtype: DType,
        alpha: f32,
        [x, dout, dy]: [Ref; 3],
    ) -> Outcome {
        let [ta, tb] = self.transposes;
        let (m, n, k) = (self.m, self.n, self.k);
        if tb {
            let (dout, x) = (self.stacked(dout, None, true), self.stacked(x, Some(0), ta));
            self.summed(l, dtype, [n, k, m], [&dout, &x], dy, 1, alpha)
        } else {
            let (x, dout) = (self.stacked(x, Some(0), !ta), self.stacked(dout, None, false));
            self.summed(l, dtype, [k, n, m], [&x, &dout], dy, 1, alpha)
        }
    }

    /// Where the matrices of an operand lie: of `x` (0) or `y` (1), or one after the other.
    fn stacked(&self, at: Ref, operand: Option<usize>, transposed: bool) -> Stacked {
        let size = match operand {
            Some(0) => self.m * self.k,
            Some(_) => self.k * self.n,
            None => self.m * self.n,
        };
        let steps = match operand {
            Some(operand) => self.axes.iter().map(|axis| axis.steps[operand] * size).collect(),
            None => self.dense_steps(size),
        };
        Stacked { operand: Operand { at, transposed }, steps }
    }

    /// The distances of matrices of `size` elements one after the other.
    fn dense_steps(&self, size: usize) -> Vec<usize> {
        let mut steps = vec![size; self.axes.len()];
        for at in (1..steps.len()).rev() {
            steps[at - 1] = steps[at] * self.axes[at].count;
        }
        steps
    }

    /// All products of the stack, one after the other in `out`.
    fn products(
        &self,
        l: &mut Lowering<'_>,
        dtype: DType,
        sizes: [usize; 3],
        [a, b]: [&Stacked; 2],
        out: Ref,
        alpha: f32,
    ) -> Outcome {
        let mut one = dense(float(dtype)?, sizes, a.operand, b.operand, out);
        one.alpha = alpha;
        let Some((last, rest)) = self.axes.split_last() else {
            return multiply(l, one);
        };
        let calls: usize = rest.iter().map(|axis| axis.count).product();
        if calls > MAX_CALLS {
            return host();
        }
        let dense = self.dense_steps(sizes[0] * sizes[1]);
        one.batch = last.count;
        let at = rest.len();
        one.strides = [a.steps[at], b.steps[at], dense[at]];
        for call in 0..calls {
            let mut offsets = [0; 3];
            let mut position = call;
            for (at, axis) in rest.iter().enumerate().rev() {
                for (offset, steps) in offsets.iter_mut().zip([&a.steps, &b.steps, &dense]) {
                    *offset += position % axis.count * steps[at] * dtype.size();
                }
                position /= axis.count;
            }
            let [a, b, out] =
                [one.a.plus(offsets[0]), one.b.plus(offsets[1]), one.out.plus(offsets[2])];
            multiply(l, Product { a, b, out, ..one })?;
        }
        Ok(())
    }

    /// All products of the stack, those added up that belong to the same matrix of `operand`.
    #[expect(clippy::too_many_arguments, reason = "what makes up a product, and where it goes")]
    fn summed(
        &self,
        l: &mut Lowering<'_>,
        dtype: DType,
        sizes: [usize; 3],
        sides: [&Stacked; 2],
        out: Ref,
        operand: usize,
        alpha: f32,
    ) -> Outcome {
        let mut counts: Vec<usize> = self.axes.iter().map(|axis| axis.count).collect();
        let size = sizes[0] * sizes[1];
        let repeated = (0..counts.len()).filter(|at| self.axes[*at].steps[operand] == 0);
        let repeated: Vec<usize> = repeated.filter(|at| counts[*at] > 1).collect();
        if counts.contains(&0) {
            let kept = self.axes.iter().filter(|axis| axis.steps[operand] != 0);
            l.clear(out, kept.map(|axis| axis.count).product::<usize>() * size * dtype.size());
            return Ok(());
        }
        if repeated.is_empty() || size == 0 {
            return self.products(l, dtype, sizes, sides, out, alpha);
        }
        let bytes = counts.iter().product::<usize>() * size * dtype.size();
        if bytes > MAX_SCRATCH {
            return host();
        }
        let mut from = l.scratch(bytes);
        self.products(l, dtype, sizes, sides, from, alpha)?;
        for (i, at) in repeated.iter().enumerate() {
            let outer: usize = counts[..*at].iter().product();
            let inner = counts[at + 1..].iter().product::<usize>() * size;
            let is_last = i + 1 == repeated.len();
            let to = if is_last { out } else { l.scratch(outer * inner * dtype.size()) };
            sum_middle(l, dtype, from, to, [outer, counts[*at], inner])?;
            counts[*at] = 1;
            from = to;
        }
        Ok(())
    }
}

/// An operand, and how far its matrices are apart along each axis of the stack, in elements.
struct Stacked {
    operand: Operand,
    steps: Vec<usize>,
}

/// The stack of an operand, and its rows and columns after transposition.
fn matrix(dims: &[usize], transposed: bool, is_left: bool) -> (&[usize], [usize; 2]) {
    match dims {
        [len] if is_left => (&[], [1, *len]),
        [stack @ .., rows, columns] if transposed => (stack, [*columns, *rows]),
        [stack @ .., rows, columns] => (stack, [*rows, *columns]),
        _ => (&[], [dims.iter().product(), 1]),
    }
}

/// The axes of two aligned stacks, with those made one that need not be told apart.
fn axes(x: &[usize], y: &[usize]) -> Outcome<Vec<Axis>> {
    let rank = x.len().max(y.len());
    let at = |dims: &[usize], axis: usize| {
        (axis + dims.len()).checked_sub(rank).map_or(1, |at| dims[at])
    };
    let mut axes: Vec<Axis> = Vec::new();
    let mut steps = [1, 1];
    // From the innermost outwards; turned around at the end.
    for axis in (0..rank).rev() {
        let sizes = [at(x, axis), at(y, axis)];
        let count = if sizes[0] == 1 { sizes[1] } else { sizes[0] };
        if sizes.iter().any(|size| *size != 1 && *size != count) {
            return host();
        }
        let own: [usize; 2] =
            std::array::from_fn(|i| if sizes[i] == 1 && count != 1 { 0 } else { steps[i] });
        for (step, size) in steps.iter_mut().zip(sizes) {
            *step *= size;
        }
        if count == 1 {
            continue;
        }
        match axes.last_mut() {
            Some(inner) if (0..2).all(|i| own[i] == inner.steps[i] * inner.count) => {
                inner.count *= count;
            }
            _ => axes.push(Axis { count, steps: own }),
        }
    }
    axes.reverse();
    Ok(axes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks(x: &[usize], y: &[usize]) -> Stacks {
        Stacks::of(x, y, [false, false]).unwrap()
    }

    #[test]
    fn a_weight_needs_no_stack() {
        let one = stacks(&[7, 5, 2, 3], &[3, 4]);
        assert_eq!((one.m, one.n, one.k, one.axes), (70, 4, 3, vec![]));
        let column = stacks(&[5, 2, 3], &[3]);
        assert_eq!((column.m, column.n, column.k), (10, 1, 3));
    }

    #[test]
    fn equal_stacks_are_one_axis() {
        assert_eq!(stacks(&[7, 5, 2, 3], &[7, 5, 3, 4]).axes, [Axis { count: 35, steps: [1, 1] }]);
    }

    #[test]
    fn repeated_stacks_do_not_step() {
        let both = stacks(&[7, 1, 2, 3], &[5, 3, 4]);
        let expected = [Axis { count: 7, steps: [1, 0] }, Axis { count: 5, steps: [0, 1] }];
        assert_eq!(both.axes, expected);
        let left = stacks(&[2, 3], &[6, 5, 3, 4]);
        assert_eq!(left.axes, [Axis { count: 30, steps: [0, 1] }]);
    }
}
