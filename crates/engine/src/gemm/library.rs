//! Products by the `gemm` crates: of `f64`, and of `f32` on processors that have no kernel here.

#![expect(unsafe_code, reason = "the library takes pointers; sizes were checked before")]

use gemm_common::Parallelism;

use super::{Matrix, Order, Product};

/// Computes a product with the library.
pub fn multiply<T: Known>(mut product: Product<'_, T>) {
    if product.is_done() {
        return;
    }
    let Product { m, n, k, out, add, lhs, rhs, .. } = product;
    let strides = |order, rows: usize, columns: usize| match order {
        Order::Plain => (1, columns as isize),
        Order::Transposed => (rows as isize, 1),
    };
    let (lhs_cs, lhs_rs) = strides(lhs.order, m, k);
    let (rhs_cs, rhs_rs) = strides(rhs.order, k, n);
    let (one, no) = (T::from_f64(1.0), false);
    let (lhs, rhs) = (lhs.data.as_ptr(), rhs.data.as_ptr());
    // The library writes columns; a row-major product is the transposed one.
    // SAFETY: the slices have the sizes of their matrices, and the strides cover exactly those.
    unsafe {
        T::function()(
            n,
            m,
            k,
            out.as_mut_ptr(),
            n as isize,
            1,
            add,
            rhs,
            rhs_rs,
            rhs_cs,
            lhs,
            lhs_rs,
            lhs_cs,
            one,
            one,
            no,
            no,
            no,
            Parallelism::None,
        );
    }
}

/// A product of the library: sizes, destination, operands, factors, conjugations.
type Function<T> = unsafe fn(
    usize,
    usize,
    usize,
    *mut T,
    isize,
    isize,
    bool,
    *const T,
    isize,
    isize,
    *const T,
    isize,
    isize,
    T,
    T,
    bool,
    bool,
    bool,
    Parallelism,
);

/// Types that the library multiplies.
pub trait Known: Matrix {
    #[doc(hidden)]
    fn function() -> Function<Self>;
}

#[cfg(not(miri))]
impl Known for f32 {
    fn function() -> Function<f32> {
        gemm_f32::gemm::f32::get_gemm_fn()
    }
}

#[cfg(not(miri))]
impl Known for f64 {
    fn function() -> Function<f64> {
        gemm_f64::gemm::f64::get_gemm_fn()
    }
}

/// Miri knows neither the library's vector instructions nor how it asks for the size of caches.
#[cfg(miri)]
mod plain {
    use std::ops::{AddAssign, Mul};

    use gemm_common::Parallelism;

    use super::{Function, Known, Matrix};

    impl Known for f32 {
        fn function() -> Function<f32> {
            multiply
        }
    }

    impl Known for f64 {
        fn function() -> Function<f64> {
            multiply
        }
    }

    /// # Safety
    /// The pointers must be valid for the sizes and strides given.
    #[expect(clippy::too_many_arguments, reason = "the library's signature")]
    unsafe fn multiply<T: Matrix + Mul<Output = T> + AddAssign>(
        m: usize,
        n: usize,
        k: usize,
        dst: *mut T,
        dst_cs: isize,
        dst_rs: isize,
        read_dst: bool,
        lhs: *const T,
        lhs_cs: isize,
        lhs_rs: isize,
        rhs: *const T,
        rhs_cs: isize,
        rhs_rs: isize,
        _alpha: T,
        _beta: T,
        _conj_dst: bool,
        _conj_lhs: bool,
        _conj_rhs: bool,
        _parallelism: Parallelism,
    ) {
        for row in 0..m as isize {
            for column in 0..n as isize {
                // SAFETY: the caller's promise.
                unsafe {
                    let dst = dst.offset(row * dst_rs + column * dst_cs);
                    let mut sum = if read_dst { *dst } else { T::default() };
                    for at in 0..k as isize {
                        sum += *lhs.offset(row * lhs_rs + at * lhs_cs)
                            * *rhs.offset(at * rhs_rs + column * rhs_cs);
                    }
                    *dst = sum;
                }
            }
        }
    }
}
