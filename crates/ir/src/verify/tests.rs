//! One broken program per kind of error, against a catalog of four ops.

use expect_test::{Expect, expect};

use super::*;
use crate::{AttrKind, AttrSpec, DType, VarKind};

struct Few;

const MUL: Signature = Signature {
    inputs: &[Slot::one("X"), Slot::one("Y")],
    outputs: &[Slot::one("Out")],
    attrs: &[AttrSpec { name: "x_num_col_dims", default: AttrDefault::Int(1) }],
};
const RELU: Signature =
    Signature { inputs: &[Slot::one("X")], outputs: &[Slot::one("Out")], attrs: &[] };
const CAST: Signature = Signature {
    inputs: &[Slot::one("X")],
    outputs: &[Slot::one("Out")],
    attrs: &[AttrSpec { name: "out_dtype", default: AttrDefault::Required(AttrKind::Int) }],
};
const WHILE: Signature = Signature {
    inputs: &[Slot::any("X")],
    outputs: &[Slot::any("Out")],
    attrs: &[AttrSpec { name: "sub_block", default: AttrDefault::Required(AttrKind::Block) }],
};

impl Catalog for Few {
    fn signature(&self, kind: &str) -> Option<Signature> {
        Some(match kind {
            "mul" => MUL,
            "relu" => RELU,
            "cast" => CAST,
            "while" => WHILE,
            _ => return None,
        })
    }

    fn kinds(&self) -> Vec<&'static str> {
        vec!["mul", "relu", "cast", "while"]
    }

    fn infer<'v>(&self, op: &Op, find: &dyn Fn(&str) -> Option<&'v Var>) -> Result<Vec<Var>> {
        let shape = |slot: &str| find(&op.inputs_of(slot)[0]).unwrap().shape.clone();
        let out = || op.outputs_of("Out")[0].as_str();
        match op.kind.as_str() {
            "mul" if shape("X")[1] != shape("Y")[0] => Err(Error::BadOp {
                op: op.kind.clone(),
                site: None,
                problem: format!("{:?} does not fit {:?}", shape("X"), shape("Y")),
            }),
            "mul" => Ok(vec![Var::tensor(out(), DType::F32, [shape("X")[0], shape("Y")[1]])]),
            "relu" => Ok(vec![Var::tensor(out(), DType::F32, shape("X"))]),
            _ => Ok(vec![]),
        }
    }
}

fn net() -> Program {
    Program::parse(
        "{ // block 0
            var x : LOD_TENSOR.shape(-1, 4).stop_gradient(True).need_check_feed(True)
            persist trainable param w : LOD_TENSOR.shape(4, 2)
            var y : LOD_TENSOR.shape(-1, 2)
            var z : LOD_TENSOR.shape(-1, 2)
            {Out=['y']} = mul(inputs={X=['x'], Y=['w']})  # at fit.py:7
            {Out=['z']} = relu(inputs={X=['y'], Unused=[]}, op_role = 0, use_mkldnn = False)
        }",
    )
    .unwrap()
}

/// Breaks the program above by `change` and checks what `verify` says.
fn check(change: impl FnOnce(&mut Block), expected: Expect) {
    let mut program = net();
    change(program.global_mut());
    expected.assert_eq(&verify(&program, &Few).unwrap_err().to_string());
}

#[test]
fn a_sound_program_passes() {
    verify(&net(), &Few).unwrap();
}

#[test]
fn unknown_op() {
    check(
        |block| block.ops[0].kind = "mull".into(),
        expect![
            "op `mull` (op 0 of block 0, created at fit.py:7): there is no op of this type; did you mean `mul`?"
        ],
    );
}

#[test]
fn attributes() {
    check(
        |block| drop(block.ops[0].attrs.insert("x_num_col_dim".into(), Attr::Int(1))),
        expect![
            "op `mul` (op 0 of block 0, created at fit.py:7): it has no attribute `x_num_col_dim`; did you mean `x_num_col_dims`?"
        ],
    );
    check(
        |block| drop(block.ops[0].attrs.insert("x_num_col_dims".into(), Attr::Var("x".into()))),
        expect![
            "op `mul` (op 0 of block 0, created at fit.py:7): attribute `x_num_col_dims` must be of type int, but is of type var"
        ],
    );
    check(
        |block| block.ops[1].kind = "cast".into(),
        expect!["op `cast` (op 1 of block 0): attribute `out_dtype` must be given (of type int)"],
    );
    let mut program = net();
    program.global_mut().ops[0].attrs.insert("x_num_col_dims".into(), Attr::Long(1));
    verify(&program, &Few).unwrap();
}

#[test]
fn slots() {
    check(
        |block| drop(block.ops[0].inputs.remove("Y")),
        expect!["op `mul` (op 0 of block 0, created at fit.py:7): input slot `Y` is missing"],
    );
    check(
        |block| drop(block.ops[0].outputs.insert("Out".into(), vec![])),
        expect!["op `mul` (op 0 of block 0, created at fit.py:7): output slot `Out` is missing"],
    );
    check(
        |block| block.ops[0].inputs.get_mut("X").unwrap().push("y".into()),
        expect![
            "op `mul` (op 0 of block 0, created at fit.py:7): slot `X` takes one variable, but holds 2: `x`, `y`"
        ],
    );
    check(
        |block| drop(block.ops[0].inputs.insert("x".into(), vec!["x".into()])),
        expect![
            "op `mul` (op 0 of block 0, created at fit.py:7): it has no slot `x`; did you mean `X` or `Y`?"
        ],
    );
}

#[test]
fn variables() {
    check(
        |block| block.ops[0].rename_output("y", "yy"),
        expect![
            "op `mul` (op 0 of block 0, created at fit.py:7): variable `yy` is not declared; did you mean `y`?"
        ],
    );
    check(
        |block| block.ops.swap(0, 1),
        expect![
            "op `relu` (op 0 of block 0): variable `y` is read here, but first written by op 1"
        ],
    );
    check(
        |block| drop(block.ops.remove(0)),
        expect![
            "op `relu` (op 0 of block 0): variable `y` is read, but nothing writes it, and it is neither fed nor persistable"
        ],
    );
    // Variables of `fluid.layers.data` are fed unchecked.
    let mut program = net();
    program.global_mut().vars["x"].need_check_feed = false;
    verify(&program, &Few).unwrap();
}

#[test]
fn shapes_and_types() {
    check(
        |block| block.vars["w"].shape = vec![5, 2],
        expect!["op `mul` (op 0 of block 0, created at fit.py:7): [-1, 4] does not fit [5, 2]"],
    );
    check(
        |block| block.vars["y"].shape = vec![-1, 3],
        expect![
            "op `mul` (op 0 of block 0, created at fit.py:7): variable `y` is declared as float32 [-1, 3], but the op computes float32 [-1, 2]"
        ],
    );
    check(
        |block| block.vars["z"].dtype = DType::F64,
        expect![
            "op `relu` (op 1 of block 0): variable `z` is declared as float64 [-1, 2], but the op computes float32 [-1, 2]"
        ],
    );
    let mut program = net();
    program.global_mut().vars["y"].shape = vec![32, -1];
    verify(&program, &Few).unwrap();
    program.global_mut().vars["z"].shape = vec![];
    verify(&program, &Few).unwrap();
}

#[test]
fn sub_blocks() {
    let mut program = net();
    let mut op = Op::new("while").input("X", ["x"]);
    op.attrs.insert("sub_block".into(), Attr::Block(1));
    program.global_mut().ops.push(op);
    expect!["op `while` (op 2 of block 0): attribute `sub_block` names block 1, but sub-blocks here are those after the op's own, of 1"]
        .assert_eq(&verify(&program, &Few).unwrap_err().to_string());
    // A loop sees the variables around it, also those that are written later.
    let body = program.append_block(0);
    body.ops.push(Op::new("relu").input("X", ["z"]).output("Out", ["y"]));
    verify(&program, &Few).unwrap();
    program.blocks[1].ops[0].rename_input("z", "zz");
    assert!(matches!(verify(&program, &Few), Err(Error::Undeclared { .. })));
}

#[test]
fn empty_names_and_other_kinds_need_no_value() {
    let mut program = net();
    let global = program.global_mut();
    global.add_var(Var::tensor("scopes", DType::F32, [])).kind = VarKind::StepScopes;
    global.ops.push(Op::new("while").input("X", ["scopes", EMPTY_VAR]).output("Out", [EMPTY_VAR]));
    global.ops[2].attrs.insert("sub_block".into(), Attr::Block(1));
    program.append_block(0);
    verify(&program, &Few).unwrap();
}

#[test]
fn fusions_are_not_silently_dropped() {
    check(
        |block| drop(block.ops[1].attrs.insert("fuse_with_relu".into(), true.into())),
        expect![
            "op `relu` (op 1 of block 0): attribute `fuse_with_relu` is Bool(true), which this build cannot honour: save the model without the fusion or quantisation it asks for"
        ],
    );
    let mut program = net();
    let attrs = &mut program.global_mut().ops[1].attrs;
    attrs.insert("fuse_with_relu".into(), false.into());
    attrs.insert("Scale_x".into(), 1.0f32.into());
    attrs.insert("use_cudnn".into(), true.into());
    verify(&program, &Few).unwrap();
}
