//! Shapes in which operands repeat, as the kernels of `broadcast.cuh` take them: Paddle's `axis`, and numpy's
//! rule when it is -1.

use bytemuck::NoUninit;

use super::{Outcome, host};

/// The most axes of a tensor.
const MAX_AXES: usize = 9;

/// Elements beyond which the kernels' division by multiplication is wrong.
const MAX_DIVIDED: usize = 1 << 31;

/// Bytes that a thread moves at once.
const PACK_BYTES: usize = 16;

/// `struct Axes` of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, NoUninit)]
#[repr(C)]
pub(super) struct Axes {
    rank: i32,
    dims: [u32; MAX_AXES],
    multipliers: [u32; MAX_AXES],
    shifts: [u32; MAX_AXES],
    steps: [[u32; MAX_AXES]; 2],
}

/// One axis: its length, and how far each of two operands moves along it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) len: usize,
    pub(super) steps: [usize; 2],
}

/// The axes of shape `full`, outermost first, with the steps of two operands of the same rank; an operand
/// repeats where its dimension is 1.
pub(super) fn axes_of(full: &[usize], operands: [&[usize]; 2]) -> Vec<Axis> {
    let mut strides = [1, 1];
    let mut axes = Vec::new();
    for (at, len) in full.iter().enumerate().rev() {
        let mut steps = [0, 0];
        for (which, operand) in operands.iter().enumerate() {
            steps[which] = if operand[at] == 1 { 0 } else { strides[which] };
            strides[which] *= operand[at];
        }
        axes.push(Axis { len: *len, steps });
    }
    axes.reverse();
    axes
}

/// Leaves out axes of length one, and joins neighbours along which every operand does the same.
fn join(axes: impl IntoIterator<Item = Axis>) -> Vec<Axis> {
    let mut joined: Vec<Axis> = Vec::new();
    for axis in axes.into_iter().filter(|axis| axis.len != 1) {
        match joined.last_mut() {
            Some(last) if (0..2).all(|i| last.steps[i] == axis.steps[i] * axis.len) => {
                *last = Axis { len: last.len * axis.len, steps: axis.steps };
            }
            _ => joined.push(axis),
        }
    }
    if joined.is_empty() {
        joined.push(Axis { len: 1, steps: [0, 0] });
    }
    joined
}

impl Axes {
    /// Declined when there are too many elements.
    pub(super) fn new(axes: impl IntoIterator<Item = Axis>) -> Outcome<Axes> {
        let axes = join(axes);
        let count: usize = axes.iter().map(|axis| axis.len).product();
        // A single axis is never divided by.
        if axes.len() > MAX_AXES || (axes.len() > 1 && count >= MAX_DIVIDED) {
            return host();
        }
        let mut made = Axes {
            rank: axes.len() as i32,
            dims: [1; MAX_AXES],
            multipliers: [1; MAX_AXES],
            shifts: [0; MAX_AXES],
            steps: [[0; MAX_AXES]; 2],
        };
        for (at, axis) in axes.iter().enumerate() {
            made.dims[at] = u32::try_from(axis.len).unwrap_or(u32::MAX);
            (made.multipliers[at], made.shifts[at]) = divisor(made.dims[at]);
            for (which, step) in axis.steps.into_iter().enumerate() {
                let Ok(step) = u32::try_from(step) else { return host() };
                made.steps[which][at] = step;
            }
        }
        Ok(made)
    }

    /// Whether packs of `pack` neighbours lie in one innermost line, side by side in operands that move.
    fn is_wide(&self, pack: usize) -> bool {
        let (last, pack) = (self.rank as usize - 1, pack as u32);
        let fits = |steps: &[u32; MAX_AXES]| match steps[last] {
            0 => true,
            1 => steps[..last].iter().all(|step| step % pack == 0),
            _ => false,
        };
        (last == 0 || self.dims[last].is_multiple_of(pack)) && self.steps.iter().all(fits)
    }
}

/// `i / divisor` is `(hi(i * multiplier) + i) >> shift` for all `i` below 2^31.
fn divisor(divisor: u32) -> (u32, u32) {
    let divisor = u64::from(divisor.max(1));
    let shift = divisor.next_power_of_two().trailing_zeros();
    let multiplier = ((1u64 << 32) * ((1 << shift) - divisor)) / divisor + 1;
    (multiplier as u32, shift)
}

/// `struct Broadcast` of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, NoUninit)]
#[repr(C)]
pub(super) struct Broadcast {
    axes: Axes,
    is_wide: i32,
}

impl Broadcast {
    /// Shape `full` with two operands of the same rank, of elements of `size` bytes.
    pub(super) fn new(full: &[usize], operands: [&[usize]; 2], size: usize) -> Outcome<Broadcast> {
        let axes = Axes::new(axes_of(full, operands))?;
        Ok(Broadcast { axes, is_wide: i32::from(axes.is_wide(PACK_BYTES / size)) })
    }

    /// Threads for `n` elements of `size` bytes.
    pub(super) fn threads(&self, n: usize, size: usize) -> usize {
        if self.is_wide == 0 { n } else { threads(n, size) }
    }
}

/// Threads for `n` elements of `size` bytes that lie side by side.
pub(super) fn threads(n: usize, size: usize) -> usize {
    n.div_ceil(PACK_BYTES / size)
}

/// Two shapes brought to the same rank, and the shape of what is made of them.
#[derive(Debug, PartialEq)]
pub(super) struct Aligned {
    pub(super) x: Vec<usize>,
    pub(super) y: Vec<usize>,
    pub(super) full: Vec<usize>,
}

impl Aligned {
    /// Lays the operand of lower rank along the other from `axis` on (-1: so that the last dimensions meet).
    /// Declined when they do not fit, which the host complains of.
    pub(super) fn new(x: &[usize], y: &[usize], axis: i64) -> Outcome<Aligned> {
        let (Some(x), Some(y)) = (pad(x, y.len(), axis), pad(y, x.len(), axis)) else {
            return host();
        };
        let fits = x.iter().zip(&y).all(|(x, y)| x == y || *x == 1 || *y == 1);
        if !fits {
            return host();
        }
        let full = x.iter().zip(&y).map(|(x, y)| if *x == 1 { *y } else { *x }).collect();
        Ok(Aligned { x, y, full })
    }
}

/// `dims` with ones around them to the rank of the other operand, if there is room.
fn pad(mut dims: &[usize], other: usize, axis: i64) -> Option<Vec<usize>> {
    let rank = dims.len().max(other);
    let first = match usize::try_from(axis) {
        _ if dims.len() >= other => 0,
        Ok(axis) => axis,
        Err(_) => rank - dims.len(),
    };
    // Old programs write [C, 1] for a vector laid along the last axis.
    while first + dims.len() > rank && dims.last() == Some(&1) {
        dims = &dims[..dims.len() - 1];
    }
    let mut padded = vec![1; rank];
    padded.get_mut(first..first + dims.len())?.copy_from_slice(dims);
    Some(padded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aligned(x: &[usize], y: &[usize], axis: i64) -> Option<Vec<usize>> {
        Aligned::new(x, y, axis).ok().map(|aligned| aligned.full)
    }

    #[test]
    fn shapes_meet_as_on_the_host() {
        assert_eq!(aligned(&[2, 3, 4], &[3], 1), Some(vec![2, 3, 4]));
        assert_eq!(aligned(&[2, 3, 4], &[4, 1], 2), Some(vec![2, 3, 4]));
        assert_eq!(aligned(&[4], &[2, 3, 4], -1), Some(vec![2, 3, 4]));
        assert_eq!(aligned(&[2, 3], &[], -1), Some(vec![2, 3]));
        assert_eq!(aligned(&[0, 3], &[1, 3], -1), Some(vec![0, 3]));
        assert_eq!(aligned(&[2, 3], &[2], 7), None);
        assert_eq!(aligned(&[2, 3], &[4], -1), None);
    }

    #[test]
    fn axes_join_where_operands_do_the_same() {
        let broadcast = |full: &[usize], x: &[usize], y: &[usize]| {
            let made = Broadcast::new(full, [x, y], 4).unwrap();
            (made.axes.rank, made.is_wide != 0)
        };
        assert_eq!(broadcast(&[2, 3, 4], &[2, 3, 4], &[2, 3, 4]), (1, true));
        assert_eq!(broadcast(&[5, 3, 7], &[5, 3, 7], &[1, 1, 1]), (1, true));
        assert_eq!(broadcast(&[5, 3, 4], &[5, 3, 4], &[1, 3, 4]), (2, true));
        assert_eq!(broadcast(&[5, 13], &[5, 13], &[1, 13]), (2, false));
        assert_eq!(broadcast(&[2, 3, 4], &[2, 3, 4], &[1, 3, 1]), (3, true));
        assert_eq!(broadcast(&[6, 2], &[6, 1], &[1, 2]), (2, false));
    }

    #[test]
    fn multiplications_divide() {
        for d in [1u32, 2, 3, 5, 7, 10, 13, 429, 1 << 20, (1 << 30) + 1, i32::MAX as u32] {
            let (multiplier, shift) = divisor(d);
            for i in [0u32, 1, d - 1, d, 12_345_678, i32::MAX as u32 - 1, i32::MAX as u32] {
                let high = (u64::from(i) * u64::from(multiplier)) >> 32;
                assert_eq!((high + u64::from(i)) >> shift, u64::from(i / d), "{i} / {d}");
            }
        }
    }
}
