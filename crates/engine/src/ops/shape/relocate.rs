//! Axes in another order of their own: for each output index of an axis, the input index it shows.
//!
//! What `roll` and the padding that repeats an image are made of. Tables are small, one an axis,
//! and kept between steps.

use std::ops::AddAssign;

use super::strided_walk::as_words;
use crate::ops::prelude::*;

/// Tables of offsets, outermost axis first.
#[derive(Default)]
pub(super) struct Relocate {
    tables: Vec<Vec<usize>>,
    index: Vec<usize>,
    axes: usize,
}

impl Relocate {
    /// Sets the tables for inputs of shape `dims`: output `o` of axis `a`, which has `len(a)`,
    /// shows input `source(a, o)`.
    pub(super) fn set(
        &mut self,
        dims: Dims,
        len: impl Fn(usize) -> usize,
        source: impl Fn(usize, usize) -> usize,
    ) {
        let strides = dims.strides();
        self.axes = dims.len();
        self.tables.resize_with(self.tables.len().max(self.axes), Vec::new);
        for (axis, table) in self.tables.iter_mut().enumerate().take(self.axes) {
            table.clear();
            table.extend((0..len(axis)).map(|output| source(axis, output) * strides[axis]));
        }
    }

    /// Writes to `to` what the tables show of `from`.
    pub(super) fn read(&mut self, from: &Tensor, to: &mut Tensor) {
        as_words!(self.read_slice(from, to));
    }

    /// Adds each element of `from` to the one of `to`, which starts from zero, that it showed.
    pub(super) fn add(&mut self, from: &Tensor, to: &mut Tensor) -> Result<()> {
        to.as_mut_bytes().fill(0);
        dispatch!(from.dtype(), T in [f32, f64, i32, i64] => {
            self.add_slice::<T>(from.as_slice()?, to.as_mut_slice()?);
            Ok(())
        }, else => Err(Error::kernel(format!("cannot add {} elements", from.dtype()))))
    }

    fn read_slice<T: Copy>(&mut self, from: &[T], to: &mut [T]) {
        let mut lines = to.chunks_exact_mut(self.line());
        self.each_line(|base, table| {
            let Some(line) = lines.next() else { return };
            line.iter_mut().zip(table).for_each(|(to, at)| *to = from[base + at]);
        });
    }

    fn add_slice<T: Copy + AddAssign>(&mut self, from: &[T], to: &mut [T]) {
        let mut lines = from.chunks_exact(self.line());
        self.each_line(|base, table| {
            let Some(line) = lines.next() else { return };
            line.iter().zip(table).for_each(|(from, at)| to[base + at] += *from);
        });
    }

    fn line(&self) -> usize {
        self.tables[..self.axes].last().map_or(1, Vec::len).max(1)
    }

    /// Calls `line` with the offset of each line along the innermost axis, and its table.
    fn each_line(&mut self, mut line: impl FnMut(usize, &[usize])) {
        let (tables, index) = (&self.tables[..self.axes], &mut self.index);
        let Some((inner, outer)) = tables.split_last() else { return line(0, &[0]) };
        if tables.iter().any(Vec::is_empty) {
            return;
        }
        index.clear();
        index.resize(outer.len(), 0);
        loop {
            line(outer.iter().zip(&*index).map(|(table, at)| table[*at]).sum(), inner);
            let mut axis = outer.len();
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                index[axis] += 1;
                if index[axis] < outer[axis].len() {
                    break;
                }
                index[axis] = 0;
            }
        }
    }
}
