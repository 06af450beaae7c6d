//! Element types and constants on the card.

use bireme_engine::tensor::Tensor;
use bireme_ir::{DType, Op};

use crate::beside_host::*;
use crate::draws::{as_type, numbers};

#[test]
fn every_type_becomes_every_other() {
    let types = [
        DType::F32,
        DType::F64,
        DType::BF16,
        DType::F16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::Bool,
    ];
    let odd = [0f32, 1.7, -1.7, 300.0, f32::NAN, f32::INFINITY, -1e20, 3e9, 0.1];
    let odd = Tensor::from_slice([odd.len()], &odd).unwrap();
    for from in types {
        for to in types {
            for x in [&odd, &numbers(&[130], 16)] {
                // What lies beyond a type is each machine's own.
                let x = if from == DType::F32 {
                    x.clone()
                } else {
                    as_type(&numbers(&[130], 17), from)
                };
                let op = unary("cast").attr("in_dtype", from.code()).attr("out_dtype", to.code());
                check(&op, &named(&[("x", x)]));
            }
        }
    }
}

#[test]
fn constants() {
    for dtype in
        [DType::F32, DType::F64, DType::BF16, DType::F16, DType::I32, DType::I64, DType::Bool]
    {
        let fill = Op::new("fill_constant").output("Out", ["out"]).attr("dtype", dtype.code());
        let fill = fill.attr("shape", vec![7i64, 5]);
        check(&fill.clone().attr("value", 3.0f32), &Values::new());
        check(&fill.clone().attr("str_value", "9007199254740993"), &Values::new());
        let given = named(&[("v", Tensor::from_slice([1], &[2.5f32]).unwrap())]);
        check(&fill.input("ValueTensor", ["v"]), &given);
        let eye = Op::new("eye").output("Out", ["out"]).attr("dtype", dtype.code());
        check(&eye.attr("num_rows", 4i64).attr("num_columns", 6i64), &Values::new());
    }
    let many: Vec<f32> = (0..700).map(|i| i as f32).collect();
    let op = Op::new("assign_value").output("Out", ["out"]).attr("dtype", DType::F32.code());
    check(&op.attr("shape", vec![700i32]).attr("fp32_values", many), &Values::new());
}
