//! The matrix products of training steps one by one: every kernel of this processor beside the library, in alternation.

use std::time::Duration;

use anyhow::Result;
use bireme_engine::gemm::{Kernel, Matrix, Order, Product, kernels, multiply_by_library};

use super::workload::{CTR_DNN_WIDTHS, MNIST_WIDTHS};
use super::{ROUNDS, peak, time_per_run};

/// The first layer of a CTR-DNN with embeddings of 16 numbers.
const WIDE_INPUT: [usize; 2] = [429, 512];

/// Which product of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// `y = x w`
    Forward,
    /// `dw = xᵀ dy`
    Weight,
    /// `dx = dy wᵀ`
    Input,
}

/// A product by its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    role: Role,
    m: usize,
    n: usize,
    k: usize,
}

/// What a product runs at, in floating-point operations a second.
#[derive(Debug)]
pub(crate) struct Speeds {
    pub(crate) ours: f64,
    pub(crate) library: f64,
    pub(crate) peak: f64,
    /// Each kernel that this processor has.
    pub(crate) kernels: Vec<(&'static str, f64)>,
}

impl Shape {
    /// Those of the models that `bench engine` trains: whole batches, and the share of one of many threads.
    pub(crate) fn all() -> Vec<Shape> {
        let models: [(&[usize], usize); 4] = [
            (&CTR_DNN_WIDTHS, 2048),
            (&CTR_DNN_WIDTHS, 128),
            (&WIDE_INPUT, 2048),
            (&MNIST_WIDTHS, 64),
        ];
        let layers = models.into_iter().flat_map(|(widths, rows)| {
            widths.windows(2).map(move |layer| (rows, layer[0], layer[1]))
        });
        let roles = layers.flat_map(|(rows, inputs, outputs)| {
            [
                Shape { role: Role::Forward, m: rows, n: outputs, k: inputs },
                Shape { role: Role::Weight, m: inputs, n: outputs, k: rows },
                Shape { role: Role::Input, m: rows, n: inputs, k: outputs },
            ]
        });
        roles.collect()
    }

    /// `product_`, the role, and rows, columns and terms.
    pub(crate) fn name(self) -> String {
        let role = match self.role {
            Role::Forward => "forward",
            Role::Weight => "weight",
            Role::Input => "input",
        };
        format!("product_{role}_{}x{}x{}", self.m, self.n, self.k)
    }

    /// Measures for about `seconds`, on one thread.
    pub(crate) fn measure(self, seconds: f64) -> Result<Speeds> {
        let Shape { role, m, n, k } = self;
        let orders = match role {
            Role::Forward => [Order::Plain, Order::Plain],
            Role::Weight => [Order::Transposed, Order::Plain],
            Role::Input => [Order::Plain, Order::Transposed],
        };
        // Ordinary numbers: zeros or denormals would change the speed.
        let fill = |count: usize| -> Vec<f32> {
            (0..count).map(|i| ((i % 17) as f32 - 8.0) * 0.01).collect()
        };
        let (lhs, rhs, mut out) = (fill(m * k), fill(k * n), fill(m * n));
        let here: Vec<&Kernel> = kernels().iter().copied().filter(|one| one.is_here()).collect();
        let mut multiply = |with: &dyn Fn(Product<'_, f32>), time: Duration| {
            let run = || {
                with(Product::new([m, n, k], &mut out, (&lhs, orders[0]), (&rhs, orders[1])));
                Ok(())
            };
            time_per_run(time, run)
        };
        let contenders = here.len() + 3;
        let round = Duration::from_secs_f64(seconds / f64::from(ROUNDS) / contenders as f64);
        let mut best = vec![f64::INFINITY; contenders - 1];
        let mut peak = 0.0f64;
        for _ in 0..ROUNDS {
            let (two, each) = best.split_at_mut(2);
            two[0] = two[0].min(multiply(&f32::multiply, round)?);
            two[1] = two[1].min(multiply(&multiply_by_library, round)?);
            for (best, kernel) in each.iter_mut().zip(&here) {
                *best = best.min(multiply(&|product| kernel.multiply(product), round)?);
            }
            peak = peak.max(peak::flops_per_second(1, round));
        }
        let operations = 2.0 * (m * n * k) as f64;
        let speeds: Vec<f64> = best.iter().map(|seconds| operations / seconds).collect();
        let names = here.iter().map(|kernel| kernel.name());
        let kernels = names.zip(speeds[2..].iter().copied()).collect();
        Ok(Speeds { ours: speeds[0], library: speeds[1], peak, kernels })
    }
}
