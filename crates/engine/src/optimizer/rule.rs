//! Update rules: how an optimizer changes one element of a parameter, and the loops that apply a
//! rule to a slice, to some rows, or to every row.
//!
//! A rule is the optimizer's formula and nothing else. It knows no tensors, so the same rule serves
//! dense parameters, the rows of a sparse gradient, and the rows of a parameter server's table.

use super::Real;
use super::merge_rows::Merged;
use crate::prefetch::prefetch;
use crate::simd::vectorized_for;

/// How far ahead of its use a row is fetched: about the time memory takes, in rows.
pub(super) const AHEAD: usize = 16;

/// One step of an optimizer with `N` accumulators, its coefficients fixed.
pub trait Rule<T: Real, const N: usize>: Copy + Send + Sync {
    /// The parameter element and its accumulators after a step with gradient `grad`.
    fn element(&self, param: T, grad: T, state: [T; N]) -> (T, [T; N]);
}

/// The loops of a rule over slices of equal length; every [`Rule`] with up to three accumulators
/// has them.
pub trait Loops<T: Real, const N: usize>: Rule<T, N> {
    /// Updates each element.
    fn each(&self, param: &mut [T], grad: &[T], state: [&mut [T]; N]);
    /// Updates each element with a gradient of zero.
    fn each_without_gradient(&self, param: &mut [T], state: [&mut [T]; N]);
}

/// The slices are arguments of their own in the inner functions, so that the compiler knows that
/// they do not overlap; it would not vectorise otherwise.
macro_rules! loops {
    ($($n:literal => $($state:ident),*;)*) => {$(
        impl<T: Real, R: Rule<T, $n>> Loops<T, $n> for R {
            #[inline(always)]
            fn each(&self, param: &mut [T], grad: &[T], state: [&mut [T]; $n]) {
                #[inline(always)]
                fn run<T: Real, R: Rule<T, $n>>(
                    rule: &R, param: &mut [T], grad: &[T], $($state: &mut [T]),*
                ) {
                    let len = param.len();
                    let grad = &grad[..len];
                    $(let $state = &mut $state[..len];)*
                    for i in 0..len {
                        (param[i], [$($state[i]),*]) =
                            rule.element(param[i], grad[i], [$($state[i]),*]);
                    }
                }
                let [$($state),*] = state;
                run(self, param, grad, $($state),*);
            }

            #[inline(always)]
            fn each_without_gradient(&self, param: &mut [T], state: [&mut [T]; $n]) {
                #[inline(always)]
                fn run<T: Real, R: Rule<T, $n>>(
                    rule: &R, param: &mut [T], $($state: &mut [T]),*
                ) {
                    let len = param.len();
                    $(let $state = &mut $state[..len];)*
                    for i in 0..len {
                        (param[i], [$($state[i]),*]) =
                            rule.element(param[i], T::ZERO, [$($state[i]),*]);
                    }
                }
                let [$($state),*] = state;
                run(self, param, $($state),*);
            }
        }
    )*};
}

loops! {
    0 => ;
    1 => a;
    2 => a, b;
    3 => a, b, c;
}

/// Applies `rule` to every element.
///
/// # Panics
/// When the gradient or an accumulator is shorter than the parameter.
pub fn update<T: Real, R: Loops<T, N>, const N: usize>(
    rule: &R,
    param: &mut [T],
    grad: &[T],
    state: [&mut [T]; N],
) {
    vectorized_for::<T, _>(
        #[inline(always)]
        || rule.each(param, grad, state),
    );
}

/// Applies `rule` to the rows of `merged`, and leaves the others alone.
///
/// # Panics
/// When a row lies outside the parameter or an accumulator.
pub fn update_rows<T: Real, R: Loops<T, N>, const N: usize>(
    rule: &R,
    param: &mut [T],
    mut state: [&mut [T]; N],
    merged: &Merged<'_, T>,
) {
    let width = merged.width;
    if width == 0 {
        return;
    }
    vectorized_for::<T, _>(
        #[inline(always)]
        || {
            for (i, (row, grad)) in merged.iter().enumerate() {
                if let Some(later) = merged.rows.get(i + AHEAD) {
                    let at = *later as usize * width;
                    prefetch(param, at, width);
                    for state in &state {
                        prefetch(state, at, width);
                    }
                }
                let at = row * width..(row + 1) * width;
                let state = state.each_mut().map(
                    #[inline(always)]
                    |state| &mut state[at.clone()],
                );
                rule.each(&mut param[at.clone()], grad, state);
            }
        },
    );
}

/// Applies `rule` to every row: those of `merged` with their gradient, the others with zero.
/// `order` says in which order the rows of `merged` rise.
///
/// # Panics
/// When a row lies outside the parameter or an accumulator.
pub fn update_all_rows<T: Real, R: Loops<T, N>, const N: usize>(
    rule: &R,
    param: &mut [T],
    mut state: [&mut [T]; N],
    merged: &Merged<'_, T>,
    order: &[u32],
) {
    let (width, len) = (merged.width, param.len());
    vectorized_for::<T, _>(
        #[inline(always)]
        || {
            let mut done = 0;
            for position in order {
                let (row, grad) = merged.row(*position as usize);
                let (start, end) = (row * width, (row + 1) * width);
                let gap = state.each_mut().map(|state| &mut state[done..start]);
                rule.each_without_gradient(&mut param[done..start], gap);
                let state = state.each_mut().map(|state| &mut state[start..end]);
                rule.each(&mut param[start..end], grad, state);
                done = end;
            }
            let gap = state.map(|state| &mut state[done..len]);
            rule.each_without_gradient(&mut param[done..], gap);
        },
    );
}
