//! Convolution of single channels: each output channel sees one input channel, so a matrix product
//! would have nothing to share, and lines are added up directly.

use super::columns::taps;
use super::window::{Axis, each_run};
use crate::ops::prelude::*;

/// `out` = the sum over taps of weight times shifted `plane`.
pub(super) fn forward<T: Real>(axes: &[Axis; 2], plane: &[T], weights: &[T], out: &mut [T]) {
    out.fill(T::ZERO);
    vectorized(
        #[inline(always)]
        || {
            for (tap, weight) in taps(axes).zip(weights) {
                each_run(
                    axes,
                    tap,
                    #[inline(always)]
                    |to, from, len, stride| {
                        let out = &mut out[to..to + len];
                        if stride == 1 {
                            let from = &plane[from..from + len];
                            out.iter_mut().zip(from).for_each(|(out, x)| *out += *weight * *x);
                        } else {
                            let from = plane[from..].iter().step_by(stride);
                            out.iter_mut().zip(from).for_each(|(out, x)| *out += *weight * *x);
                        }
                    },
                );
            }
        },
    );
}

/// Adds to `dplane` what `dout` means for it.
pub(super) fn input_grad<T: Real>(axes: &[Axis; 2], dout: &[T], weights: &[T], dplane: &mut [T]) {
    vectorized(
        #[inline(always)]
        || {
            for (tap, weight) in taps(axes).zip(weights) {
                each_run(
                    axes,
                    tap,
                    #[inline(always)]
                    |from, to, len, stride| {
                        let dout = &dout[from..from + len];
                        if stride == 1 {
                            let to = dplane[to..to + len].iter_mut();
                            to.zip(dout).for_each(|(dx, dout)| *dx += *weight * *dout);
                        } else {
                            let to = dplane[to..].iter_mut().step_by(stride);
                            to.zip(dout).for_each(|(dx, dout)| *dx += *weight * *dout);
                        }
                    },
                );
            }
        },
    );
}

/// Adds to `dweights` what `dout` means for them.
pub(super) fn filter_grad<T: Real>(axes: &[Axis; 2], plane: &[T], dout: &[T], dweights: &mut [T]) {
    vectorized(
        #[inline(always)]
        || {
            for (tap, dweight) in taps(axes).zip(dweights) {
                each_run(
                    axes,
                    tap,
                    #[inline(always)]
                    |at, from, len, stride| {
                        let dout = &dout[at..at + len];
                        if stride == 1 {
                            *dweight +=
                                sum_of_pairs(&plane[from..from + len], dout, |x, dout| x * dout);
                        } else {
                            let from = plane[from..].iter().step_by(stride);
                            from.zip(dout).for_each(|(x, dout)| *dweight += *x * *dout);
                        }
                    },
                );
            }
        },
    );
}
