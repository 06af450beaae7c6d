//! The matrix products of a training step, alone: the time below which no step can go.

use std::sync::Barrier;
use std::time::Duration;

use bireme_engine::gemm::{Order, gemm};

use super::{Model, time_per_run};
use crate::bench::workload::{CTR_DNN_WIDTHS, MNIST_WIDTHS};

/// The products of one step, split over threads as the step's batch is.
pub(super) struct Floor {
    parts: Vec<Vec<Layer>>,
}

/// Operands and results of one fully connected layer.
struct Layer {
    rows: usize,
    inputs: usize,
    outputs: usize,
    x: Vec<f32>,
    w: Vec<f32>,
    y: Vec<f32>,
    dx: Option<Vec<f32>>,
    dw: Vec<f32>,
}

/// Widths of a model's layers, and whether the gradient of the first one's input is wanted: embeddings need it, images
/// do not.
fn layers_of(model: Model) -> (&'static [usize], bool) {
    match model {
        Model::CtrDnn => (&CTR_DNN_WIDTHS, true),
        Model::MnistMlp => (&MNIST_WIDTHS, false),
    }
}

impl Floor {
    /// Floating-point operations of the products of one step.
    pub(super) fn operations(model: Model, batch: usize) -> f64 {
        let (widths, first_needs_dx) = layers_of(model);
        let layers = widths.windows(2).enumerate().map(|(i, layer)| {
            let products = if i > 0 || first_needs_dx { 3 } else { 2 };
            2 * products * batch * layer[0] * layer[1]
        });
        layers.sum::<usize>() as f64
    }

    pub(super) fn new(model: Model, batch: usize, threads: usize) -> Floor {
        let (widths, first_needs_dx) = layers_of(model);
        let rows = batch / threads;
        let part = || {
            let layers = widths.windows(2).enumerate();
            layers.map(|(i, w)| Layer::new(rows, w[0], w[1], i > 0 || first_needs_dx)).collect()
        };
        Floor { parts: (0..threads).map(|_| part()).collect() }
    }

    /// Repeats the products for about `time`; returns the seconds that one step's took.
    pub(super) fn run_for(&mut self, time: Duration) -> f64 {
        if let [only] = &mut self.parts[..] {
            return seconds_per_step(only, time);
        }
        // All parts run at once, as the workers of a step do, so they share the machine's memory
        // bandwidth and clock in the same way.
        let barrier = Barrier::new(self.parts.len());
        let part = |layers: &mut [Layer]| {
            barrier.wait();
            seconds_per_step(layers, time)
        };
        std::thread::scope(|scope| {
            let spawn = |layers| scope.spawn(|| part(layers));
            let running: Vec<_> = self.parts.iter_mut().map(Vec::as_mut_slice).map(spawn).collect();
            let seconds = running.into_iter().map(|thread| thread.join());
            seconds.map(|s| s.expect("products do not panic")).fold(0.0, f64::max)
        })
    }
}

fn seconds_per_step(layers: &mut [Layer], time: Duration) -> f64 {
    let step = || {
        layers.iter_mut().for_each(Layer::forward);
        layers.iter_mut().rev().for_each(Layer::backward);
        Ok(())
    };
    time_per_run(time, step).expect("products do not fail")
}

impl Layer {
    fn new(rows: usize, inputs: usize, outputs: usize, dx: bool) -> Layer {
        // Ordinary numbers: zeros or denormals would change the speed.
        let fill = |count: usize| (0..count).map(|i| ((i % 17) as f32 - 8.0) * 0.01).collect();
        Layer {
            rows,
            inputs,
            outputs,
            x: fill(rows * inputs),
            w: fill(inputs * outputs),
            y: fill(rows * outputs),
            dx: dx.then(|| fill(rows * inputs)),
            dw: fill(inputs * outputs),
        }
    }

    /// `y = x w`.
    fn forward(&mut self) {
        let (m, n, k) = (self.rows, self.outputs, self.inputs);
        gemm(m, n, k, &mut self.y, &self.x, Order::Plain, &self.w, Order::Plain);
    }

    /// `dw = xᵀ dy` and `dx = dy wᵀ`, with `y` in the place of `dy`.
    fn backward(&mut self) {
        let (rows, inputs, outputs) = (self.rows, self.inputs, self.outputs);
        let (x, y) = (Order::Transposed, Order::Plain);
        gemm(inputs, outputs, rows, &mut self.dw, &self.x, x, &self.y, y);
        if let Some(dx) = &mut self.dx {
            gemm(rows, inputs, outputs, dx, &self.y, Order::Plain, &self.w, Order::Transposed);
        }
    }
}
