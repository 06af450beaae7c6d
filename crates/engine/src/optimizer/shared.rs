//! Updates of parameters that training threads share: the rules of `rule.rs`, applied to copies of
//! a few hundred elements at a time, which the compiler vectorises as it cannot atomics. What
//! another thread does to an element between the two copies is lost, as Hogwild allows.

use super::apply::collect;
use super::merge_rows::Merged;
use super::rule::AHEAD;
use super::{Loops, Real};
use crate::Result;
use crate::simd::vectorized_for;
use crate::tensor::{Elements, Shared, Tensor};

/// Elements that are copied at a time: all accumulators of a block fit into the nearest cache.
const BLOCK: usize = 256;

/// A variable of an update: of this step alone, or shared.
enum Part<'a, T> {
    Own(&'a mut [T]),
    Shared(Shared<'a, T>),
}

impl<'a, T: Real> Part<'a, T> {
    fn of(tensor: &'a mut Tensor) -> Result<Part<'a, T>> {
        if tensor.is_shared() {
            let tensor: &'a Tensor = tensor;
            return Ok(Part::Shared(tensor.as_shared()?.expect("asked above")));
        }
        tensor.as_mut_slice().map(Part::Own)
    }

    #[inline(always)]
    fn load(&self, at: usize, to: &mut [T]) {
        match self {
            Part::Own(own) => Elements::load(&**own, at, to),
            Part::Shared(shared) => shared.load(at, to),
        }
    }

    #[inline(always)]
    fn store(&mut self, at: usize, from: &[T]) {
        match self {
            Part::Own(own) => own[at..][..from.len()].copy_from_slice(from),
            Part::Shared(shared) => shared.store(at, from),
        }
    }

    #[inline(always)]
    fn prefetch(&self, at: usize, len: usize) {
        match self {
            Part::Own(own) => Elements::prefetch(&**own, at, len),
            Part::Shared(shared) => shared.prefetch(at, len),
        }
    }
}

/// A parameter and its accumulators, some of which are shared.
pub(super) struct SharedUpdate<'a, T, const N: usize> {
    param: Part<'a, T>,
    state: [Part<'a, T>; N],
    len: usize,
}

/// Copies of some elements.
struct Block<T, const N: usize> {
    param: [T; BLOCK],
    state: [[T; BLOCK]; N],
}

impl<T: Real, const N: usize> Block<T, N> {
    fn new() -> Block<T, N> {
        Block { param: [T::ZERO; BLOCK], state: [[T::ZERO; BLOCK]; N] }
    }
}

impl<'a, T: Real, const N: usize> SharedUpdate<'a, T, N> {
    /// Of tensors with equally many elements.
    ///
    /// # Errors
    /// When the elements are of another type.
    pub(super) fn new(param: &'a mut Tensor, state: [&'a mut Tensor; N]) -> Result<Self> {
        let len = param.numel();
        let state = collect(state.map(Part::of))?;
        Ok(SharedUpdate { param: Part::of(param)?, state, len })
    }

    /// Elements of the parameter.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// As [`super::rule::update`].
    pub(super) fn update<R: Loops<T, N>>(&mut self, rule: &R, grad: &[T]) {
        let len = self.len;
        vectorized_for::<T, _>(
            #[inline(always)]
            || self.each(rule, &mut Block::new(), 0..len, Some(grad)),
        );
    }

    /// As [`super::rule::update_rows`].
    pub(super) fn update_rows<R: Loops<T, N>>(&mut self, rule: &R, merged: &Merged<'_, T>) {
        let width = merged.width;
        vectorized_for::<T, _>(
            #[inline(always)]
            || {
                let mut block = Block::new();
                for (i, (row, grad)) in merged.iter().enumerate() {
                    if let Some(later) = merged.rows.get(i + AHEAD) {
                        let at = *later as usize * width;
                        self.param.prefetch(at, width);
                        self.state.iter().for_each(|state| state.prefetch(at, width));
                    }
                    self.each(rule, &mut block, row * width..(row + 1) * width, Some(grad));
                }
            },
        );
    }

    /// As [`super::rule::update_all_rows`].
    pub(super) fn update_all_rows<R: Loops<T, N>>(
        &mut self,
        rule: &R,
        merged: &Merged<'_, T>,
        order: &[u32],
    ) {
        let (width, len) = (merged.width, self.len);
        vectorized_for::<T, _>(
            #[inline(always)]
            || {
                let (mut block, mut done) = (Block::new(), 0);
                for position in order {
                    let (row, grad) = merged.row(*position as usize);
                    let (start, end) = (row * width, (row + 1) * width);
                    self.each(rule, &mut block, done..start, None);
                    self.each(rule, &mut block, start..end, Some(grad));
                    done = end;
                }
                self.each(rule, &mut block, done..len, None);
            },
        );
    }

    /// Updates a range of elements; without a gradient as if it were zero.
    #[inline(always)]
    fn each<R: Loops<T, N>>(
        &mut self,
        rule: &R,
        block: &mut Block<T, N>,
        range: std::ops::Range<usize>,
        grad: Option<&[T]>,
    ) {
        for at in range.clone().step_by(BLOCK) {
            let count = BLOCK.min(range.end - at);
            let param = &mut block.param[..count];
            self.param.load(at, param);
            let mut state = block.state.each_mut().map(
                #[inline(always)]
                |state| &mut state[..count],
            );
            for (mine, copy) in self.state.iter().zip(&mut state) {
                mine.load(at, copy);
            }
            match grad {
                Some(grad) => rule.each(param, &grad[at - range.start..][..count], state),
                None => rule.each_without_gradient(param, state),
            }
            self.param.store(at, param);
            for (mine, copy) in self.state.iter_mut().zip(&block.state) {
                mine.store(at, &copy[..count]);
            }
        }
    }
}
