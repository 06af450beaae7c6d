//! Shapes and positions: joining, cutting, reshaping, picking, making tensors.

use bireme_ir::DType;

use super::op;
use crate::graph::{Graph, Variable};
use crate::{Error, Result};

/// Tensors joined along `axis`.
///
/// # Errors
/// When there are none, or they differ in another dimension.
#[track_caller]
pub fn concat(xs: &[&Variable], axis: i32) -> Result<Variable> {
    op(graph_of(xs)?, "concat").inputs("X", xs).attr("axis", axis).output("Out")
}

/// Tensors of one shape stacked along a new dimension `axis`.
///
/// # Errors
/// When there are none, or the shapes differ.
#[track_caller]
pub fn stack(xs: &[&Variable], axis: i32) -> Result<Variable> {
    op(graph_of(xs)?, "stack").inputs("X", xs).attr("axis", axis).output("Y")
}

/// `x` cut into `parts` equal parts along `axis`.
///
/// # Errors
/// When the dimension is no multiple of `parts`.
#[track_caller]
pub fn split(x: &Variable, parts: usize, axis: i32) -> Result<Vec<Variable>> {
    op(x.graph(), "split")
        .input("X", x)
        .attr("num", parts as i32)
        .attr("sections", Vec::<i32>::new())
        .attr("axis", axis)
        .list("Out", parts)
}

/// `x` cut into parts of these sizes along `axis`.
///
/// # Errors
/// When the sizes do not add up to the dimension.
#[track_caller]
pub fn split_sections(x: &Variable, sections: &[i32], axis: i32) -> Result<Vec<Variable>> {
    op(x.graph(), "split")
        .input("X", x)
        .attr("num", 0)
        .attr("sections", sections.to_vec())
        .attr("axis", axis)
        .list("Out", sections.len())
}

/// The same elements in another shape; 0 keeps a dimension, one -1 takes what is left.
///
/// # Errors
/// When the numbers of elements differ.
#[track_caller]
pub fn reshape(x: &Variable, shape: &[i32]) -> Result<Variable> {
    let [out, _] = op(x.graph(), "reshape2")
        .input("X", x)
        .attr("shape", shape.to_vec())
        .outputs(["Out", "XShape"])?;
    Ok(out)
}

/// The dimensions in another order.
///
/// # Errors
/// When `perm` is no permutation of them.
#[track_caller]
pub fn transpose(x: &Variable, perm: &[i32]) -> Result<Variable> {
    let [out, _] = op(x.graph(), "transpose2")
        .named("transpose")
        .input("X", x)
        .attr("axis", perm.to_vec())
        .outputs(["Out", "XShape"])?;
    Ok(out)
}

/// Leaves out dimensions of 1.
///
/// # Errors
/// When an axis does not exist.
#[track_caller]
pub fn squeeze(x: &Variable, axes: &[i32]) -> Result<Variable> {
    let [out, _] = op(x.graph(), "squeeze2")
        .named("squeeze")
        .input("X", x)
        .attr("axes", axes.to_vec())
        .outputs(["Out", "XShape"])?;
    Ok(out)
}

/// Puts in dimensions of 1.
///
/// # Errors
/// When an axis lies outside the new rank.
#[track_caller]
pub fn unsqueeze(x: &Variable, axes: &[i32]) -> Result<Variable> {
    let [out, _] = op(x.graph(), "unsqueeze2")
        .input("X", x)
        .attr("axes", axes.to_vec())
        .outputs(["Out", "XShape"])?;
    Ok(out)
}

/// Makes one dimension of those from `start` to `stop`.
///
/// # Errors
/// When an axis does not exist.
#[track_caller]
pub fn flatten(x: &Variable, start: i32, stop: i32) -> Result<Variable> {
    let [out, _] = op(x.graph(), "flatten_contiguous_range")
        .named("flatten")
        .input("X", x)
        .attr("start_axis", start)
        .attr("stop_axis", stop)
        .outputs(["Out", "XShape"])?;
    Ok(out)
}

/// The elements as another type.
///
/// # Errors
/// None that `x` can cause.
#[track_caller]
pub fn cast(x: &Variable, dtype: DType) -> Result<Variable> {
    op(x.graph(), "cast")
        .input("X", x)
        .attr("in_dtype", x.dtype().code())
        .attr("out_dtype", dtype.code())
        .output("Out")
}

/// The part of `x` from `starts` to `ends` along `axes`.
///
/// # Errors
/// When the three differ in length, or an axis does not exist.
#[track_caller]
pub fn slice(x: &Variable, axes: &[i32], starts: &[i32], ends: &[i32]) -> Result<Variable> {
    op(x.graph(), "slice")
        .input("Input", x)
        .attr("axes", axes.to_vec())
        .attr("starts", starts.to_vec())
        .attr("ends", ends.to_vec())
        .attr("infer_flags", vec![1; axes.len()])
        .attr("decrease_axis", Vec::<i32>::new())
        .output("Out")
}

/// Rows of `x` picked by `index`.
///
/// # Errors
/// When `index` holds no integers.
#[track_caller]
pub fn gather(x: &Variable, index: &Variable) -> Result<Variable> {
    op(x.graph(), "gather").input("X", x).input("Index", index).attr("axis", 0).output("Out")
}

/// A 1 at each id, 0 elsewhere, over a new last dimension of `depth`.
///
/// # Errors
/// When `ids` are no integers.
#[track_caller]
pub fn one_hot(ids: &Variable, depth: i32) -> Result<Variable> {
    op(ids.graph(), "one_hot_v2")
        .input("X", ids)
        .attr("depth", depth)
        .attr("dtype", DType::F32.code())
        .attr("allow_out_of_range", false)
        .output("Out")
}

/// The `k` greatest of the last dimension, and where they are.
///
/// # Errors
/// When there are fewer than `k`.
#[track_caller]
pub fn top_k(x: &Variable, k: i32) -> Result<(Variable, Variable)> {
    let [values, indices] = op(x.graph(), "top_k_v2")
        .input("X", x)
        .attr("k", k)
        .attr("axis", -1)
        .attr("largest", true)
        .attr("sorted", true)
        .outputs(["Out", "Indices"])?;
    Ok((values, indices))
}

/// Where the greatest along `axis` is.
///
/// # Errors
/// When the axis does not exist.
#[track_caller]
pub fn arg_max(x: &Variable, axis: i64) -> Result<Variable> {
    op(x.graph(), "arg_max")
        .named("argmax")
        .input("X", x)
        .attr("axis", axis)
        .attr("keepdims", false)
        .attr("flatten", false)
        .attr("dtype", DType::I64.code())
        .output("Out")
}

/// `x` repeated to `shape`; -1 keeps a dimension.
///
/// # Errors
/// When a dimension that is not 1 would change.
#[track_caller]
pub fn expand(x: &Variable, shape: &[i32]) -> Result<Variable> {
    op(x.graph(), "expand_v2")
        .named("expand")
        .input("X", x)
        .attr("shape", shape.to_vec())
        .output("Out")
}

/// `x` laid out several times along each dimension.
///
/// # Errors
/// When there are more repeats than a tensor has dimensions.
#[track_caller]
pub fn tile(x: &Variable, repeats: &[i32]) -> Result<Variable> {
    op(x.graph(), "tile").input("X", x).attr("repeat_times", repeats.to_vec()).output("Out")
}

/// A tensor of one value; gradients stop there.
///
/// # Errors
/// When a dimension is negative.
#[track_caller]
pub fn fill_constant(
    graph: &Graph,
    shape: impl Into<Vec<i64>>,
    dtype: DType,
    value: f32,
) -> Result<Variable> {
    let out = op(graph, "fill_constant")
        .attr("shape", shape.into())
        .attr("dtype", dtype.code())
        .attr("value", value)
        .output("Out")?;
    out.set_stop_gradient(true);
    Ok(out)
}

/// A copy of `x`.
///
/// # Errors
/// None that `x` can cause.
#[track_caller]
pub fn assign(x: &Variable) -> Result<Variable> {
    op(x.graph(), "assign").input("X", x).output("Out")
}

/// The graph that a list of variables belongs to.
pub(super) fn graph_of<'a>(xs: &[&'a Variable]) -> Result<&'a Graph> {
    let first = xs.first().ok_or_else(|| Error::kernel("a list of variables must not be empty"));
    first.map(|x| x.graph())
}
