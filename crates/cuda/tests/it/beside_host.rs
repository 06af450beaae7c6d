//! Single ops on the card beside the host, on numbers that look random.

use std::collections::HashMap;

use bireme_engine::Value;
use bireme_engine::device::run_once_on;
use bireme_engine::op::run_once;
use bireme_engine::tensor::Tensor;
use bireme_ir::{DType, Op};

use crate::card::device;
use crate::compare::{Tolerance, difference};

/// Sums of thousands of numbers differ by their order.
const TOLERANCE: Tolerance = Tolerance { rtol: 2e-5, atol: 2e-5 };

/// What 16-bit floats keep.
const COARSE: Tolerance = Tolerance { rtol: 1.6e-2, atol: 1.6e-2 };

pub(crate) type Values = HashMap<String, Value>;

/// Numbers between -2 and 2 that look random, no two neighbours alike.
pub(crate) fn numbers(dims: &[usize], seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 22) as f32 - 2.0
    };
    let values: Vec<f32> = (0..dims.iter().product()).map(|_| next()).collect();
    Tensor::from_slice(dims, &values).unwrap()
}

/// The same as elements of another type.
pub(crate) fn as_type(tensor: &Tensor, dtype: DType) -> Tensor {
    let op = Op::new("cast").input("X", ["x"]).output("Out", ["out"]);
    let op = op.attr("in_dtype", tensor.dtype().code()).attr("out_dtype", dtype.code());
    let mut values = HashMap::from([("x".to_owned(), tensor.clone().into())]);
    run_once(&op, &mut values).unwrap();
    values["out"].tensor().unwrap().clone()
}

pub(crate) fn named(values: &[(&str, Tensor)]) -> Values {
    values.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone().into())).collect()
}

/// Runs an op on the card, which must not leave it to the host.
fn on_card(op: &Op, values: &Values) -> Option<Values> {
    let (_machine, device) = device()?;
    let mut on_card = values.clone();
    let ran = run_once_on(&device, op, &mut on_card).unwrap();
    assert!(ran, "the host runs {op:?}");
    Some(on_card)
}

/// Whether card and host make the same of an op.
pub(crate) fn check(op: &Op, values: &Values) {
    let Some(got) = on_card(op, values) else { return };
    let mut expected = values.clone();
    run_once(op, &mut expected).unwrap();
    for name in op.output_vars() {
        let what = difference(&expected[name], &got[name], TOLERANCE);
        let shapes: Vec<_> = op.input_vars().map(|name| shape(&values[name])).collect();
        assert_eq!(what, None, "`{name}` of {op:?} on {shapes:?}");
    }
}

fn shape(value: &Value) -> String {
    value.tensor().map_or_else(|_| "rows".to_owned(), |tensor| tensor.dims().to_string())
}

/// Whether the card makes in 16-bit floats what the host makes of the same numbers in single precision.
pub(crate) fn check_halves(op: &Op, values: &Values) {
    for dtype in [DType::BF16, DType::F16] {
        let convert = |to: DType, value: &Value| as_type(value.tensor().unwrap(), to).into();
        let halves: Values =
            values.iter().map(|(name, value)| (name.clone(), convert(dtype, value))).collect();
        let Some(got) = on_card(op, &halves) else { return };
        let mut expected: Values =
            halves.iter().map(|(name, value)| (name.clone(), convert(DType::F32, value))).collect();
        run_once(op, &mut expected).unwrap();
        for name in op.output_vars() {
            let got = convert(DType::F32, &got[name]);
            assert_eq!(
                difference(&expected[name], &got, COARSE),
                None,
                "`{name}` of {op:?} in {dtype}"
            );
        }
    }
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
