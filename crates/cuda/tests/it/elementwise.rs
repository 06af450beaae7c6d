//! Elementwise ops on the card where golden cases do not reach: several blocks, odd and empty shapes, 16-bit floats,
//! selected rows.

use std::collections::HashMap;

use bireme_engine::Value;
use bireme_engine::device::run_once_on;
use bireme_engine::op::run_once;
use bireme_engine::tensor::{SelectedRows, Tensor};
use bireme_ir::{DType, Op};

use crate::beside_host::*;
use crate::card::device;
use crate::draws::{as_type, numbers};

#[test]
fn functions_of_one_element_of_any_size() {
    for n in [0, 1, 3, 1027] {
        let values = named(&[("x", numbers(&[n], 1)), ("d", numbers(&[n], 2))]);
        for (kind, reads) in [("relu", "Out"), ("gelu", "X"), ("mish", "X"), ("sin", "X")] {
            check(&unary(kind), &values);
            check(&unary_grad(kind, reads), &values);
        }
    }
    check(&unary("tanh"), &named(&[("x", numbers(&[200_001], 3))]));
}

#[test]
fn functions_of_one_element_in_16_bits() {
    let values = named(&[("x", numbers(&[333], 4)), ("d", numbers(&[333], 5))]);
    let functions = [
        ("relu", "Out"),
        ("sigmoid", "Out"),
        ("tanh", "Out"),
        ("gelu", "X"),
        ("swish", "X"),
        ("leaky_relu", "X"),
    ];
    for (kind, reads) in functions {
        check_halves(&unary(kind), &values);
        check_halves(&unary_grad(kind, reads), &values);
    }
    check_halves(&unary("scale").attr("scale", 3.0f32).attr("bias", -0.5f32), &values);
    check_halves(&unary("clip").attr("min", -1.0f32).attr("max", 0.5f32), &values);
}

#[test]
fn an_exponent_may_lie_on_the_card() {
    let x =
        numbers(&[33], 23).as_slice::<f32>().unwrap().iter().map(|x| x.abs()).collect::<Vec<_>>();
    let factor = Tensor::from_slice([1], &[1.5f64]).unwrap();
    let values = named(&[
        ("x", Tensor::from_slice([3, 11], &x).unwrap()),
        ("d", numbers(&[3, 11], 24)),
        ("factor", factor),
    ]);
    check(&unary("pow").input("FactorTensor", ["factor"]), &values);
    check(&unary_grad("pow", "X").input("FactorTensor", ["factor"]), &values);
}

/// Shapes of `X` and `Y`, and `axis`.
const SHAPES: &[(&[usize], &[usize], i32)] = &[
    (&[33, 5], &[5], -1),
    (&[64, 32], &[32], -1),
    (&[64, 32], &[64, 1], -1),
    (&[2, 3, 4], &[3], 1),
    (&[2, 3, 4], &[3, 1], 1),
    (&[7, 1], &[1, 9], -1),
    (&[5], &[2, 3, 5], -1),
    (&[2, 3, 4, 5], &[2, 1, 4, 1], -1),
    (&[1, 3, 1, 5], &[2, 1, 4, 1], -1),
    (&[257], &[], -1),
    (&[0, 3], &[3], -1),
    (&[3, 0], &[3, 1], -1),
];

fn operands(x: &[usize], y: &[usize], axis: i32) -> (Values, Tensor) {
    let (x, y) = (numbers(x, 6), numbers(y, 7));
    let mut values = named(&[("x", x), ("y", y)]);
    run_once(&binary("elementwise_add").attr("axis", axis), &mut values).unwrap();
    let dims = values.remove("out").unwrap().tensor().unwrap().dims();
    (values, numbers(&dims, 8))
}

#[test]
fn shapes_meet() {
    for (x, y, axis) in SHAPES {
        let (mut values, d) = operands(x, y, *axis);
        for kind in ["add", "sub", "mul", "div", "max", "min"] {
            check(&binary(&format!("elementwise_{kind}")).attr("axis", *axis), &values);
        }
        for kind in ["equal", "less_than", "greater_equal", "logical_and"] {
            check(&binary(kind).attr("axis", *axis), &values);
        }
        values.insert("d".to_owned(), d.into());
        for kind in ["add", "sub", "mul", "div", "max", "min"] {
            let op = binary_grad(&format!("elementwise_{kind}")).attr("axis", *axis);
            check(&op, &values);
            let mut only_y = op.clone();
            only_y.outputs.remove("X@GRAD");
            check(&only_y, &values);
        }
    }
}

#[test]
fn shapes_meet_in_16_bits() {
    for (x, y, axis) in &SHAPES[..4] {
        let (mut values, d) = operands(x, y, *axis);
        for kind in ["add", "sub", "mul", "max"] {
            check_halves(&binary(&format!("elementwise_{kind}")).attr("axis", *axis), &values);
        }
        values.insert("d".to_owned(), d.into());
        for kind in ["add", "mul", "min"] {
            // Sums of many numbers that cancel need more than 16 bits of the terms give.
            if x.len() > 2 {
                check_halves(
                    &binary_grad(&format!("elementwise_{kind}")).attr("axis", *axis),
                    &values,
                );
            }
        }
    }
}

#[test]
fn gradients_of_a_bias_are_summed_by_many_blocks() {
    let (mut values, d) = operands(&[3001, 20], &[20], -1);
    values.insert("d".to_owned(), d.into());
    for kind in ["add", "sub", "mul", "div"] {
        check(&binary_grad(&format!("elementwise_{kind}")), &values);
    }
}

#[test]
fn whole_numbers_divide_as_on_the_host() {
    let x = Tensor::from_slice([8], &[7i64, -7, 7, -7, i64::MIN, 0, 9, -9]).unwrap();
    let y = Tensor::from_slice([8], &[2i64, 2, -2, -2, -1, 5, 3, 3]).unwrap();
    let values = named(&[("x", x), ("y", y)]);
    for kind in ["add", "sub", "mul", "div", "mod", "floordiv", "max", "min", "pow"] {
        check(&binary(&format!("elementwise_{kind}")), &values);
        let narrow: Values = values
            .iter()
            .map(|(name, value)| {
                (name.clone(), as_type(value.tensor().unwrap(), DType::I32).into())
            })
            .collect();
        check(&binary(&format!("elementwise_{kind}")), &narrow);
    }
    let zero = Tensor::from_slice([1], &[0i64]).unwrap();
    let mut values = named(&[("x", values["x"].tensor().unwrap().clone()), ("y", zero)]);
    let Some((_machine, device)) = device() else { return };
    let op = binary("elementwise_mod");
    let card = run_once_on(&device, &op, &mut values).unwrap_err().to_string();
    assert_eq!(card, run_once(&op, &mut values).unwrap_err().to_string());
}

#[test]
fn many_tensors_are_added_up() {
    for count in [1, 2, 8, 9, 20] {
        let names: Vec<String> = (0..count).map(|i| format!("x{i}")).collect();
        let values =
            names.iter().zip(0..).map(|(name, i)| (name.clone(), numbers(&[1001], i).into()));
        check(&Op::new("sum").input("X", names.clone()).output("Out", ["out"]), &values.collect());
    }
}

#[test]
fn selected_rows_are_scaled() {
    let value = numbers(&[3, 5], 18);
    let rows = Value::Rows(SelectedRows { rows: vec![7, 2, 7], height: 9, value });
    let factor = Tensor::from_slice([1], &[0.25f32]).unwrap();
    let values = HashMap::from([("x".to_owned(), rows), ("y".to_owned(), factor.into())]);
    check(&unary("scale").attr("scale", -3.0f32), &values);
    check(&unary("scale").input("ScaleTensor", ["y"]), &values);
    check(&unary("assign"), &values);
    check(&binary("elementwise_mul"), &values);
}
