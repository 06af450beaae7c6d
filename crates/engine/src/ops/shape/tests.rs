//! What golden cases cannot show: ops of older programs, tensors without elements, wrong inputs,
//! and that workers on parts of a batch do together what one does alone.

use crate::Result;
use crate::op::{Meta, SplitView, Spread, meta_of};
use crate::ops::testing::*;

type Values = HashMap<String, Value>;

/// A tensor whose elements count up from 0.
fn counting(dims: &[usize]) -> Value {
    let values: Vec<f32> = (0..dims.iter().product::<usize>()).map(|i| i as f32).collect();
    Tensor::from_slice(dims, &values).unwrap().into()
}

fn run(op: &Op, inputs: &[(&str, Value)]) -> Result<Values> {
    let mut values: Values =
        inputs.iter().map(|(name, v)| ((*name).to_owned(), v.clone())).collect();
    run_once(op, &mut values)?;
    Ok(values)
}

fn on_x(kind: &str) -> Op {
    Op::new(kind).input("X", ["x"]).output("Out", ["out"])
}

#[test]
fn ops_of_older_programs_work_both_ways() {
    let check = |op: Op, from: &[usize], to: &[usize]| {
        let mut values = run(&op, &[("x", counting(from))]).unwrap();
        assert_eq!(&*values["out"].tensor().unwrap().dims(), to, "{}", op.kind);
        values.insert("out@GRAD".into(), values["out"].clone());
        run_gradient(&op, &mut values);
        assert_eq!(values["x@GRAD"], values["x"], "{}", op.kind);
    };
    check(on_x("squeeze").attr("axes", vec![1]), &[2, 1, 3], &[2, 3]);
    check(on_x("unsqueeze").attr("axes", vec![0]), &[2, 3], &[1, 2, 3]);
    check(on_x("flatten").attr("axis", 2), &[2, 3, 4], &[6, 4]);
    let ids = Tensor::from_slice([2, 1], &[1i64, 0]).unwrap();
    let values = run(&on_x("one_hot").attr("depth", 3), &[("x", ids.into())]).unwrap();
    let out = values["out"].tensor().unwrap();
    assert_eq!((&*out.dims(), out.to_f64_vec()), (&[2, 3][..], vec![0., 1., 0., 1., 0., 0.]));
}

/// Ops that work row by row on `x`, as one worker and as two.
fn row_wise() -> Vec<Op> {
    let sliced = |op: Op| op.attr("axes", vec![1]).attr("starts", vec![-2]).attr("ends", vec![9]);
    let input = Op::new("slice").input("Input", ["x"]).output("Out", ["out"]);
    vec![
        Op::new("concat").input("X", ["x", "x"]).output("Out", ["out"]).attr("axis", -1),
        Op::new("stack").input("X", ["x", "x"]).output("Y", ["out"]).attr("axis", 1),
        Op::new("split")
            .input("X", ["x"])
            .output("Out", ["out", "b"])
            .attr("axis", 1)
            .attr("num", 2),
        on_x("reshape2").output("XShape", ["s"]).attr("shape", vec![-1, 2, 2]),
        on_x("reshape2").output("XShape", ["s"]).attr("shape", vec![8, 3]),
        on_x("unsqueeze2").output("XShape", ["s"]).attr("axes", vec![1]),
        on_x("flatten_contiguous_range").attr("start_axis", 0).attr("stop_axis", 1),
        on_x("transpose2").output("XShape", ["s"]).attr("axis", vec![0, 2, 1]),
        on_x("tile").attr("repeat_times", vec![2, 1]),
        on_x("expand_v2").attr("shape", vec![-1, 3, 2]),
        on_x("flip").attr("axis", vec![1]),
        on_x("cast").attr("in_dtype", DType::F32.code()).attr("out_dtype", DType::I32.code()),
        on_x("top_k_v2").output("Indices", ["i"]).attr("k", 1).attr("axis", 1),
        on_x("arg_max").attr("axis", 1i64),
        sliced(input),
        Op::new("fill_constant_batch_size_like")
            .input("Input", ["x"])
            .output("Out", ["out"])
            .attr("shape", vec![-1, 2])
            .attr("value", 3.0f32),
    ]
}

fn spreads(op: &Op, inputs: &[Meta], outputs: &[Meta], batch: usize) -> Option<Vec<Spread>> {
    let view = OpView::new(op).unwrap();
    let rows = vec![Spread::Rows; inputs.len()];
    view.def.split.apply(&SplitView {
        op: &view,
        spreads: &rows,
        inputs,
        outputs,
        batch,
        shares: 2,
    })
}

#[test]
fn two_workers_do_what_one_does() {
    let batch = 4;
    for op in row_wise() {
        let fixed = op.attrs.get("shape") == Some(&vec![8, 3].into());
        let inner = match op.kind.as_str() {
            "tile" | "flatten_contiguous_range" | "transpose2" => &[3, 2][..],
            "expand_v2" => &[1, 2],
            _ if fixed => &[6],
            _ => &[4],
        };
        let x = counting(&[&[batch], inner].concat());
        let whole = run(&op, &[("x", x.clone())]).unwrap();
        let view = OpView::new(&op).unwrap();
        let inputs: Vec<_> = view.flat_inputs().map(|name| meta_of(&whole[name])).collect();
        let outputs: Vec<_> = view.flat_outputs().map(|name| meta_of(&whole[name])).collect();
        let found = spreads(&op, &inputs, &outputs, batch);
        assert_eq!(found.as_ref().map(|f| f[0]), Some(Spread::Rows), "{op:?}");
        // A constant shape is for the whole batch: only the plan can run it on a part.
        if fixed {
            continue;
        }
        let bytes = x.tensor().unwrap().as_bytes();
        let mut joined = Vec::new();
        for part in bytes.chunks(bytes.len() / 2) {
            let mut half = Tensor::zeros(DType::F32, [&[batch / 2], inner].concat());
            half.as_mut_bytes().copy_from_slice(part);
            let values = run(&op, &[("x", half.into())]).unwrap();
            joined.extend_from_slice(values["out"].tensor().unwrap().as_bytes());
        }
        assert_eq!(joined, whole["out"].tensor().unwrap().as_bytes(), "{op:?}");
    }
}

#[test]
fn the_batch_itself_is_not_split() {
    let joined = Op::new("concat").input("X", ["x", "x"]).output("Out", ["out"]).attr("axis", 0);
    let turned = on_x("transpose2").attr("axis", vec![1, 0]);
    let (x, out) = ([Meta::new(DType::F32, [4, 4])], [Meta::new(DType::F32, [8, 4])]);
    assert_eq!(spreads(&joined, &[x[0].clone(), x[0].clone()], &out, 4), None);
    assert_eq!(spreads(&turned, &x, &x, 4), None);
    assert_eq!(spreads(&on_x("flip").attr("axis", vec![0]), &x, &x, 4), None);
    assert_eq!(spreads(&on_x("tile").attr("repeat_times", vec![2, 1]), &x, &out, 4), None);
}

#[test]
fn no_rows_are_no_problem() {
    let empty = || Value::from(Tensor::zeros(DType::F32, [0, 4]));
    let ops = row_wise().into_iter().filter(|op| {
        op.attrs.get("shape") != Some(&vec![8, 3].into())
            && !["expand_v2", "transpose2"].contains(&op.kind.as_str())
    });
    for op in ops {
        let values = run(&op, &[("x", empty())]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(values["out"].tensor().unwrap().numel(), 0, "{op:?}");
    }
    let ids = Value::from(Tensor::zeros(DType::I64, [0]));
    let gather = on_x("gather").input("Index", ["i"]);
    let values = run(&gather, &[("x", empty()), ("i", ids)]).unwrap();
    assert_eq!(&*values["out"].tensor().unwrap().dims(), [0, 4]);
}

#[test]
fn wrong_inputs_are_errors() {
    let ids = |id: i64| Value::from(Tensor::from_slice([1], &[id]).unwrap());
    let gather = on_x("gather").input("Index", ["i"]);
    for id in [-1, 4, i64::MAX, i64::MIN] {
        let message = run(&gather, &[("x", counting(&[4, 2])), ("i", ids(id))]).unwrap_err();
        assert_eq!(
            message.to_string(),
            format!("op `gather` (`out`): index {id} lies outside 0..4")
        );
        let one_hot = on_x("one_hot_v2").attr("depth", 4);
        assert!(run(&one_hot, &[("x", ids(id))]).is_err());
    }
    let refused = [
        on_x("reshape2").attr("shape", vec![3, -1]),
        on_x("transpose2").attr("axis", vec![0, 0]),
        on_x("transpose2").attr("axis", vec![0]),
        on_x("expand_v2").attr("shape", vec![4, 3]),
        on_x("tile").attr("repeat_times", vec![i32::MAX, i32::MAX]),
        on_x("unsqueeze2").attr("axes", vec![0; 8]),
        on_x("top_k_v2").output("Indices", ["i"]).attr("k", 3),
        on_x("arg_max").attr("axis", 2i64),
        on_x("flip").attr("axis", vec![2]),
    ];
    for op in refused {
        assert!(run(&op, &[("x", counting(&[4, 2]))]).is_err(), "{op:?}");
    }
}
