//! Strided tensors in the order of one another: what slices, transposes, repeats and their gradients are
//! (`kernels/walk.cuh`).

use bytemuck::{Pod, Zeroable};

use super::divider::{Divider, divider};
use super::{Outcome, host};

/// Axes that kernels can walk over, once those that run on into each other are one.
pub(super) const MAX_AXES: usize = 8;

/// Elements, or larger words of several, that kernels can count.
pub(super) const MAX_COUNT: usize = 1 << 31;

/// The axes of a walk as kernels read them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub(super) struct Walk {
    rank: i32,
    unused: i32,
    from: i64,
    to: i64,
    dims: [Divider; MAX_AXES],
    from_steps: [i32; MAX_AXES],
    to_steps: [i32; MAX_AXES],
}

/// The side of a transpose's squares.
pub(super) const TILE: usize = 32;

/// An axis, and how far one step along it leads on both sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) len: usize,
    pub(super) from: i64,
    pub(super) to: i64,
}

/// Elements of one tensor and those of another that they go to, axis by axis from the outermost.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Path {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) axes: Vec<Axis>,
}

impl Path {
    /// Adds the next inner axis. Axes that run on into each other become one.
    pub(super) fn axis(&mut self, len: usize, from: i64, to: i64) {
        match self.axes.last_mut() {
            _ if len == 1 => {}
            Some(outer)
                if outer.from == from * len as i64 && outer.to == to * len as i64 && len > 0 =>
            {
                *outer = Axis { len: outer.len * len, from, to };
            }
            _ => self.axes.push(Axis { len, from, to }),
        }
    }

    /// From places that `from` steps apart along each axis to all of a dense tensor of shape `dims`.
    pub(super) fn read(offset: i64, dims: &[usize], from: &[i64]) -> Path {
        let mut path = Path { from: offset, ..Path::default() };
        let to = strides(dims);
        for ((len, from), to) in dims.iter().zip(from).zip(to) {
            path.axis(*len, *from, to);
        }
        path
    }

    /// How many elements there are.
    pub(super) fn count(&self) -> usize {
        self.axes.iter().map(|axis| axis.len).product()
    }

    /// The same in words of `words` elements, if all of it fits.
    fn in_words(&self, words: usize) -> Option<Path> {
        let (inner, outer) = self.axes.split_last()?;
        let fits = |step: i64| step % words as i64 == 0;
        let all = inner.len.is_multiple_of(words)
            && (inner.from, inner.to) == (1, 1)
            && fits(self.from)
            && fits(self.to)
            && outer.iter().all(|axis| fits(axis.from) && fits(axis.to));
        let smaller = |axis: &Axis| Axis {
            len: axis.len,
            from: axis.from / words as i64,
            to: axis.to / words as i64,
        };
        all.then(|| {
            let mut axes: Vec<Axis> = outer.iter().map(smaller).collect();
            axes.push(Axis { len: inner.len / words, ..*inner });
            Path { from: self.from / words as i64, to: self.to / words as i64, axes }
        })
    }

    /// In the largest words that fit, of elements of `size` bytes; and how large they are.
    pub(super) fn widest(&self, size: usize) -> (Path, usize) {
        let fitting = [16, 8, 4, 2].into_iter().filter(|bytes| *bytes > size);
        for bytes in fitting {
            if let Some(path) = self.in_words(bytes / size) {
                return (path, bytes);
            }
        }
        (self.clone(), size)
    }

    /// What kernels are given; declined when it is too large for them.
    pub(super) fn walk(&self) -> Outcome<Walk> {
        let mut walk = Walk { from: self.from, to: self.to, ..Walk::zeroed() };
        if self.axes.len() > MAX_AXES || self.count() >= MAX_COUNT {
            return host();
        }
        walk.rank = self.axes.len() as i32;
        for (at, axis) in self.axes.iter().enumerate() {
            let (Ok(from), Ok(to)) = (i32::try_from(axis.from), i32::try_from(axis.to)) else {
                return host();
            };
            walk.dims[at] = divider(axis.len);
            (walk.from_steps[at], walk.to_steps[at]) = (from, to);
        }
        Ok(walk)
    }
}

/// How far one step along each axis of a dense tensor leads.
pub(super) fn strides(dims: &[usize]) -> Vec<i64> {
    let mut strides = vec![1; dims.len()];
    for at in (1..dims.len()).rev() {
        strides[at - 1] = strides[at] * dims[at] as i64;
    }
    strides
}

/// What names of kernels that move elements end in.
pub(super) fn word(bytes: usize) -> &'static str {
    match bytes {
        1 => "1",
        2 => "2",
        4 => "4",
        8 => "8",
        _ => "16",
    }
}

/// The largest words, at most 16 bytes, that numbers of bytes are all multiples of.
pub(super) fn word_of(bytes: impl IntoIterator<Item = usize>) -> usize {
    let common = bytes.into_iter().fold(16, |bits, bytes| bits | bytes);
    1 << common.trailing_zeros()
}

impl Path {
    /// The axes of a transpose, if this is one worth going by squares: the one that is dense where it is
    /// read, and the one that is dense where it is written.
    pub(super) fn turned(&self) -> Option<(usize, usize)> {
        let width = self.axes.iter().position(|axis| axis.to == 1)?;
        let across = self.axes.iter().position(|axis| axis.from == 1)?;
        let wide = |at: usize| self.axes[at].len >= TILE / 4;
        (width != across && self.axes[width].from > 1 && wide(width) && wide(across))
            .then_some((across, width))
    }
}

/// An element of `size` bytes as an argument.
pub(super) fn bits_of(
    launch: super::lowering::Launch<'_>,
    size: usize,
    bits: u64,
) -> super::lowering::Launch<'_> {
    match size {
        1 => launch.value(bits as u8),
        2 => launch.value(bits as u16),
        4 => launch.value(bits as u32),
        8 => launch.value(bits),
        _ => launch.value([bits, bits]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_run_on_into_each_other_are_one() {
        let path = Path::read(0, &[4, 1, 6, 16], &[96, 96, 16, 1]);
        assert_eq!(path.axes, [Axis { len: 384, from: 1, to: 1 }]);
        let slice = Path::read(32, &[4, 2, 16], &[96, 16, 1]);
        assert_eq!(slice.axes.len(), 2);
        let (words, bytes) = slice.widest(4);
        assert_eq!((bytes, words.from, words.count()), (16, 8, 32));
        assert_eq!(words.axes[0], Axis { len: 4, from: 24, to: 8 });
        assert_eq!(Path::read(1, &[4, 2, 16], &[96, 16, 1]).widest(4).1, 4);
        assert!(Path::read(0, &[64, 32], &[1, 64]).turned().is_some());
        assert!(Path::read(0, &[64, 2], &[1, 64]).turned().is_none());
    }

    #[test]
    fn words_divide_all_sizes() {
        assert_eq!(word_of([64, 32, 48]), 16);
        assert_eq!(word_of([64, 52]), 4);
        assert_eq!(word_of([6]), 2);
        assert_eq!(word_of([0, 8]), 8);
    }
}
