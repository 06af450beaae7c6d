//! How a reduction is laid out over the threads of a card, as the kernels of `reduce.cuh` take it. All of
//! it follows from the shape, so that sums have the same order in every run.

use bireme_ir::DType;
use bytemuck::NoUninit;

use super::super::broadcast::{Axes, Axis, axes_of};
use super::super::elementwise::Operand;
use super::super::lowering::suffix;
use super::super::{Lowering, Outcome, host};
use crate::work::Ref;

/// Threads of a block; the kernels count on it.
const THREADS: usize = 256;

/// Elements of a result that one thread should have at least.
const PER_THREAD: usize = 8;

/// Blocks that keep a large card busy.
const ENOUGH_BLOCKS: usize = 1024;

/// The most elements of a reduction.
const MAX_ELEMENTS: usize = 1 << 31;

/// `struct Reduction` of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, NoUninit)]
#[repr(C)]
struct Reduction {
    results: u32,
    length: u32,
    part: u32,
    team: u32,
    is_along: u32,
    kept: Axes,
    reduced: Axes,
}

/// What a reduction makes of elements.
pub(in super::super) struct Fold<'a> {
    kernel: &'static str,
    /// The kernel that joins parts; it has a name of its own where several share it.
    joins: Joins,
    suffix: &'static str,
    /// Bytes of a part.
    part: usize,
    x: Operand<'a>,
    y: Option<Operand<'a>>,
    out: Ref,
    a: f64,
    b: f64,
}

/// How parts are joined.
#[derive(Clone, Copy, PartialEq)]
enum Joins {
    /// By kernel `<kernel>_of_parts`.
    OfParts,
    /// A kernel without attributes, whose parts are added up.
    Sums,
    /// A kernel without second operand and attributes, whose parts are truth values.
    Truth,
}

impl<'a> Fold<'a> {
    /// The reduction by `kernel` of elements of type `dtype`.
    pub(super) fn new(
        kernel: &'static str,
        dtype: DType,
        x: Operand<'a>,
        out: Ref,
    ) -> Outcome<Fold<'a>> {
        let part = if dtype.size() == 8 { 8 } else { 4 };
        let (suffix, joins) = (suffix(dtype)?, Joins::OfParts);
        Ok(Fold { kernel, joins, suffix, part, x, y: None, out, a: 1.0, b: 0.0 })
    }

    /// A sum, multiplied by `factor`.
    pub(in super::super) fn sum(
        dtype: DType,
        x: Operand<'a>,
        out: Ref,
        factor: f64,
    ) -> Outcome<Fold<'a>> {
        Ok(Fold { a: factor, ..Fold::new("reduce_sum", dtype, x, out)? })
    }

    /// A sum of products; the first operand has the full shape.
    pub(in super::super) fn dot(
        dtype: DType,
        [x, y]: [Operand<'a>; 2],
        out: Ref,
    ) -> Outcome<Fold<'a>> {
        let made = Fold::new("reduce_dot", dtype, x, out)?;
        Ok(Fold { y: Some(y), joins: Joins::Sums, ..made })
    }

    /// Whether all, or any, elements are true.
    pub(super) fn truth(
        kernel: &'static str,
        dtype: DType,
        x: Operand<'a>,
        out: Ref,
    ) -> Outcome<Fold<'a>> {
        let dtype = if dtype == DType::Bool { DType::U8 } else { dtype };
        Ok(Fold { joins: Joins::Truth, part: 1, ..Fold::new(kernel, dtype, x, out)? })
    }

    /// With a second operand.
    pub(super) fn beside(self, y: Operand<'a>) -> Fold<'a> {
        Fold { y: Some(y), ..self }
    }

    /// With attributes.
    pub(super) fn with(self, a: f64, b: f64) -> Fold<'a> {
        Fold { a, b, ..self }
    }

    /// With parts of double precision, whatever the elements are.
    pub(super) fn in_doubles(self) -> Fold<'a> {
        Fold { part: 8, ..self }
    }
}

/// Adds the work of a reduction over those axes of the first operand that `is_reduced` names.
pub(in super::super) fn fold(
    l: &mut Lowering<'_>,
    fold: &Fold<'_>,
    is_reduced: &[bool],
) -> Outcome {
    let (full, ones) = (fold.x.dims, vec![1; fold.x.dims.len()]);
    let y_dims = fold.y.map_or(ones.as_slice(), |y| y.dims);
    let axes = axes_of(full, [full, y_dims]);
    let (reduction, parts) = lay_out(&axes, is_reduced)?;
    let (results, blocks) = (reduction.results as usize, blocks(&reduction));
    let partial = if parts > 1 { l.scratch(results * parts * fold.part) } else { Ref::NULL };
    let y = fold.y.map_or(Ref::NULL, |y| y.at);
    let name = format!("{}_{}", fold.kernel, fold.suffix);
    let launch = l.kernel(name, [blocks as u32, parts as u32, 1], THREADS as u32).at(fold.x.at);
    let launch = if fold.joins == Joins::Truth { launch } else { launch.at(y) };
    let launch = launch.at(fold.out).at(partial);
    let launch = match fold.joins {
        Joins::OfParts => launch.value(fold.a).value(fold.b),
        Joins::Sums | Joins::Truth => launch,
    };
    launch.value(reduction).launch();
    if parts > 1 { join_parts(l, fold, partial, y, results, parts) } else { Ok(()) }
}

/// The second step, where results are made in parts.
fn join_parts(
    l: &mut Lowering<'_>,
    whole: &Fold<'_>,
    partial: Ref,
    y: Ref,
    results: usize,
    parts: usize,
) -> Outcome {
    if whole.joins == Joins::Truth {
        let dims = [results, parts];
        let from = Operand { at: partial, dims: &dims };
        let (reduction, _) = lay_out(&axes_of(&dims, [&dims, &[1, 1]]), &[false, true])?;
        // There are too few parts to make parts of them again.
        let whole_length = Reduction { part: reduction.length, ..reduction };
        let blocks = [blocks(&reduction) as u32, 1, 1];
        let launch = l.kernel(format!("{}_u8", whole.kernel), blocks, THREADS as u32).at(from.at);
        launch.at(whole.out).at(Ref::NULL).value(whole_length).launch();
        return Ok(());
    }
    let kernel = if whole.joins == Joins::Sums { "reduce_sum" } else { whole.kernel };
    // Of a sum of products, only the parts are left.
    let y = if whole.joins == Joins::Sums { Ref::NULL } else { y };
    let name = format!("{kernel}_of_parts_{}", whole.suffix);
    let launch = l.kernel(name, [results.div_ceil(THREADS / 32) as u32, 1, 1], THREADS as u32);
    let launch = launch.at(partial).at(y).at(whole.out).value(results as u32).value(parts as u32);
    launch.value(whole.a).value(whole.b).launch();
    Ok(())
}

fn blocks(reduction: &Reduction) -> usize {
    (reduction.results as usize).div_ceil(THREADS / reduction.team as usize)
}

/// The layout of a reduction, and in how many parts each result is made.
fn lay_out(axes: &[Axis], is_reduced: &[bool]) -> Outcome<(Reduction, usize)> {
    let only = |which: bool| {
        axes.iter().zip(is_reduced).filter(move |(_, is)| **is == which).map(|(axis, _)| *axis)
    };
    let count = |which: bool| only(which).map(|axis| axis.len).product::<usize>();
    let (results, length) = (count(false), count(true));
    if results.max(1).saturating_mul(length.max(1)) >= MAX_ELEMENTS {
        return host();
    }
    let innermost = axes.iter().zip(is_reduced).rev().find(|(axis, _)| axis.len > 1);
    let is_along = innermost.is_none_or(|(_, is_reduced)| *is_reduced);
    let mut team = length.div_ceil(PER_THREAD).next_power_of_two().min(THREADS);
    if !is_along {
        // As many neighbouring results as a warp reads at once, if there are so many.
        let neighbours = innermost.map_or(1, |(axis, _)| axis.len);
        team = team.min(THREADS / neighbours.next_power_of_two().min(32));
    }
    let blocks = results.div_ceil(THREADS / team).max(1);
    let parts = (ENOUGH_BLOCKS / blocks).min(length / (team * 2 * PER_THREAD)).max(1);
    let part = length.div_ceil(parts).max(1);
    let reduction = Reduction {
        results: results as u32,
        length: length as u32,
        part: part as u32,
        team: team as u32,
        is_along: u32::from(is_along),
        kept: Axes::new(only(false))?,
        reduced: Axes::new(only(true))?,
    };
    Ok((reduction, length.div_ceil(part).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(dims: &[usize], is_reduced: &[bool]) -> (u32, u32, u32, usize) {
        let ones = vec![1; dims.len()];
        let (made, parts) = lay_out(&axes_of(dims, [dims, &ones]), is_reduced).unwrap();
        (made.results, made.team, made.is_along, parts)
    }

    #[test]
    fn shapes_decide_who_works_on_what() {
        // A loss: all of it. A bias: many rows, few columns. Short rows. Long rows.
        assert_eq!(layout(&[65_536], &[true]), (1, 256, 1, 16));
        assert_eq!(layout(&[65_536, 512], &[true, false]), (512, 8, 0, 64));
        assert_eq!(layout(&[100_000, 13], &[false, true]), (100_000, 2, 1, 1));
        assert_eq!(layout(&[4096, 2048], &[false, true]), (4096, 256, 1, 1));
        assert_eq!(layout(&[1_000_000, 4], &[true, false]), (4, 64, 0, 976));
    }

    #[test]
    fn nothing_is_reduced_too() {
        assert_eq!(layout(&[0, 3], &[true, false]), (3, 1, 0, 1));
        assert_eq!(layout(&[], &[]), (1, 1, 1, 1));
        assert_eq!(layout(&[0, 3], &[false, true]), (0, 1, 1, 1));
    }
}
