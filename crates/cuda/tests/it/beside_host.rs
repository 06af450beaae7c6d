//! Single ops on the card beside the host: what the card makes of an op is what the host makes of it, and the same
//! bits whatever the order of its blocks. Where there is no card, only the host runs.

use std::collections::HashMap;

use bireme_emulator::Control;
use bireme_engine::device::{DeviceCall, DeviceMeta, DeviceTensor, Operand, run_once_on};
use bireme_engine::op::{Infer, OpView, run_once};
use bireme_engine::tensor::{Dims, Tensor};
use bireme_engine::{Result, Value};
use bireme_ir::{DType, EMPTY_VAR, Op, grad_name};

use crate::card::{device, is_real};
use crate::compare::{Tolerance, difference};
use crate::draws::{as_type, reals};

/// Variables by name.
pub(crate) type Values = HashMap<String, Value>;

/// What the order of blocks is drawn from.
const SEEDS: [u64; 3] = [0, 1, 77];

/// How far results may be apart: sums differ by their order, functions in the last digit.
fn tolerance(dtype: DType) -> Tolerance {
    match dtype {
        DType::F64 => within(1e-9),
        DType::BF16 | DType::F16 => within(1.6e-2),
        _ => Tolerance { rtol: 5e-5, atol: 2e-5 },
    }
}

/// So much of the size of numbers, and of 1 where they are smaller.
fn within(size: f64) -> Tolerance {
    Tolerance { rtol: size, atol: size }
}

/// A variable.
pub(crate) fn input(name: &str, tensor: Tensor) -> (String, Value) {
    (name.to_owned(), tensor.into())
}

/// Variables from names and tensors.
pub(crate) fn named(values: &[(&str, Tensor)]) -> Values {
    values.iter().map(|(name, tensor)| input(name, tensor.clone())).collect()
}

/// Variables from names and values.
pub(crate) fn values<const N: usize>(named: [(&str, Value); N]) -> Values {
    named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Runs an op on both, which must agree; returns the variables as the host leaves them.
pub(crate) fn check(op: &Op, given: &Values) -> Values {
    compared(op, given, given, tolerance).0
}

/// As [`check`], where results may be apart by so much of their size.
pub(crate) fn check_within(op: &Op, given: &Values, size: f64) -> Values {
    compared(op, given, given, |_| within(size)).0
}

/// As [`check`]; returns the variables as the card leaves them, or the host where there is no card.
pub(crate) fn checked_on_card(op: &Op, given: &Values) -> Values {
    compared(op, given, given, tolerance).1
}

/// As [`check`], where the host computes with 32 bits what the card computes with 16.
pub(crate) fn check_wide(op: &Op, given: &Values) -> Values {
    let wide = |(name, value): (&String, &Value)| (name.clone(), widened(value));
    let has_halves = given.values().any(is_half);
    let tolerance = |dtype| if has_halves { within(2e-2) } else { tolerance(dtype) };
    compared(op, given, &given.iter().map(wide).collect(), tolerance).0
}

/// Whether the card makes in 16-bit floats what the host makes of the same numbers in single precision.
pub(crate) fn check_halves(op: &Op, given: &Values) {
    for dtype in [DType::BF16, DType::F16] {
        let narrow = |(name, value): (&String, &Value)| {
            (name.clone(), as_type(value.tensor().unwrap(), dtype).into())
        };
        check_wide(op, &given.iter().map(narrow).collect());
    }
}

fn is_half(value: &Value) -> bool {
    matches!(value.dtype(), DType::BF16 | DType::F16)
}

fn widened(value: &Value) -> Value {
    match value {
        Value::Tensor(tensor) if is_half(value) => as_type(tensor, DType::F32).into(),
        other => other.clone(),
    }
}

/// What the host makes of `given_host` and the card of `given`, compared.
fn compared(
    op: &Op,
    given: &Values,
    given_host: &Values,
    tolerance: impl Fn(DType) -> Tolerance,
) -> (Values, Values) {
    let mut host = given_host.clone();
    run_once(op, &mut host).unwrap_or_else(|error| panic!("host: {op:?}: {error}"));
    let mut bits: Option<Values> = None;
    for seed in SEEDS {
        let Some(card) = on_card(op, given, seed) else { return (host.clone(), host) };
        let card = card.unwrap_or_else(|error| panic!("card: {op:?}: {error}"));
        for name in written(op) {
            match &bits {
                Some(first) => {
                    let same = bytes(&first[name]) == bytes(&card[name]);
                    assert!(same, "{op:?}: `{name}` depends on the order of blocks");
                }
                None => {
                    let within = tolerance(card[name].dtype());
                    let got = if is_half(&host[name]) {
                        card[name].clone()
                    } else {
                        widened(&card[name])
                    };
                    let what = apart(&host[name], &got, within);
                    let shapes: Vec<_> = op.input_vars().map(|name| shape(&given[name])).collect();
                    assert_eq!(what, None, "{op:?} on {shapes:?}: `{name}`");
                }
            }
        }
        bits.get_or_insert(card);
    }
    (host, bits.unwrap_or_default())
}

/// How results differ; selected rows also by the order of their rows.
fn apart(expected: &Value, got: &Value, within: Tolerance) -> Option<String> {
    if let (Some(expected), Some(got)) = (expected.rows(), got.rows())
        && expected.rows != got.rows
    {
        return Some(format!("expected rows {:?}, got {:?}", expected.rows, got.rows));
    }
    difference(expected, got, within)
}

fn shape(value: &Value) -> String {
    value.tensor().map_or_else(|_| "rows".to_owned(), |tensor| tensor.dims().to_string())
}

fn bytes(value: &Value) -> (Vec<i64>, Vec<u8>) {
    match value {
        Value::Tensor(tensor) => (Vec::new(), tensor.as_bytes().to_vec()),
        Value::Rows(rows) => (rows.rows.clone(), rows.value.as_bytes().to_vec()),
    }
}

pub(crate) fn written(op: &Op) -> impl Iterator<Item = &String> {
    op.output_vars().filter(|name| *name != EMPTY_VAR)
}

/// What the card makes of `given`, with its blocks in an order drawn from `seed`; none where there is no card.
///
/// # Panics
/// When the card leaves the op to the host.
pub(crate) fn on_card(op: &Op, given: &Values, seed: u64) -> Option<Result<Values>> {
    let (_machine, device) = device()?;
    if let (false, Some(Ok(machine))) = (is_real(), Control::open()) {
        machine.seed(seed);
    }
    let mut made = given.clone();
    Some(run_once_on(&device, op, &mut made).map(|ran| {
        assert!(ran, "the card declines {op:?}");
        made
    }))
}

/// Draws gradients of the results of an op that has run.
pub(crate) fn draw_targets(op: &Op, values: &mut Values) {
    for name in written(op) {
        let tensor = values[name].tensor().unwrap();
        if tensor.dtype().is_float() {
            let drawn = as_type(&reals(&tensor.dims()), tensor.dtype());
            values.insert(grad_name(name), drawn.into());
        }
    }
}

/// The gradient ops of an op whose targets are drawn, of those of its inputs that are `wanted`.
pub(crate) fn gradient_ops(op: &Op, values: &Values, wanted: impl Fn(&str) -> bool) -> Vec<Op> {
    let view = OpView::new(op).unwrap();
    let mut grads = view.def.grad.ops(&view).unwrap();
    for grad in &mut grads {
        grad.outputs.retain(|_, vars| vars.iter().any(|var| wanted(&var.replace("@GRAD", ""))));
        grad.inputs.retain(|_, vars| vars.iter().all(|var| values.contains_key(var)));
    }
    grads
}

/// Runs an op and its gradient on both. `values` gets what the host computes.
pub(crate) fn check_gradient(op: &Op, values: &mut Values, wanted: &[&str]) {
    *values = check(op, values);
    draw_targets(op, values);
    for grad in gradient_ops(op, values, |name| wanted.contains(&name)) {
        *values = check(&grad, values);
    }
}

/// That host and card both refuse an op, the card in words that contain `text`.
pub(crate) fn refused(op: &Op, given: &Values, text: &str) {
    assert!(run_once(op, &mut given.clone()).is_err(), "the host runs {op:?}");
    let Some(made) = on_card(op, given, 0) else { return };
    let error = made.unwrap_err().to_string();
    assert!(error.contains(text), "{error}");
}

/// That an op is left to the host.
pub(crate) fn declined(op: &Op, given: &Values) {
    let Some((_machine, device)) = device() else { return };
    assert!(!run_once_on(&device, op, &mut given.clone()).unwrap(), "the card runs {op:?}");
}

/// What an op without inputs writes on the card in step `step`.
pub(crate) fn at_step(op: &Op, step: i64) -> Option<Vec<f32>> {
    let ((_machine, device), view) = (device()?, OpView::new(op).unwrap());
    let metas = Infer::run(&view, &[]).unwrap().into_iter();
    let mut metas: Vec<_> = metas.map(DeviceMeta::new).collect();
    let kernel = device.kernel(&view, &[], &mut metas).unwrap().unwrap();
    let dims: Vec<usize> = metas[0].meta.dims.iter().map(|dim| *dim as usize).collect();
    let out = DeviceTensor::new(device.as_ref(), DType::F32, Dims::new(&dims)).unwrap();
    let step = DeviceTensor::upload(device.as_ref(), &Tensor::scalar(step)).unwrap();
    let scratch = device.allocate(kernel.scratch()).unwrap();
    let complaints = device.complaints().unwrap();
    let call = DeviceCall {
        inputs: &[],
        outputs: &[Operand::Dense(out.address())],
        scratch: scratch.address(),
        step: step.address(),
        op: 0,
        complaints: complaints.address(),
    };
    kernel.launch(&call).unwrap();
    Some(out.download().unwrap().as_slice::<f32>().unwrap().to_vec())
}

pub(crate) fn unary(kind: &str) -> Op {
    Op::new(kind).input("X", ["x"]).output("Out", ["out"])
}

pub(crate) fn unary_grad(kind: &str, reads: &str) -> Op {
    let op = Op::new(format!("{kind}_grad")).input(reads, ["x"]).input("Out@GRAD", ["d"]);
    op.output("X@GRAD", ["dx"])
}

pub(crate) fn binary(kind: &str) -> Op {
    Op::new(kind).input("X", ["x"]).input("Y", ["y"]).output("Out", ["out"])
}

pub(crate) fn binary_grad(kind: &str) -> Op {
    let op = Op::new(format!("{kind}_grad")).input("X", ["x"]).input("Y", ["y"]);
    op.input("Out@GRAD", ["d"]).output("X@GRAD", ["dx"]).output("Y@GRAD", ["dy"])
}
