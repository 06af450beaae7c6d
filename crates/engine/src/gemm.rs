//! Matrix products over slices, single-threaded: the executor splits batches, not products.

#![expect(unsafe_code, reason = "the library takes pointers; sizes are checked here")]

use gemm_common::Parallelism;

/// How a matrix lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Row after row.
    Plain,
    /// Column after column: the memory holds the transpose.
    Transposed,
}

/// Float types that have a matrix product.
pub trait Matrix: crate::tensor::Element {
    /// `out = alpha * out + lhs * rhs` through strided pointers.
    ///
    /// # Safety
    /// The pointers must be valid for the sizes and strides given.
    unsafe fn raw(
        sizes: [usize; 3],
        out: *mut Self,
        add: bool,
        lhs: *const Self,
        lhs_strides: (isize, isize),
        rhs: *const Self,
        rhs_strides: (isize, isize),
    );
}

macro_rules! matrix {
    ($($t:ty => $gemm:path),*) => {$(
        impl Matrix for $t {
            unsafe fn raw(
                [m, n, k]: [usize; 3],
                out: *mut $t,
                add: bool,
                lhs: *const $t,
                (lhs_cs, lhs_rs): (isize, isize),
                rhs: *const $t,
                (rhs_cs, rhs_rs): (isize, isize),
            ) {
                // SAFETY: the caller's promise.
                unsafe {
                    // The library writes columns; a row-major product is the transposed one.
                    $gemm(rhs_rs == 1)(
                        n, m, k, out, n as isize, 1, add, rhs, rhs_rs, rhs_cs, lhs, lhs_rs, lhs_cs,
                        1.0, 1.0, false, false, false, Parallelism::None,
                    );
                }
            }
        }
    )*};
}

matrix! { f32 => single, f64 => double }

/// A product of the library: sizes, destination, operands, factors, conjugations.
type Product<T> = unsafe fn(
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

/// The library's choice for this machine. On one with 512-bit vectors that is a kernel which is
/// 3 % faster when both operands lie row by row, and up to 15 % slower when the right one lies
/// column by column, as a weight does in the gradient of a layer's input.
#[cfg(not(miri))]
fn single(rhs_by_columns: bool) -> Product<f32> {
    #[cfg(target_arch = "x86_64")]
    if rhs_by_columns && std::arch::is_x86_feature_detected!("avx512f") {
        return narrow::product;
    }
    let _ = rhs_by_columns;
    gemm_f32::gemm::f32::get_gemm_fn()
}

#[cfg(not(miri))]
fn double(_rhs_by_columns: bool) -> Product<f64> {
    gemm_f64::gemm::f64::get_gemm_fn()
}

/// Miri knows neither the library's vector instructions nor how it asks for the size of caches.
#[cfg(miri)]
use plain::{product as single, product as double};

#[cfg(miri)]
mod plain {
    use gemm_common::Parallelism;

    use super::{Matrix, Product};

    pub(super) fn product<T: Matrix + std::ops::Mul<Output = T> + std::ops::AddAssign>(
        _rhs_by_columns: bool,
    ) -> Product<T> {
        multiply
    }

    /// # Safety
    /// The pointers must be valid for the sizes and strides given.
    #[expect(clippy::too_many_arguments, reason = "the library's signature")]
    unsafe fn multiply<T: Matrix + std::ops::Mul<Output = T> + std::ops::AddAssign>(
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

/// The library's product with 256-bit vectors, which it does not offer by name.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod narrow {
    use gemm_common::Parallelism;
    use gemm_common::gemm::gemm_basic_generic;
    use gemm_common::simd::{MixedSimd, V3};
    use gemm_f32::microkernel::fma::f32::{H_M, H_N, H_UKR, MR_DIV_N, NR, UKR};

    /// Elements in a vector.
    const N: usize = 8;

    /// # Safety
    /// The pointers must be valid for the sizes and strides given.
    #[expect(clippy::too_many_arguments, reason = "the library's signature")]
    pub(super) unsafe fn product(
        m: usize,
        n: usize,
        k: usize,
        dst: *mut f32,
        dst_cs: isize,
        dst_rs: isize,
        read_dst: bool,
        lhs: *const f32,
        lhs_cs: isize,
        lhs_rs: isize,
        rhs: *const f32,
        rhs_cs: isize,
        rhs_rs: isize,
        alpha: f32,
        beta: f32,
        conj_dst: bool,
        conj_lhs: bool,
        conj_rhs: bool,
        parallelism: Parallelism,
    ) {
        let simd = <V3 as MixedSimd<f32, f32, f32, f32>>::try_new();
        let simd = simd.expect("a machine with 512-bit vectors has 256-bit ones");
        // SAFETY: the caller's promise.
        unsafe {
            gemm_basic_generic::<_, f32, N, { MR_DIV_N * N }, NR, MR_DIV_N, H_M, H_N>(
                simd,
                m,
                n,
                k,
                dst,
                dst_cs,
                dst_rs,
                read_dst,
                lhs,
                lhs_cs,
                lhs_rs,
                rhs,
                rhs_cs,
                rhs_rs,
                alpha,
                beta,
                conj_dst,
                conj_lhs,
                conj_rhs,
                |a, b, c| a * b + c,
                &UKR,
                &H_UKR,
                false,
                parallelism,
            );
        }
    }
}

/// `out = lhs * rhs`, where `out` is m×n, `lhs` m×k and `rhs` k×n after their layouts are applied.
///
/// # Panics
/// When a slice is not as long as its matrix: shape rules checked that before.
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
    product(m, n, k, out, false, lhs, lhs_layout, rhs, rhs_layout);
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
    product(m, n, k, out, true, lhs, lhs_layout, rhs, rhs_layout);
}

#[expect(clippy::too_many_arguments, reason = "the shape of the operation")]
fn product<T: Matrix>(
    m: usize,
    n: usize,
    k: usize,
    out: &mut [T],
    add: bool,
    lhs: &[T],
    lhs_layout: Order,
    rhs: &[T],
    rhs_layout: Order,
) {
    let holds = |slice: &[T], rows: usize, columns| Some(slice.len()) == rows.checked_mul(columns);
    assert!(holds(out, m, n) && holds(lhs, m, k) && holds(rhs, k, n), "matrices have their sizes");
    if k == 0 && !add {
        out.fill(T::default());
    }
    if m == 0 || n == 0 || k == 0 {
        return;
    }
    let strides = |layout, rows: usize, columns: usize| match layout {
        Order::Plain => (1, columns as isize),
        Order::Transposed => (rows as isize, 1),
    };
    // SAFETY: the lengths were checked against the sizes, and the strides cover exactly those.
    unsafe {
        T::raw(
            [m, n, k],
            out.as_mut_ptr(),
            add,
            lhs.as_ptr(),
            strides(lhs_layout, m, k),
            rhs.as_ptr(),
            strides(rhs_layout, k, n),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "matrices have their sizes")]
    fn sizes_that_wrap_around_are_refused() {
        let k = (1 << 62) + 1;
        let side = [0.0f32; 4];
        gemm(4, 4, k, &mut [0.0; 16], &side, Order::Plain, &side, Order::Plain);
    }

    #[test]
    fn layouts_agree_with_the_definition() {
        let (m, n, k) = (3, 5, 4);
        let lhs: Vec<f32> = (0..m * k).map(|i| i as f32 - 3.0).collect();
        let rhs: Vec<f32> = (0..k * n).map(|i| 0.5 * i as f32 - 2.0).collect();
        let transpose = |x: &[f32], rows: usize, columns: usize| -> Vec<f32> {
            (0..x.len()).map(|i| x[(i % rows) * columns + i / rows]).collect()
        };
        let mut expected = vec![0.0f32; m * n];
        for i in 0..m {
            for j in 0..n {
                expected[i * n + j] = (0..k).map(|p| lhs[i * k + p] * rhs[p * n + j]).sum();
            }
        }
        let (lhs_t, rhs_t) = (transpose(&lhs, m, k), transpose(&rhs, k, n));
        let mut out = vec![f32::NAN; m * n];
        gemm(m, n, k, &mut out, &lhs, Order::Plain, &rhs, Order::Plain);
        assert_eq!(out, expected);
        gemm(m, n, k, &mut out, &lhs_t, Order::Transposed, &rhs_t, Order::Transposed);
        assert_eq!(out, expected);
        gemm_add(m, n, k, &mut out, &lhs, Order::Plain, &rhs, Order::Plain);
        assert_eq!(out, expected.iter().map(|x| 2.0 * x).collect::<Vec<_>>());
    }
}
