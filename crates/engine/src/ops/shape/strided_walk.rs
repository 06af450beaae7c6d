//! A strided tensor read in the order of a dense one, or a dense one added to a strided one.
//!
//! Slices, transposes, flips, repeats and broadcasts, and their gradients, all are this: they
//! differ only in the strides. A stride of 0 repeats an element; a negative one runs backwards.

use std::ops::AddAssign;

use crate::ops::prelude::*;

/// Side of the squares in which a transpose goes, in elements: two of them fit the first cache.
const TILE: usize = 32;

/// Moves the elements of one tensor to another by a method for slices, as words of their size:
/// whatever moves them need not know their type.
macro_rules! as_words {
    ($walk:ident.$method:ident($from:ident, $to:ident)) => {{
        let (from, size, to) = ($from.as_bytes(), $from.dtype().size(), $to.as_mut_bytes());
        match size {
            1 => $walk.$method::<u8>(from, to),
            2 => $walk.$method::<u16>(bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to)),
            4 => $walk.$method::<u32>(bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to)),
            _ => $walk.$method::<u64>(bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to)),
        }
    }};
}
pub(super) use as_words;

/// The axes of the dense side, outermost first, with their strides on the other side.
#[derive(Default)]
pub(in crate::ops) struct StridedWalk {
    offset: isize,
    axes: Vec<(usize, isize)>,
    index: Vec<usize>,
    empty: bool,
}

impl StridedWalk {
    /// Starts anew at element `offset` of the strided side; the memory of the last walk is kept.
    pub(in crate::ops) fn start(&mut self, offset: usize) {
        self.offset = offset as isize;
        self.axes.clear();
        self.empty = false;
    }

    /// Adds the next inner axis. Axes that run on into each other become one.
    pub(in crate::ops) fn axis(&mut self, len: usize, stride: isize) {
        self.empty |= len == 0;
        match self.axes.last_mut() {
            _ if len == 1 => {}
            Some((outer, outer_stride)) if *outer_stride == stride * len as isize => {
                *outer *= len;
                *outer_stride = stride;
            }
            _ => self.axes.push((len, stride)),
        }
    }

    /// Reads the strided `from` into the dense `to`, whatever the elements are.
    pub(in crate::ops) fn read(&mut self, from: &Tensor, to: &mut Tensor) {
        as_words!(self.read_slice(from, to));
    }

    /// Writes the dense `from` to the strided `to`, whatever the elements are; the rest of `to`
    /// stays.
    pub(in crate::ops) fn write(&mut self, from: &Tensor, to: &mut Tensor) {
        as_words!(self.write_slice(from, to));
    }

    /// Adds the dense `from` to the strided `to`, which starts from zero.
    pub(in crate::ops) fn add(&mut self, from: &Tensor, to: &mut Tensor) -> Result<()> {
        to.as_mut_bytes().fill(0);
        dispatch!(from.dtype(), T in [f32, f64, i32, i64, f16, bf16] => {
            self.add_slice::<T>(from.as_slice()?, to.as_mut_slice()?);
            Ok(())
        }, else => Err(Error::kernel(format!("cannot add {} elements", from.dtype()))))
    }

    fn read_slice<T: Copy>(&mut self, from: &[T], to: &mut [T]) {
        if self.empty {
            return;
        }
        if let Some(across) = self.across() {
            return self.transpose(across, from, to);
        }
        let (len, stride) = self.axes.last().copied().unwrap_or((1, 1));
        let mut runs = to.chunks_exact_mut(len);
        self.each_run(|offset| {
            let Some(run) = runs.next() else { return };
            match stride {
                0 => run.fill(from[offset]),
                1 => run.copy_from_slice(&from[offset..offset + len]),
                _ => copy_strided(from, offset, stride, run),
            }
        });
    }

    fn write_slice<T: Copy>(&mut self, from: &[T], to: &mut [T]) {
        if self.empty {
            return;
        }
        let (len, stride) = self.axes.last().copied().unwrap_or((1, 1));
        let mut runs = from.chunks_exact(len);
        self.each_run(|offset| {
            let Some(run) = runs.next() else { return };
            if stride == 1 {
                to[offset..offset + len].copy_from_slice(run);
                return;
            }
            let mut at = offset as isize;
            for from in run {
                to[at as usize] = *from;
                at += stride;
            }
        });
    }

    fn add_slice<T: Copy + AddAssign>(&mut self, from: &[T], to: &mut [T]) {
        if self.empty {
            return;
        }
        let (len, stride) = self.axes.last().copied().unwrap_or((1, 1));
        let mut runs = from.chunks_exact(len);
        self.each_run(|offset| {
            let Some(run) = runs.next() else { return };
            match stride {
                0 => run.iter().for_each(|from| to[offset] += *from),
                1 => {
                    to[offset..offset + len].iter_mut().zip(run).for_each(|(to, from)| *to += *from)
                }
                _ => {
                    let mut at = offset as isize;
                    for from in run {
                        to[at as usize] += *from;
                        at += stride;
                    }
                }
            }
        });
    }

    /// Calls `run` with the start of each run along the innermost axis.
    fn each_run(&mut self, mut run: impl FnMut(usize)) {
        let outer = &self.axes[..self.axes.len().saturating_sub(1)];
        self.index.clear();
        self.index.resize(outer.len(), 0);
        let mut offset = self.offset;
        loop {
            run(offset as usize);
            let mut axis = outer.len();
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                let (len, stride) = outer[axis];
                self.index[axis] += 1;
                offset += stride;
                if self.index[axis] < len {
                    break;
                }
                offset -= stride * len as isize;
                self.index[axis] = 0;
            }
        }
    }

    /// The axis that is dense on the strided side, when the innermost one is not: a transpose.
    fn across(&self) -> Option<usize> {
        let (_, inner) = *self.axes.last()?;
        (inner > 1).then(|| self.axes.iter().position(|(_, stride)| *stride == 1)).flatten()
    }

    /// Reads square by square, so that both sides stay in the cache.
    fn transpose<T: Copy>(&self, across: usize, from: &[T], to: &mut [T]) {
        let (len, stride) = *self.axes.last().expect("a transpose has an innermost axis");
        let (height, _) = self.axes[across];
        let dense =
            |axis: usize| self.axes[axis + 1..].iter().map(|(len, _)| len).product::<usize>();
        let pitch = dense(across);
        let outer = self.axes.len() - 1;
        let count: usize =
            (0..outer).filter(|axis| *axis != across).map(|axis| self.axes[axis].0).product();
        for number in 0..count {
            let (mut rest, mut from_at, mut to_at) = (number, self.offset, 0);
            for axis in (0..outer).rev().filter(|axis| *axis != across) {
                let (len, stride) = self.axes[axis];
                from_at += (rest % len) as isize * stride;
                to_at += rest % len * dense(axis);
                rest /= len;
            }
            let (from, to) = (&from[from_at as usize..], &mut to[to_at..]);
            for top in (0..height).step_by(TILE) {
                for left in (0..len).step_by(TILE) {
                    let right = len.min(left + TILE);
                    for row in top..height.min(top + TILE) {
                        let line = &mut to[row * pitch + left..row * pitch + right];
                        let column = from[row + left * stride as usize..].iter();
                        for (to, from) in line.iter_mut().zip(column.step_by(stride as usize)) {
                            *to = *from;
                        }
                    }
                }
            }
        }
    }
}

fn copy_strided<T: Copy>(from: &[T], offset: usize, stride: isize, run: &mut [T]) {
    if stride > 0 {
        for (to, from) in run.iter_mut().zip(from[offset..].iter().step_by(stride as usize)) {
            *to = *from;
        }
    } else {
        let back = from[..=offset].iter().rev().step_by(stride.unsigned_abs());
        for (to, from) in run.iter_mut().zip(back) {
            *to = *from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(offset: usize, axes: &[(usize, isize)], from: &[i32]) -> Vec<i32> {
        let mut walk = StridedWalk::default();
        walk.start(offset);
        axes.iter().for_each(|(len, stride)| walk.axis(*len, *stride));
        let mut to = vec![0; axes.iter().map(|(len, _)| len).product()];
        walk.read_slice(from, &mut to);
        to
    }

    #[test]
    fn strides_repeat_reverse_and_skip() {
        let from: Vec<i32> = (0..12).collect();
        assert_eq!(read(0, &[(2, 0), (3, 1)], &from), [0, 1, 2, 0, 1, 2]);
        assert_eq!(read(0, &[(3, 1), (2, 0)], &from), [0, 0, 1, 1, 2, 2]);
        assert_eq!(read(11, &[(3, -4), (2, -2)], &from), [11, 9, 7, 5, 3, 1]);
        assert_eq!(read(1, &[(3, 4), (2, 2)], &from), [1, 3, 5, 7, 9, 11]);
        assert_eq!(read(0, &[(1, 1)], &from), [0]);
        assert_eq!(read(0, &[(2, 1), (0, 1)], &from), [0; 0]);
    }

    #[test]
    fn a_large_transpose_agrees_with_the_definition() {
        let (batch, rows, columns) = (2, 37, 70);
        let from: Vec<i32> = (0..(batch * rows * columns) as i32).collect();
        let plane = (rows * columns) as isize;
        let to = read(0, &[(batch, plane), (columns, 1), (rows, columns as isize)], &from);
        for (i, value) in to.iter().enumerate() {
            let (b, c, r) = (i / (rows * columns), i / rows % columns, i % rows);
            assert_eq!(*value, from[(b * rows + r) * columns + c]);
        }
    }

    #[test]
    fn adding_is_the_reverse_of_reading() {
        let mut walk = StridedWalk::default();
        walk.start(0);
        walk.axis(2, 0);
        walk.axis(2, -1);
        walk.offset = 1;
        let mut to = [0.0; 2];
        walk.add_slice(&[1.0, 2.0, 3.0, 4.0], &mut to);
        assert_eq!(to, [6.0, 4.0]);
    }
}
