//! Norms of whole tensors, which the layer-wise rules need before the first element moves.

use crate::number::Real;

/// Partial sums kept side by side: the compiler may not reorder float additions by itself.
const LANES: usize = 8;

/// The Euclidean norm of `f` over the elements of three slices, summed in double precision.
pub(super) fn norm<T: Real>(slices: [&[T]; 3], f: impl Fn(T, T, T) -> T) -> f64 {
    let mut lanes = [0.0; LANES];
    let mut add = |[x, y, z]: [&[T]; 3]| {
        for (((lane, x), y), z) in lanes.iter_mut().zip(x).zip(y).zip(z) {
            let value = f(*x, *y, *z).to_f64();
            *lane += value * value;
        }
    };
    let [xs, ys, zs] = slices.map(|slice| slice.chunks(LANES));
    for ((x, y), z) in xs.zip(ys).zip(zs) {
        add([x, y, z]);
    }
    lanes.into_iter().fold(0.0, |sum, lane| sum + lane).sqrt()
}
