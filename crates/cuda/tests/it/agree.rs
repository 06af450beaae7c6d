//! Ops on the card give what they give on the host. Where there is no card, only the host runs.

use std::collections::HashMap;

use bireme_emulator::Control;
use bireme_engine::Value;
use bireme_engine::device::{DeviceCall, DeviceMeta, DeviceTensor, Operand, run_once_on};
use bireme_engine::op::{Infer, OpView, run_once};
use bireme_engine::random::Philox;
use bireme_engine::tensor::{Dims, Tensor};
use bireme_ir::{DType, EMPTY_VAR, Op, grad_name};

use crate::card::device;

/// Variables by name.
pub(crate) type Values = HashMap<String, Value>;

/// A variable.
pub(crate) fn input(name: &str, tensor: Tensor) -> (String, Value) {
    (name.to_owned(), tensor.into())
}

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

/// Runs an op on the host and on the card, which must give the same, and the same bits in whatever order
/// its blocks run; returns both.
///
/// # Panics
/// When they differ, or the card declines the op.
pub(crate) fn agree(op: &Op, values: &Values) -> (Values, Values) {
    let mut host = values.clone();
    run_once(op, &mut host).unwrap_or_else(|error| panic!("host: {op:?}: {error}"));
    let Some(card) = on_card(op, values) else { return (host.clone(), host) };
    for name in written(op) {
        let (expected, got) = (host[&name].tensor().unwrap(), card[&name].tensor().unwrap());
        assert_eq!(
            (expected.dtype(), expected.dims()),
            (got.dtype(), got.dims()),
            "{op:?}: `{name}`"
        );
        compare(&format!("{op:?}: `{name}`"), expected, got);
    }
    for seed in [1, 77] {
        if let Some(Ok(machine)) = Control::open() {
            machine.seed(seed);
        }
        let Some(again) = on_card(op, values) else { continue };
        for name in written(op) {
            let same = again[&name].tensor().unwrap().as_bytes()
                == card[&name].tensor().unwrap().as_bytes();
            assert!(same, "{op:?}: `{name}` depends on the order of blocks");
        }
    }
    (host, card)
}

fn written(op: &Op) -> Vec<String> {
    let view = OpView::new(op).unwrap();
    view.flat_outputs().filter(|name| *name != EMPTY_VAR).cloned().collect()
}

fn on_card(op: &Op, values: &Values) -> Option<Values> {
    let ((_machine, device), mut values) = (device()?, values.clone());
    match run_once_on(&device, op, &mut values) {
        Ok(true) => Some(values),
        Ok(false) => panic!("the card declines {op:?}"),
        Err(error) => panic!("card: {op:?}: {error}"),
    }
}

fn compare(what: &str, expected: &Tensor, got: &Tensor) {
    if !expected.dtype().is_float() {
        assert!(expected.as_bytes() == got.as_bytes(), "{what} differs");
        return;
    }
    // Of 16-bit floats, a unit in the last place.
    let relative = if expected.dtype().size() == 2 { 1e-2 } else { 1e-5 };
    for (i, (expected, got)) in expected.to_f64_vec().iter().zip(got.to_f64_vec()).enumerate() {
        let close = *expected == got
            || (expected.is_nan() && got.is_nan())
            || (expected - got).abs() <= 1e-5 + relative * expected.abs();
        assert!(close, "{what}[{i}]: expected {expected}, got {got}");
    }
}

/// Runs an op and its gradient on both; gradients of the results are drawn, those of `wanted` compared.
/// `values` gets what the host computes.
pub(crate) fn gradient(op: &Op, values: &mut Values, wanted: &[&str]) {
    *values = agree(op, values).0;
    let view = OpView::new(op).unwrap();
    for name in view.flat_outputs() {
        let tensor = values[name].tensor().unwrap();
        if tensor.dtype().is_float() {
            let mut dout = reals(&tensor.dims());
            if tensor.dtype() == DType::F64 {
                dout = raw(DType::F64, &tensor.dims());
            }
            values.insert(grad_name(name), dout.into());
        }
    }
    let wanted: Vec<String> = wanted.iter().map(|name| grad_name(name)).collect();
    for mut grad in view.def.grad.ops(&view).unwrap() {
        grad.outputs.retain(|_, vars| vars.iter().any(|var| wanted.contains(var)));
        *values = agree(&grad, values).0;
    }
}

/// That host and card both refuse an op, the card in words that contain `text`.
pub(crate) fn refused(op: &Op, values: &Values, text: &str) {
    assert!(run_once(op, &mut values.clone()).is_err(), "the host runs {op:?}");
    let Some((_machine, device)) = device() else { return };
    let error = run_once_on(&device, op, &mut values.clone()).unwrap_err().to_string();
    assert!(error.contains(text), "{error}");
}

/// That an op is left to the host.
pub(crate) fn declined(op: &Op, values: &Values) {
    let Some((_machine, device)) = device() else { return };
    assert!(!run_once_on(&device, op, &mut values.clone()).unwrap(), "the card runs {op:?}");
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
