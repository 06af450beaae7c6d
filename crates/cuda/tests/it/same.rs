//! Runs an op on the host and on the emulated card, several times with other orders of its blocks, and
//! compares.

use std::collections::HashMap;
use std::sync::Arc;

use bireme_engine::device::{Device, run_once_on};
use bireme_engine::op::{OpView, run_once};
use bireme_engine::tensor::{SelectedRows, Tensor};
use bireme_engine::{Result, Value};
use bireme_ir::{DType, Op};

use crate::card::{Alone, alone, device};

/// A card to run ops on, and nobody else on it if it is the emulated one.
pub(crate) struct Machine {
    emulated: Option<Alone>,
    device: Arc<dyn Device>,
}

/// The emulated card, or the machine's own where that is asked for; none where there is neither.
pub(crate) fn machine() -> Option<Machine> {
    if let Some(emulated) = alone() {
        let device = bireme_cuda::open(0).unwrap();
        return Some(Machine { emulated: Some(emulated), device });
    }
    let (_, device) = device()?;
    Some(Machine { emulated: None, device })
}

/// Variables by name.
pub(crate) type Values = HashMap<String, Value>;

/// Variables from names and values.
pub(crate) fn values<const N: usize>(named: [(&str, Value); N]) -> Values {
    named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Checks that the card runs `op` and writes what the host writes, within `tolerance` of the size of numbers, and
/// the same bits whatever the order of blocks. Returns what the host wrote.
pub(crate) fn check(machine: &Machine, op: &Op, given: &Values, tolerance: f64) -> Values {
    let mut expected = given.clone();
    run_once(op, &mut expected).unwrap();
    let first = on_card(machine, op, given, 1).unwrap();
    for name in OpView::new(op).unwrap().flat_outputs() {
        let what = format!("`{name}` of `{}`", op.kind);
        compare(&expected[name], &first[name], tolerance, &what);
    }
    for seed in 2..4 {
        let again = on_card(machine, op, given, seed).unwrap();
        for name in OpView::new(op).unwrap().flat_outputs() {
            assert_eq!(bytes(&first[name]), bytes(&again[name]), "`{name}` of `{}`", op.kind);
        }
    }
    expected
}

/// What the card makes of `given`.
pub(crate) fn on_card(machine: &Machine, op: &Op, given: &Values, seed: u64) -> Result<Values> {
    if let Some(emulated) = &machine.emulated {
        emulated.control.seed(seed);
    }
    let mut values = given.clone();
    let has_run = run_once_on(&machine.device, op, &mut values)?;
    assert!(has_run, "the card does not run `{}`", op.kind);
    Ok(values)
}

fn bytes(value: &Value) -> (Vec<i64>, Vec<u8>) {
    match value {
        Value::Tensor(tensor) => (Vec::new(), tensor.as_bytes().to_vec()),
        Value::Rows(rows) => (rows.rows.clone(), rows.value.as_bytes().to_vec()),
    }
}

fn compare(expected: &Value, given: &Value, tolerance: f64, what: &str) {
    let (expected, given) = match (expected, given) {
        (Value::Tensor(expected), Value::Tensor(given)) => (expected, given),
        (Value::Rows(expected), Value::Rows(given)) => {
            assert_eq!((&expected.rows, expected.height), (&given.rows, given.height), "{what}");
            (&expected.value, &given.value)
        }
        _ => panic!("{what} is dense here and selected rows there"),
    };
    assert_eq!((expected.dtype(), expected.dims()), (given.dtype(), given.dims()), "{what}");
    for (at, (x, y)) in numbers(expected).into_iter().zip(numbers(given)).enumerate() {
        let close = (x - y).abs() <= tolerance * x.abs().max(1.0) || (x.is_nan() && y.is_nan());
        assert!(close, "{what}: element {at} is {y}, not {x}");
    }
}

/// The elements as numbers.
pub(crate) fn numbers(tensor: &Tensor) -> Vec<f64> {
    match tensor.dtype() {
        DType::F32 => tensor.as_slice::<f32>().unwrap().iter().map(|x| f64::from(*x)).collect(),
        DType::F64 => tensor.as_slice::<f64>().unwrap().to_vec(),
        DType::I64 => tensor.as_slice::<i64>().unwrap().iter().map(|x| *x as f64).collect(),
        DType::I32 => tensor.as_slice::<i32>().unwrap().iter().map(|x| f64::from(*x)).collect(),
        other => panic!("no numbers of {other}"),
    }
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
        let dims = bireme_engine::tensor::Dims::new(dims);
        match dtype {
            DType::F32 => {
                let drawn: Vec<f32> = drawn.into_iter().map(|x| x as f32).collect();
                Tensor::from_slice(dims, &drawn).unwrap()
            }
            _ => Tensor::from_slice(dims, &drawn).unwrap(),
        }
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
