//! Kernels of 16-bit factors, and the model of AMX, against sums of rounded factors.

use half::bf16;
use proptest::prelude::*;

use super::model;
use crate::gemm::kernel::Kernel;
use crate::gemm::tests::{bits, cases};
use crate::gemm::{Matrix, kernels};

/// The sum of products of rounded factors, without more rounding.
fn exact(first: f32, pairs: &[(f32, f32)]) -> f32 {
    let rounded = |factor: f32| f64::from(bf16::from_f32(factor).to_f32());
    let products = pairs.iter().map(|(lhs, rhs)| rounded(*lhs) * rounded(*rhs));
    (f64::from(first) + products.sum::<f64>()) as f32
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 150 }))]

    #[test]
    fn every_kernel_multiplies_rounded_factors(case in cases()) {
        let filled = case.fill();
        let expected = case.expect(&filled, exact);
        let most = 1e-6 * (case.sizes[2] as f32 + 2.0);
        let models: [&Kernel; 2] = [&model::MODEL, &model::PACKED];
        let all = kernels().iter().copied().chain(models);
        for kernel in all.filter(|kernel| kernel.is_half() && kernel.is_here()) {
            let mut out = filled.before.clone();
            kernel.multiply(case.product(&filled, &mut out));
            for (at, (found, expected)) in out.iter().zip(&expected).enumerate() {
                let is_near = (found - expected).abs() <= most || found.is_nan() && expected.is_nan();
                prop_assert!(is_near, "{}: {found} for {expected} at {at}", kernel.name());
            }
        }
    }

    #[test]
    fn packing_with_vectors_is_packing_without(case in cases()) {
        if model::PACKED.is_here() {
            let filled = case.fill();
            let [mut with, mut without] = [filled.before.clone(), filled.before.clone()];
            model::PACKED.multiply(case.product(&filled, &mut with));
            model::MODEL.multiply(case.product(&filled, &mut without));
            prop_assert_eq!(bits(&with), bits(&without));
        }
    }

    #[test]
    fn who_asks_for_half_gets_the_best_kernel_that_is_here(case in cases()) {
        let filled = case.fill();
        let [mut asked, mut expected] = [filled.before.clone(), filled.before.clone()];
        f32::multiply(case.product(&filled, &mut asked).half(true));
        match crate::gemm::half_kernel() {
            Some(kernel) => kernel.multiply(case.product(&filled, &mut expected)),
            None => f32::multiply(case.product(&filled, &mut expected)),
        }
        prop_assert_eq!(bits(&asked), bits(&expected));
    }
}
