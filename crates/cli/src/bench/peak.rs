//! What the processor can do at most: multiply-adds of `f32` in its widest vectors, on numbers that stay in registers.

#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "vector instructions, where the processor has them")
)]

use std::sync::Barrier;
use std::time::Duration;

use super::time_per_run;

/// Multiply-adds of each sum between two looks at the clock.
const STEPS: usize = 20_000;

/// Floating-point operations a second of `threads` threads together, measured for about `time`.
pub(super) fn flops_per_second(threads: usize, time: Duration) -> f64 {
    let barrier = Barrier::new(threads);
    let one = || {
        barrier.wait();
        let mut operations = 0;
        let seconds = time_per_run(time, || {
            operations = multiply_adds(STEPS);
            Ok(())
        });
        operations as f64 / seconds.expect("arithmetic does not fail")
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        let rates = running.into_iter().map(|thread| thread.join());
        rates.map(|rate| rate.expect("arithmetic does not panic")).sum()
    })
}

/// Does `steps` multiply-adds of many sums that do not depend on each other; returns the operations.
fn multiply_adds(steps: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: just detected.
            return unsafe { wide(steps) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: just detected.
            return unsafe { narrow(steps) };
        }
    }
    plain::<4>(steps)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn wide(steps: usize) -> usize {
    use std::arch::x86_64::*;
    let factor = std::hint::black_box(_mm512_set1_ps(0.5));
    let mut sums = [_mm512_setzero_ps(); 16];
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = _mm512_fmadd_ps(factor, factor, *sum);
        }
    }
    std::hint::black_box(sums);
    2 * 16 * sums.len() * steps
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn narrow(steps: usize) -> usize {
    use std::arch::x86_64::*;
    let factor = std::hint::black_box(_mm256_set1_ps(0.5));
    let mut sums = [_mm256_setzero_ps(); 12];
    for _ in 0..steps {
        for sum in &mut sums {
            *sum = _mm256_fmadd_ps(factor, factor, *sum);
        }
    }
    std::hint::black_box(sums);
    2 * 8 * sums.len() * steps
}

/// For processors without such vectors: as the compiler has it, in vectors of `LANES`.
fn plain<const LANES: usize>(steps: usize) -> usize {
    let factor = std::hint::black_box([0.5f32; LANES]);
    let mut sums = [[0.0f32; LANES]; 12];
    for _ in 0..steps {
        for sum in &mut sums {
            for (sum, factor) in sum.iter_mut().zip(&factor) {
                *sum += factor * factor;
            }
        }
    }
    std::hint::black_box(sums);
    2 * LANES * sums.len() * steps
}
