//! Arithmetic: two tensors element by element, products, sums and means.

use super::op;
use crate::Result;
use crate::graph::Variable;

macro_rules! elementwise {
    ($($name:ident: $doc:literal;)*) => {$(
        #[doc = $doc]
        #[doc = " of two tensors, the smaller one repeated over leading dimensions."]
        ///
        /// # Errors
        /// When the shapes do not fit.
        #[track_caller]
        pub fn $name(x: &Variable, y: &Variable) -> Result<Variable> {
            elementwise(stringify!($name), x, y, -1)
        }
    )*};
}

elementwise! {
    elementwise_add: "The sum";
    elementwise_sub: "The difference";
    elementwise_mul: "The product";
    elementwise_div: "The quotient";
    elementwise_max: "The greater";
    elementwise_min: "The lesser";
    elementwise_pow: "The power";
    elementwise_mod: "The remainder";
    elementwise_floordiv: "The quotient, rounded down,";
}

/// An op on two tensors, `kind` being `elementwise_add` and the like; `y` lies along the dimensions
/// of `x` from `axis` on (-1: the last ones).
///
/// # Errors
/// When the shapes do not fit.
#[track_caller]
pub fn elementwise(kind: &str, x: &Variable, y: &Variable, axis: i32) -> Result<Variable> {
    op(x.graph(), kind).input("X", x).input("Y", y).attr("axis", axis).output("Out")
}

/// The mean of all elements.
///
/// # Errors
/// When `x` holds no floats.
#[track_caller]
pub fn mean(x: &Variable) -> Result<Variable> {
    op(x.graph(), "mean").input("X", x).output("Out")
}

/// The sum of several tensors of one shape.
///
/// # Errors
/// When there are none, or the shapes differ.
#[track_caller]
pub fn sum(xs: &[&Variable]) -> Result<Variable> {
    op(super::tensor::graph_of(xs)?, "sum").inputs("X", xs).output("Out")
}

/// `scale * x + bias`.
///
/// # Errors
/// When `x` holds no numbers.
#[track_caller]
pub fn scale(x: &Variable, scale: f32, bias: f32) -> Result<Variable> {
    op(x.graph(), "scale")
        .input("X", x)
        .attr("scale", scale)
        .attr("bias", bias)
        .attr("bias_after_scale", true)
        .output("Out")
}

/// The product of two matrices, or of stacks of them.
///
/// # Errors
/// When the shapes do not fit.
#[track_caller]
pub fn matmul(x: &Variable, y: &Variable) -> Result<Variable> {
    matmul_transposed(x, y, false, false)
}

/// The product of two matrices, either of them transposed first.
///
/// # Errors
/// When the shapes do not fit.
#[track_caller]
pub fn matmul_transposed(
    x: &Variable,
    y: &Variable,
    trans_x: bool,
    trans_y: bool,
) -> Result<Variable> {
    op(x.graph(), "matmul_v2")
        .input("X", x)
        .input("Y", y)
        .attr("trans_x", trans_x)
        .attr("trans_y", trans_y)
        .output("Out")
}

macro_rules! reduce {
    ($($name:ident: $doc:literal;)*) => {$(
        #[doc = $doc]
        #[doc = " over dimensions `dims` (all of them when empty); `keep_dim` leaves them as 1."]
        ///
        /// # Errors
        /// When a dimension does not exist.
        #[track_caller]
        pub fn $name(x: &Variable, dims: &[i32], keep_dim: bool) -> Result<Variable> {
            op(x.graph(), stringify!($name))
                .input("X", x)
                .attr("dim", dims.to_vec())
                .attr("keep_dim", keep_dim)
                .attr("reduce_all", dims.is_empty())
                .output("Out")
        }
    )*};
}

reduce! {
    reduce_sum: "The sum";
    reduce_mean: "The mean";
    reduce_max: "The greatest";
    reduce_min: "The least";
    reduce_prod: "The product";
}

/// Sums of the elements up to each one, along `axis`.
///
/// # Errors
/// When the axis does not exist.
#[track_caller]
pub fn cumsum(x: &Variable, axis: i32) -> Result<Variable> {
    op(x.graph(), "cumsum").input("X", x).attr("axis", axis).output("Out")
}
