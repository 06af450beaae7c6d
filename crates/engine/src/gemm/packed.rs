//! Right operands that are packed once for several products: the shares of a step all multiply by the same weights.

#![expect(unsafe_code, reason = "kernels take pointers; sizes are checked here")]

use super::areas::{self, Packing};
use super::blocks::Out;
use super::{Order, Side, choice, holds, packing};

/// How many numbers a packed right operand of `k` rows and `n` columns takes, for products that may round their factors if
/// `half`; none where this processor has no kernel that reads such a one.
pub fn packed_len([k, n]: [usize; 2], half: bool) -> Option<usize> {
    choice::best(half).map(|kernel| packing::all_columns_words(kernel, [k, n]))
}

impl<'a> Packing<'a> {
    /// `rhs` of `k` rows and `n` columns after its order is applied, for [`Product::packed`](super::Product::packed).
    ///
    /// # Panics
    /// When a slice is too short, or this processor has no kernel for it.
    pub fn new(
        [k, n]: [usize; 2],
        (rhs, order): (&'a [f32], Order),
        half: bool,
        to: &'a mut [f32],
    ) -> Packing<'a> {
        let has_room = packed_len([k, n], half).is_some_and(|len| len <= to.len());
        assert!(has_room && holds(rhs, k, n), "matrices have their sizes");
        let (rhs, to) = (Side { data: rhs, order }, Out(to.as_mut_ptr()));
        Packing { sizes: [k, n], rhs, half, to }
    }
}

/// Packs operands, all for products of one kind, by all threads that may take part.
///
/// # Panics
/// When some are for products that round their factors, and others not.
pub fn pack(operands: &[Option<Packing<'_>>]) {
    let Some(first) = operands.iter().flatten().next() else { return };
    let is_like_first = |one: &Packing<'_>| one.half == first.half;
    assert!(operands.iter().flatten().all(is_like_first), "products of one kind");
    let Some(kernel) = choice::best(first.half) else { return };
    // SAFETY: the kernel is one of this processor, and lengths were checked when operands were made.
    unsafe { areas::pack_each(kernel, operands) }
}
