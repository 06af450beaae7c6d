//! Every kernel of this processor, and the choice among them, against sums computed one by one.

use proptest::prelude::*;

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

/// A product to compute, and what is in its result before.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) sizes: [usize; 3],
    pub(super) orders: [Order; 2],
    pub(super) add: bool,
    /// Numbers by which operands begin off the alignment of vectors.
    offset: usize,
    seed: u64,
}

/// Products that are wide, high or deep, with sizes on both sides of those of tiles and blocks.
pub(super) fn cases() -> impl Strategy<Value = Case> {
    let sizes = prop_oneof![
        (1..40usize, 1..80usize, 0..50usize),
        (1..320usize, 1..40usize, 0..900usize),
        (1..30usize, 1..600usize, 0..60usize),
    ];
    let order = || prop_oneof![Just(Order::Plain), Just(Order::Transposed)];
    (sizes, order(), order(), any::<bool>(), 0..16usize, any::<u64>()).prop_map(
        |((m, n, k), lhs, rhs, add, offset, seed)| Case {
            sizes: [m, n, k],
            orders: [lhs, rhs],
            add,
            offset,
            seed,
        },
    )
}

/// Numbers between -1 and 1; the first `offset` are not part of the operand.
fn numbers(count: usize, offset: usize, seed: u64) -> Vec<f32> {
    let random = crate::random::Philox::new(seed, "numbers").stream(count as u64);
    let mut numbers = vec![0.0; count + offset];
    random.fill_uniform(0, -1.0, 1.0, &mut numbers);
    numbers
}

/// Operands of a case, and its result by `sum`, which gets what was there and the factors in order.
pub(super) struct Filled {
    lhs: Vec<f32>,
    rhs: Vec<f32>,
    pub(super) before: Vec<f32>,
    offset: usize,
}

impl Case {
    pub(super) fn fill(&self) -> Filled {
        let Case { sizes: [m, n, k], offset, seed, .. } = *self;
        let numbers = |count, more: u64| numbers(count, offset, seed.wrapping_add(more));
        let before = if self.add { numbers(m * n, 2) } else { vec![f32::NAN; m * n + offset] };
        Filled { lhs: numbers(m * k, 0), rhs: numbers(k * n, 1), before, offset }
    }

    pub(super) fn product<'a>(&self, filled: &'a Filled, out: &'a mut [f32]) -> Product<'a, f32> {
        let Filled { lhs, rhs, offset, .. } = filled;
        let [lhs_order, rhs_order] = self.orders;
        let (lhs, rhs) = ((&lhs[*offset..], lhs_order), (&rhs[*offset..], rhs_order));
        let product = Product::new(self.sizes, &mut out[*offset..], lhs, rhs);
        if self.add { product.add() } else { product }
    }

    /// The result by `sum` of what was there and the pairs of factors, in order; what lies before it stays.
    pub(super) fn expect(
        &self,
        filled: &Filled,
        sum: impl Fn(f32, &[(f32, f32)]) -> f32,
    ) -> Vec<f32> {
        let Case { sizes: [m, n, k], orders: [lhs_order, rhs_order], .. } = *self;
        let Filled { lhs, rhs, before, offset } = filled;
        let (lhs, rhs) = (&lhs[*offset..], &rhs[*offset..]);
        let mut expected = before.clone();
        for i in 0..m {
            for j in 0..n {
                let pair = |p: usize| {
                    let lhs = match lhs_order {
                        Order::Plain => lhs[i * k + p],
                        Order::Transposed => lhs[p * m + i],
                    };
                    let rhs = match rhs_order {
                        Order::Plain => rhs[p * n + j],
                        Order::Transposed => rhs[j * k + p],
                    };
                    (lhs, rhs)
                };
                let pairs: Vec<(f32, f32)> = (0..k).map(pair).collect();
                let out = &mut expected[offset + i * n + j];
                *out = sum(if self.add { *out } else { 0.0 }, &pairs);
            }
        }
        expected
    }
}

pub(super) fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

/// One chain of fused multiply-adds: what every kernel for `f32` computes, to the bit.
fn chain(first: f32, pairs: &[(f32, f32)]) -> f32 {
    pairs.iter().fold(first, |sum, (lhs, rhs)| lhs.mul_add(*rhs, sum))
}

/// The sum in `f64`.
fn exact(first: f32, pairs: &[(f32, f32)]) -> f64 {
    pairs.iter().fold(f64::from(first), |sum, (lhs, rhs)| sum + f64::from(*lhs) * f64::from(*rhs))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 200 }))]

    #[test]
    fn every_kernel_is_a_chain_of_sums(case in cases()) {
        let filled = case.fill();
        let expected = bits(&case.expect(&filled, chain));
        for kernel in kernels().iter().filter(|kernel| !kernel.is_half() && kernel.is_here()) {
            let mut out = filled.before.clone();
            kernel.multiply(case.product(&filled, &mut out));
            prop_assert!(bits(&out) == expected, "{} differs", kernel.name());
        }
    }

    #[test]
    fn the_choice_and_the_library_are_near_the_sums_in_double(case in cases()) {
        let filled = case.fill();
        let mut out = filled.before.clone();
        let mut of_library = filled.before.clone();
        f32::multiply(case.product(&filled, &mut out));
        multiply_by_library(case.product(&filled, &mut of_library));
        let expected = case.expect(&filled, |first, pairs| exact(first, pairs) as f32);
        let most = 1e-6 * (case.sizes[2] as f32 + 2.0);
        for found in [out, of_library] {
            let pairs = found.iter().zip(&expected).skip(filled.offset);
            prop_assert!(pairs.map(|(found, expected)| (found - expected).abs()).all(|far| far <= most));
        }
    }

    #[test]
    fn a_packed_operand_gives_the_same_bits(case in cases(), split in 0.0..1.0f64) {
        let case = Case { add: false, orders: [Order::Plain, case.orders[1]], ..case };
        let filled = case.fill();
        let [m, n, k] = case.sizes;
        let mut expected = filled.before.clone();
        f32::multiply(case.product(&filled, &mut expected));
        let Some(len) = packed_len([k, n], false) else { return Ok(()) };
        let mut packed = vec![f32::NAN; len];
        let rhs = (&filled.rhs[filled.offset..], case.orders[1]);
        pack(&[None, Some(Packing::new([k, n], rhs, false, &mut packed))]);
        // Two parts, as two workers compute them.
        let first = (m as f64 * split) as usize;
        let (lhs, mut out) = (&filled.lhs[filled.offset..], vec![f32::NAN; m * n]);
        let (upper, lower) = out.split_at_mut(first * n);
        for (rows, out, lhs) in [(first, upper, &lhs[..first * k]), (m - first, lower, &lhs[first * k..])] {
            let lhs = (lhs, Order::Plain);
            f32::multiply(Product::packed([rows, n, k], out, lhs, &packed, false));
        }
        prop_assert_eq!(bits(&out), bits(&expected[filled.offset..]));
    }
}

#[test]
fn an_empty_sum_is_zero_or_what_was_there() {
    for kernel in kernels().iter().filter(|kernel| kernel.is_here()) {
        let mut out = [3.0f32; 4];
        let none: (&[f32], Order) = (&[], Order::Plain);
        kernel.multiply(Product::new([2, 2, 0], &mut out, none, none).add());
        assert_eq!(out, [3.0; 4]);
        kernel.multiply(Product::new([2, 2, 0], &mut out, none, none));
        assert_eq!(out, [0.0; 4]);
    }
}
