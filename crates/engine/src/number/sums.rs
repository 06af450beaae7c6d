//! Sums and folds over slices in independent chains. The compiler may not reorder float additions
//! by itself, so one chain would run at the latency of one addition per element; several also keep
//! more digits.

use std::iter::zip;

use super::Number;

/// The sum of `f(x)` over all elements; `f` may go over to a wider type.
#[inline(always)]
pub(crate) fn sum_of<T: Copy, S: Number>(x: &[T], f: impl Fn(T) -> S) -> S {
    sum_of_pairs(x, x, |x, _| f(x))
}

/// The sum of `f(x, y)` over two slices of the same length.
#[inline(always)]
pub(crate) fn sum_of_pairs<T: Copy, S: Number>(x: &[T], y: &[T], f: impl Fn(T, T) -> S) -> S {
    // Sixteen chains for long slices; then eight, because rows of a batch are often that short.
    let (mut long, mut short) = ([S::ZERO; 16], [S::ZERO; 8]);
    let (x, y) = add_chunks(&mut long, x, y, &f);
    let (x, y) = add_chunks(&mut short, x, y, &f);
    let rest = zip(x, y).fold(S::ZERO, |sum, (x, y)| sum.plus(f(*x, *y)));
    for (i, lane) in short.iter_mut().enumerate() {
        *lane = lane.plus(long[i].plus(long[i + 8]));
    }
    let pairs = [0, 1, 2, 3].map(|lane| short[lane].plus(short[lane + 4]));
    pairs[0].plus(pairs[2]).plus(pairs[1].plus(pairs[3])).plus(rest)
}

/// Adds whole chunks lane by lane, and returns what is left of the slices.
#[inline(always)]
fn add_chunks<'a, T: Copy, S: Number, const LANES: usize>(
    lanes: &mut [S; LANES],
    x: &'a [T],
    y: &'a [T],
    f: &impl Fn(T, T) -> S,
) -> (&'a [T], &'a [T]) {
    let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let rest = (xs.remainder(), ys.remainder());
    for (x, y) in zip(xs, ys) {
        for ((sum, x), y) in lanes.iter_mut().zip(x).zip(y) {
            *sum = sum.plus(f(*x, *y));
        }
    }
    rest
}

/// Folds all elements with `f`, which must not care about their order, from `start`.
#[inline(always)]
pub(crate) fn fold_of<T: Number>(x: &[T], start: T, f: impl Fn(T, T) -> T) -> T {
    let mut lanes = [start; 8];
    let chunks = x.chunks_exact(8);
    let rest = chunks.remainder().iter().fold(start, |so_far, x| f(so_far, *x));
    for x in chunks {
        for (so_far, x) in lanes.iter_mut().zip(x) {
            *so_far = f(*so_far, *x);
        }
    }
    lanes.into_iter().fold(rest, f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_count_every_element_once() {
        for len in [0, 1, 7, 8, 15, 16, 17, 24, 31, 50] {
            let xs: Vec<f32> = (0..len).map(|i| i as f32).collect();
            let expected: f32 = xs.iter().sum();
            assert_eq!(sum_of(&xs, |x| x), expected);
            assert_eq!(sum_of_pairs(&xs, &xs, |x, y| x + y), 2.0 * expected);
        }
    }
}
