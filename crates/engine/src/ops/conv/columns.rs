//! Images as columns: every window of an image written out, so that a convolution is a matrix
//! product.
//!
//! The matrix has one row for each channel and tap, one column for each output position.

use super::window::{Axis, each_run};
use crate::ops::prelude::*;

/// Writes the windows of `planes` (channels of one image) to `columns`.
pub(super) fn gather<T: Real>(axes: &[Axis; 2], planes: &[T], columns: &mut [T]) {
    let [y, x] = axes;
    let rows = &mut columns.chunks_exact_mut((y.output * x.output).max(1));
    for plane in planes.chunks_exact((y.input * x.input).max(1)) {
        for tap in taps(axes) {
            let Some(row) = rows.next() else { return };
            // What no run below writes is padding.
            row.fill(T::ZERO);
            each_run(axes, tap, |to, from, len, stride| {
                let to = &mut row[to..to + len];
                if stride == 1 {
                    to.copy_from_slice(&plane[from..from + len]);
                } else {
                    let from = plane[from..].iter().step_by(stride);
                    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                }
            });
        }
    }
}

/// Adds `columns` to the elements of `planes` that their windows came from.
pub(super) fn scatter<T: Real>(axes: &[Axis; 2], columns: &[T], planes: &mut [T]) {
    let [y, x] = axes;
    let rows = &mut columns.chunks_exact((y.output * x.output).max(1));
    for plane in planes.chunks_exact_mut((y.input * x.input).max(1)) {
        for tap in taps(axes) {
            let Some(row) = rows.next() else { return };
            each_run(axes, tap, |from, to, len, stride| {
                let from = &row[from..from + len];
                let to = plane[to..].iter_mut().step_by(stride);
                to.zip(from).for_each(|(to, from)| *to += *from);
            });
        }
    }
}

/// The taps of a window, row by row.
pub(super) fn taps([y, x]: &[Axis; 2]) -> impl Iterator<Item = [usize; 2]> + use<> {
    let width = x.window;
    (0..y.window * width).map(move |tap| [tap / width, tap % width])
}

/// Writes `rows` lines of `from` as columns of `to`: channels from first to last, or back.
pub(super) fn transpose<T: Copy>(from: &[T], rows: usize, to: &mut [T]) {
    /// Side of the squares in which it goes: two of them fit the first cache.
    const TILE: usize = 32;
    let columns = from.len() / rows.max(1);
    for top in (0..rows).step_by(TILE) {
        for left in (0..columns).step_by(TILE) {
            for row in top..rows.min(top + TILE) {
                for column in left..columns.min(left + TILE) {
                    to[column * rows + row] = from[row * columns + column];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_written_out_and_added_back() {
        let axis = Axis { input: 3, output: 2, window: 2, stride: 2, dilation: 1, before: 1 };
        let plane: Vec<f32> = (1..=9).map(|i| i as f32).collect();
        let mut columns = vec![f32::NAN; 16];
        gather(&[axis, axis], &plane, &mut columns);
        let expected = [0, 0, 0, 5, 0, 0, 4, 6, 0, 2, 0, 8, 1, 3, 7, 9];
        assert_eq!(columns, expected.map(|i| i as f32));
        let mut back = vec![0.0; 9];
        scatter(&[axis, axis], &columns, &mut back);
        assert_eq!(back, plane);
    }

    #[test]
    fn a_transpose_has_no_seams() {
        let (rows, columns) = (33, 65);
        let from: Vec<usize> = (0..rows * columns).collect();
        let mut to = vec![0; from.len()];
        transpose(&from, rows, &mut to);
        for (i, value) in to.iter().enumerate() {
            assert_eq!(*value, (i % rows) * columns + i / rows);
        }
    }
}
