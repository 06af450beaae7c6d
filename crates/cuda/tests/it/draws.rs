//! Inputs of ops that look random and are the same in every run.

use std::collections::HashMap;

use bireme_engine::Value;
use bireme_engine::op::run_once;
use bireme_engine::random::Philox;
use bireme_engine::tensor::{SelectedRows, Tensor};
use bireme_ir::{DType, Op};

/// Real numbers around 0, other ones for each shape.
pub(crate) fn reals(dims: &[usize]) -> Tensor {
    let mut tensor = Tensor::zeros(DType::F32, dims);
    let draw = Philox::new(dims.iter().sum::<usize>() as u64, "reals");
    for (i, x) in (0..).zip(tensor.as_mut_slice::<f32>().unwrap()) {
        *x = draw.normal(i);
    }
    tensor
}

/// Integers from 0 below `bound`, of 64 bits.
pub(crate) fn wholes(dims: &[usize], bound: i64) -> Tensor {
    let mut tensor = Tensor::zeros(DType::I64, dims);
    let draw = Philox::new(bound as u64, "wholes");
    for (i, x) in (0..).zip(tensor.as_mut_slice::<i64>().unwrap()) {
        *x = (draw.u64(i) % bound as u64) as i64;
    }
    tensor
}

/// Elements of any type: numbers around 0, truth values.
pub(crate) fn raw(dtype: DType, dims: &[usize]) -> Tensor {
    let mut tensor = Tensor::zeros(dtype, dims);
    let draw = Philox::new(5, "raw");
    let size = dtype.size();
    for (i, x) in (0..).zip(tensor.as_mut_bytes().chunks_exact_mut(size)) {
        let real = f64::from(draw.normal(i));
        match dtype {
            DType::Bool => x[0] = u8::from(real > 0.0),
            DType::BF16 => x.copy_from_slice(&(real as f32).to_le_bytes()[2..]),
            // From 0.5 to 4.
            DType::F16 => x.copy_from_slice(&(0x3800 + (draw.u64(i) % 0xc00) as u16).to_le_bytes()),
            DType::F32 => x.copy_from_slice(&(real as f32).to_le_bytes()),
            DType::F64 => x.copy_from_slice(&real.to_le_bytes()),
            _ => x.copy_from_slice(&draw.u64(i).to_le_bytes()[..size]),
        }
    }
    tensor
}

/// Numbers between -2 and 2, no two neighbours alike.
pub(crate) fn numbers(dims: &[usize], seed: u64) -> Tensor {
    let mut draws = Draws(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    draws.tensor(DType::F32, dims, -2.0, 2.0)
}

/// The same as elements of another type.
pub(crate) fn as_type(tensor: &Tensor, dtype: DType) -> Tensor {
    let op = Op::new("cast").input("X", ["x"]).output("Out", ["out"]);
    let op = op.attr("in_dtype", tensor.dtype().code()).attr("out_dtype", dtype.code());
    let mut values = HashMap::from([("x".to_owned(), tensor.clone().into())]);
    run_once(&op, &mut values).unwrap();
    values["out"].tensor().unwrap().clone()
}

/// Numbers that look random and are the same in every run.
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    /// In `0..1`.
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A dense tensor of numbers in `low..high`.
    pub(crate) fn tensor(&mut self, dtype: DType, dims: &[usize], low: f64, high: f64) -> Tensor {
        let count = dims.iter().product();
        let drawn: Vec<f64> = (0..count).map(|_| low + (high - low) * self.unit()).collect();
        let drawn = Tensor::from_slice(dims, &drawn).unwrap();
        if dtype == DType::F64 { drawn } else { as_type(&drawn, dtype) }
    }

    /// Whole numbers from 0, below `bound`.
    pub(crate) fn whole(&mut self, dims: &[usize], bound: usize) -> Tensor {
        let count = dims.iter().product();
        let drawn: Vec<i64> = (0..count).map(|_| (self.unit() * bound as f64) as i64).collect();
        Tensor::from_slice(dims, &drawn).unwrap()
    }

    /// Ids below `bound`; small ones occur often, and one in `1 / hot` is always the same.
    pub(crate) fn ids(&mut self, count: usize, bound: usize, hot: f64) -> Vec<i64> {
        let mut id = || {
            let (unit, is_hot) = (self.unit(), self.unit() < hot);
            if is_hot { bound as i64 / 2 } else { (unit.powi(3) * bound as f64) as i64 }
        };
        (0..count).map(|_| id()).collect()
    }

    /// Selected rows with these numbers.
    pub(crate) fn rows(
        &mut self,
        dtype: DType,
        rows: Vec<i64>,
        height: usize,
        width: usize,
    ) -> Value {
        let value = self.tensor(dtype, &[rows.len(), width], -1.0, 1.0);
        Value::Rows(SelectedRows { rows, height, value })
    }
}
