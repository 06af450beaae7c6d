//! Products of stacks of matrices: how two shapes multiply, forward and backward.
//!
//! A vector on the left is a row, on the right a column; the dimensions before the last two are
//! stacks, which repeat where they are 1 or missing. A stack of matrices times one plain matrix is
//! a single product with all rows below each other.

use std::fmt::Debug;

use crate::gemm::{self, Matrix, Order};
use crate::ops::elementwise::broadcast::Aligned;
use crate::ops::elementwise::broadcast_walk::BroadcastWalk;
use crate::ops::prelude::*;

/// Whether the operands are used transposed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transposes {
    pub(super) x: bool,
    pub(super) y: bool,
}

/// One operand: its stack, and the rows and columns of its matrices after transposition.
struct Operand<'a, D> {
    stack: &'a [D],
    rows: D,
    columns: D,
}

fn operand<D: Copy + From<u8>>(dims: &[D], transposed: bool, vector: [bool; 2]) -> Operand<'_, D> {
    let one = D::from(1);
    match dims {
        [] => Operand { stack: &[], rows: one, columns: one },
        // A vector cannot be transposed: which side it stands on says what it is.
        [len] if vector[0] => Operand { stack: &[], rows: one, columns: *len },
        [len] => Operand { stack: &[], rows: *len, columns: one },
        [stack @ .., rows, columns] if transposed => {
            Operand { stack, rows: *columns, columns: *rows }
        }
        [stack @ .., rows, columns] => Operand { stack, rows: *rows, columns: *columns },
    }
}

fn left<D: Copy + From<u8>>(dims: &[D], transposed: bool) -> Operand<'_, D> {
    operand(dims, transposed, [true, false])
}

fn right<D: Copy + From<u8>>(dims: &[D], transposed: bool) -> Operand<'_, D> {
    operand(dims, transposed, [false, true])
}

/// The shape of the product; -1 where unknown.
///
/// # Errors
/// When the operands do not fit.
pub(super) fn result_dims(x: &[i64], y: &[i64], transposes: Transposes) -> Result<Vec<i64>> {
    let (a, b) = (left(x, transposes.x), right(y, transposes.y));
    if x.is_empty() || y.is_empty() || !(a.columns == b.rows || a.columns < 0 || b.rows < 0) {
        return Err(Error::kernel(format!(
            "`X` {x:?} has {} columns, but `Y` {y:?} has {} rows",
            a.columns, b.rows
        )));
    }
    let stacks = Aligned::new(a.stack, b.stack, -1)?;
    let mut dims = Vec::new();
    for (a, b) in stacks.x().iter().zip(stacks.y()) {
        dims.push(match (*a, *b) {
            (a, b) if a == b || b == 1 => a,
            (1, b) | (-1, b) => b,
            (a, -1) => a,
            _ => {
                return Err(Error::kernel(format!("cannot stack products of {x:?} and {y:?}")));
            }
        });
    }
    dims.extend((x.len() > 1).then_some(a.rows));
    dims.extend((y.len() > 1).then_some(b.columns));
    Ok(dims)
}

/// A product of concrete shapes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product {
    m: usize,
    n: usize,
    k: usize,
    transposes: Transposes,
    stacks: BroadcastWalk<2>,
    /// Whether factors may be rounded to 16 bits.
    half: bool,
}

impl Product {
    /// # Errors
    /// When the operands do not fit.
    pub(super) fn new(x: &[usize], y: &[usize], transposes: Transposes) -> Result<Product> {
        let (a, b) = (left(x, transposes.x), right(y, transposes.y));
        if a.columns != b.rows {
            return Err(Error::kernel(format!("cannot multiply {x:?} and {y:?}")));
        }
        let transposes =
            Transposes { x: transposes.x && x.len() > 1, y: transposes.y && y.len() > 1 };
        let stacks = Aligned::new(a.stack, b.stack, -1)?.walk()?;
        let mut product =
            Product { m: a.rows, n: b.columns, k: a.columns, transposes, stacks, half: false };
        if b.stack.iter().all(|dim| *dim == 1) && !transposes.x {
            product.m *= a.stack.iter().product::<usize>();
            product.stacks = BroadcastWalk::new(&[], [&[], &[]])?;
        }
        Ok(product)
    }

    /// Rounds factors to 16 bits, where that is asked for and faster.
    pub(super) fn half(self, half: bool) -> Product {
        Product { half, ..self }
    }

    /// Calls `f` for every product of two matrices with where they and their result begin.
    fn for_each(&self, mut f: impl FnMut([usize; 3])) {
        let sizes = [self.m * self.k, self.k * self.n, self.m * self.n];
        let [x_step, y_step] = self.stacks.moves.map(usize::from);
        self.stacks.for_each(|at, [x, y]| {
            for i in 0..self.stacks.run {
                f([(x + i * x_step) * sizes[0], (y + i * y_step) * sizes[1], (at + i) * sizes[2]]);
            }
        });
    }

    fn multiply<T: Matrix>(
        &self,
        add: bool,
        sizes: [usize; 3],
        out: &mut [T],
        lhs: (&[T], Order),
        rhs: (&[T], Order),
    ) {
        let product = gemm::Product::new(sizes, out, lhs, rhs).half(self.half);
        T::multiply(if add { product.add() } else { product });
    }

    /// `out = alpha * x * y`
    pub(super) fn forward<T: Matrix + Real>(&self, alpha: T, x: &[T], y: &[T], out: &mut [T]) {
        let Product { m, n, k, transposes, .. } = *self;
        let (x_layout, y_layout) = (layout(transposes.x), layout(transposes.y));
        self.for_each(|[xs, ys, at]| {
            let (x, y) = (&x[xs..xs + m * k], &y[ys..ys + k * n]);
            let out = &mut out[at..at + m * n];
            self.multiply(false, [m, n, k], out, (x, x_layout), (y, y_layout));
        });
        scale(out, alpha);
    }

    /// `dx = alpha * dout * y'`, summed over the stacks that `x` repeats over.
    pub(super) fn backward_x<T: Matrix + Real>(&self, alpha: T, y: &[T], dout: &[T], dx: &mut [T]) {
        let Product { m, n, k, transposes, .. } = *self;
        let add = self.stacks.repeats[0];
        if add {
            dx.fill(T::ZERO);
        }
        self.for_each(|[xs, ys, at]| {
            let (y, dout) = (&y[ys..ys + k * n], &dout[at..at + m * n]);
            let dx = &mut dx[xs..xs + m * k];
            if transposes.x {
                let y_layout = layout(transposes.y);
                self.multiply(add, [k, m, n], dx, (y, y_layout), (dout, Order::Transposed));
            } else {
                let y_layout = layout(!transposes.y);
                self.multiply(add, [m, k, n], dx, (dout, Order::Plain), (y, y_layout));
            }
        });
        scale(dx, alpha);
    }

    /// `dy = alpha * x' * dout`, summed over the stacks that `y` repeats over.
    pub(super) fn backward_y<T: Matrix + Real>(&self, alpha: T, x: &[T], dout: &[T], dy: &mut [T]) {
        let Product { m, n, k, transposes, .. } = *self;
        let add = self.stacks.repeats[1];
        if add {
            dy.fill(T::ZERO);
        }
        self.for_each(|[xs, ys, at]| {
            let (x, dout) = (&x[xs..xs + m * k], &dout[at..at + m * n]);
            let dy = &mut dy[ys..ys + k * n];
            if transposes.y {
                let x_layout = layout(transposes.x);
                self.multiply(add, [n, k, m], dy, (dout, Order::Transposed), (x, x_layout));
            } else {
                let x_layout = layout(!transposes.x);
                self.multiply(add, [k, n, m], dy, (x, x_layout), (dout, Order::Plain));
            }
        });
        scale(dy, alpha);
    }
}

fn layout(transposed: bool) -> Order {
    if transposed { Order::Transposed } else { Order::Plain }
}

fn scale<T: Real>(values: &mut [T], alpha: T) {
    if alpha != T::ONE {
        values.iter_mut().for_each(|value| *value *= alpha);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_multiply() {
        let plain = Transposes { x: false, y: false };
        let dims = |x: &[i64], y: &[i64]| result_dims(x, y, plain).unwrap();
        assert_eq!(dims(&[2, 3], &[3, 4]), [2, 4]);
        assert_eq!(dims(&[3], &[3]), [0i64; 0]);
        assert_eq!(dims(&[3], &[5, 3, 4]), [5, 4]);
        assert_eq!(dims(&[5, 2, 3], &[3]), [5, 2]);
        assert_eq!(dims(&[-1, 1, 2, 3], &[6, 3, 4]), [-1, 6, 2, 4]);
        assert!(result_dims(&[2, 3], &[2, 3], plain).is_err());
        assert!(result_dims(&[2, 2, 3], &[3, 3, 4], plain).is_err());
    }
}
