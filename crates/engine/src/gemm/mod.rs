//! Matrix products over slices. Where a step splits its batch, each share's products have one thread; elsewhere a large
//! product is split over the threads that may take part ([`areas`]).
//!
//! Products of `f32` have kernels of their own for processors with AVX2 or AVX-512 ([`kernels`]), chosen by what the
//! processor has; on others, and for `f64`, the `gemm` crates multiply. With these kernels every element is one chain of
//! fused multiply-adds over `k`, in order: its bits are the same whichever of them runs, and however a product is split
//! by rows and columns. On request factors of `f32` are rounded to `bfloat16` while they are packed.

mod areas;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod blocks;
mod buffer;
mod choice;
#[cfg(target_arch = "x86_64")]
mod half;
mod kernel;
mod library;
mod packed;
mod packing;

#[cfg(test)]
mod tests;

pub use areas::Packing;
pub use choice::{half_kernel, kernels};
pub use kernel::Kernel;
pub use library::multiply as multiply_by_library;
pub use packed::{pack, packed_len};

/// How a matrix lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Row after row.
    Plain,
    /// Column after column: the memory holds the transpose.
    Transposed,
}

/// One factor of a product.
#[derive(Clone, Copy, Debug)]
struct Side<'a, T> {
    data: &'a [T],
    order: Order,
}

/// `out = lhs * rhs`, or `out += lhs * rhs`, where `out` is m×n, `lhs` m×k and `rhs` k×n after their orders are applied.
#[derive(Debug)]
pub struct Product<'a, T> {
    m: usize,
    n: usize,
    k: usize,
    out: &'a mut [T],
    add: bool,
    half: bool,
    /// Whether `rhs` was packed before.
    packed: bool,
    lhs: Side<'a, T>,
    rhs: Side<'a, T>,
}

impl<'a, T: Matrix> Product<'a, T> {
    /// `out = lhs * rhs`.
    ///
    /// # Panics
    /// When a slice is not as long as its matrix: shape rules checked that before.
    pub fn new(
        [m, n, k]: [usize; 3],
        out: &'a mut [T],
        (lhs, lhs_order): (&'a [T], Order),
        (rhs, rhs_order): (&'a [T], Order),
    ) -> Product<'a, T> {
        assert!(
            holds(out, m, n) && holds(lhs, m, k) && holds(rhs, k, n),
            "matrices have their sizes"
        );
        let lhs = Side { data: lhs, order: lhs_order };
        let rhs = Side { data: rhs, order: rhs_order };
        Product { m, n, k, out, add: false, half: false, packed: false, lhs, rhs }
    }

    /// `out = lhs * rhs` with a right operand that was [packed](pack), with the same `half`.
    ///
    /// # Panics
    /// As [`Product::new`].
    pub fn packed(
        [m, n, k]: [usize; 3],
        out: &'a mut [T],
        (lhs, lhs_order): (&'a [T], Order),
        rhs: &'a [T],
        half: bool,
    ) -> Product<'a, T> {
        let long_enough = packed_len([k, n], half).is_some_and(|len| len <= rhs.len());
        assert!(long_enough && holds(out, m, n) && holds(lhs, m, k), "matrices have their sizes");
        let (lhs, rhs) =
            (Side { data: lhs, order: lhs_order }, Side { data: rhs, order: Order::Plain });
        Product { m, n, k, out, add: false, half, packed: true, lhs, rhs }
    }

    /// `out += lhs * rhs`.
    #[must_use]
    pub fn add(mut self) -> Product<'a, T> {
        self.add = true;
        self
    }

    /// Whether factors may be rounded to `bfloat16`, which is done where this processor multiplies those faster
    /// ([`half_kernel`]); sums are of 32 bits either way. Products of `f64` are computed as they are.
    #[must_use]
    pub fn half(mut self, half: bool) -> Product<'a, T> {
        self.half = half;
        self
    }

    /// Whether anything is to be summed up; where nothing is, it is done.
    fn is_done(&mut self) -> bool {
        let Product { m, n, k, .. } = *self;
        if k == 0 && !self.add {
            self.out.fill(T::default());
        }
        m == 0 || n == 0 || k == 0
    }
}

fn holds<T>(slice: &[T], rows: usize, columns: usize) -> bool {
    Some(slice.len()) == rows.checked_mul(columns)
}

/// Float types that have a matrix product.
pub trait Matrix: crate::tensor::Element {
    /// Computes a product in the best way that this processor has.
    fn multiply(product: Product<'_, Self>);
}

impl Matrix for f32 {
    fn multiply(product: Product<'_, f32>) {
        match choice::best(product.half) {
            Some(kernel) => kernel.multiply(product),
            None => library::multiply(product),
        }
    }
}

impl Matrix for f64 {
    fn multiply(product: Product<'_, f64>) {
        library::multiply(product);
    }
}

/// `out = lhs * rhs`, where `out` is m×n, `lhs` m×k and `rhs` k×n after their layouts are applied.
///
/// # Panics
/// As [`Product::new`].
#[expect(clippy::too_many_arguments, reason = "the shape of the operation")]
pub fn gemm<T: Matrix>(
    m: usize,
    n: usize,
    k: usize,
    out: &mut [T],
    lhs: &[T],
    lhs_layout: Order,
    rhs: &[T],
    rhs_layout: Order,
) {
    T::multiply(Product::new([m, n, k], out, (lhs, lhs_layout), (rhs, rhs_layout)));
}

/// `out += lhs * rhs`; sizes as for [`gemm`].
///
/// # Panics
/// As [`gemm`].
#[expect(clippy::too_many_arguments, reason = "the shape of the operation")]
pub fn gemm_add<T: Matrix>(
    m: usize,
    n: usize,
    k: usize,
    out: &mut [T],
    lhs: &[T],
    lhs_layout: Order,
    rhs: &[T],
    rhs_layout: Order,
) {
    T::multiply(Product::new([m, n, k], out, (lhs, lhs_layout), (rhs, rhs_layout)).add());
}
