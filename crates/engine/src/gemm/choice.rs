//! Which kernel multiplies: decided by what the processor has and by nothing else, so that runs on one machine are equal.

use super::Product;
use super::areas;
use super::kernel::Kernel;

/// Miri has no vectors, other architectures no kernels.
#[cfg(any(not(target_arch = "x86_64"), miri))]
static KERNELS: [&Kernel; 0] = [];
#[cfg(all(target_arch = "x86_64", not(miri)))]
static KERNELS: [&Kernel; 4] =
    [&super::avx512::AVX512, &super::avx2::AVX2, &super::half::AMX_BF16, &super::half::AVX512_BF16];

/// Every kernel there is for this architecture, the best first; a processor may lack their instructions.
pub fn kernels() -> &'static [&'static Kernel] {
    &KERNELS
}

/// The best kernel of this processor for products of `f32`, whose factors may be rounded if `half`.
pub(super) fn best(half: bool) -> Option<&'static Kernel> {
    let first = |half: bool| {
        kernels().iter().copied().find(|kernel| kernel.is_half() == half && kernel.is_here())
    };
    half.then(|| first(true)).flatten().or_else(|| first(false))
}

/// The kernel that multiplies factors rounded to `bfloat16` on this processor, if it has one.
pub fn half_kernel() -> Option<&'static Kernel> {
    best(true).filter(|kernel| kernel.is_half())
}

impl Kernel {
    /// Computes a product with this kernel.
    ///
    /// # Panics
    /// When this processor lacks its instructions.
    #[expect(
        unsafe_code,
        reason = "kernels take pointers; sizes were checked when the product was made"
    )]
    pub fn multiply(&self, mut product: Product<'_, f32>) {
        assert!(self.is_here(), "this processor has no {}", self.name());
        if product.is_done() {
            return;
        }
        // SAFETY: the processor has the instructions, and a product's slices have the sizes of their matrices.
        unsafe { areas::run(self, product) }
    }
}
