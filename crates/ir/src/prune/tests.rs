//! Programs before and after cutting.

use expect_test::expect;

use super::*;

/// Two branches from `x`: `pred` with its loss and training, and `other`.
const NET: &str = "{ // block 0
    var x : LOD_TENSOR.shape(-1, 4).stop_gradient(True)
    var y : LOD_TENSOR.shape(-1, 1).stop_gradient(True)
    persist trainable param w : LOD_TENSOR.shape(4, 1)
    persist var lr : LOD_TENSOR.shape(1)
    var h : LOD_TENSOR.shape(-1, 4)
    var mask : LOD_TENSOR.shape(-1, 4)
    var pred : LOD_TENSOR.shape(-1, 1)
    var loss : LOD_TENSOR.shape(1)
    var other : LOD_TENSOR.shape(-1, 4)
    var w@GRAD : LOD_TENSOR.shape(4, 1)
    {Out=['h'], Mask=['mask'], ReserveSpace=['mask']} = dropout(inputs={X=['x']}, is_test = False)
    {Out=['other']} = relu(inputs={X=['h']})
    {Out=['pred']} = mul(inputs={X=['h'], Y=['w']})
    {Out=['loss']} = square_error_cost(inputs={X=['pred'], Y=['y']}, op_role = 256)
    {W@GRAD=['w@GRAD']} = mul_grad(inputs={X=['h'], Loss=['loss']}, op_role = 1)
    {Out=['lr']} = noam(inputs={}, op_role = 16)
    {ParamOut=['w']} = sgd(inputs={Param=['w'], Grad=['w@GRAD'], LearningRate=['lr']}, op_role = 2)
}";

fn net() -> Program {
    Program::parse(NET).unwrap()
}

#[test]
fn clone_for_test_keeps_the_forward_pass() {
    expect![[r#"
        { // block 0
            var x : LOD_TENSOR.shape(-1, 4).dtype(float32).stop_gradient(True)
            var y : LOD_TENSOR.shape(-1, 1).dtype(float32).stop_gradient(True)
            persist trainable param w : LOD_TENSOR.shape(4, 1).dtype(float32).stop_gradient(False)
            var h : LOD_TENSOR.shape(-1, 4).dtype(float32).stop_gradient(False)
            var mask : LOD_TENSOR.shape(-1, 4).dtype(float32).stop_gradient(False)
            var pred : LOD_TENSOR.shape(-1, 1).dtype(float32).stop_gradient(False)
            var loss : LOD_TENSOR.shape(1).dtype(float32).stop_gradient(False)
            var other : LOD_TENSOR.shape(-1, 4).dtype(float32).stop_gradient(False)

            {Mask=['mask'], Out=['h']} = dropout(inputs={X=['x']}, is_test = True)
            {Out=['other']} = relu(inputs={X=['h']})
            {Out=['pred']} = mul(inputs={X=['h'], Y=['w']})
            {Out=['loss']} = square_error_cost(inputs={X=['pred'], Y=['y']}, op_role = 256)
        }
    "#]]
    .assert_eq(&net().clone_for_test().to_string());
}

#[test]
fn clone_for_test_sets_defaults_that_were_left_out() {
    let program = net().clone_for_test_with(&["relu"]);
    let set: Vec<&str> = program
        .global()
        .ops
        .iter()
        .filter(|op| op.attrs.contains_key(IS_TEST))
        .map(|op| op.kind.as_str())
        .collect();
    assert_eq!(set, ["dropout", "relu"]);
}

#[test]
fn prune_keeps_what_the_target_needs() {
    expect![[r#"
        { // block 0
            var x : LOD_TENSOR.shape(-1, 4).dtype(float32).stop_gradient(True)
            persist trainable param w : LOD_TENSOR.shape(4, 1).dtype(float32).stop_gradient(False)
            var h : LOD_TENSOR.shape(-1, 4).dtype(float32).stop_gradient(False)
            var mask : LOD_TENSOR.shape(-1, 4).dtype(float32).stop_gradient(False)
            var pred : LOD_TENSOR.shape(-1, 1).dtype(float32).stop_gradient(False)

            {Mask=['mask'], Out=['h'], ReserveSpace=['mask']} = dropout(inputs={X=['x']}, is_test = False)
            {Out=['pred']} = mul(inputs={X=['h'], Y=['w']})
        }
    "#]]
    .assert_eq(&net().prune(&["x"], &["pred"]).unwrap().to_string());
}

#[test]
fn prune_stops_at_feeds() {
    let program = net().prune(&["h"], &["pred"]).unwrap();
    assert_eq!(program.global().ops.len(), 1);
    assert!(program.global().var("x").is_none());
}

#[test]
fn prune_keeps_targets_and_persistables() {
    let mut net = net();
    net.global_mut().ops[1].is_target = true;
    let program = net.prune(&[], &["w"]).unwrap();
    let kinds: Vec<&str> = program.global().ops.iter().map(|op| op.kind.as_str()).collect();
    assert!(kinds.contains(&"relu") && kinds.contains(&"sgd"));
    let error = net.prune(&["x"], &["prde"]).unwrap_err().to_string();
    assert_eq!(error, "variable `prde` is a target, but no op computes it; did you mean `pred`?");
    let error = net.prune(&["xx"], &["pred"]).unwrap_err().to_string();
    assert_eq!(error, "variable `xx` is to be fed, but is not declared; did you mean `x`?");
    assert!(net.prune(&["x"], &["y"]).is_err());
}

#[test]
fn sub_blocks_are_followed_and_renumbered() {
    let program = Program::parse(
        "{ // block 0
            var x : LOD_TENSOR
            var inner : LOD_TENSOR
            var a : LOD_TENSOR
            var b : LOD_TENSOR
            {Out=['inner']} = relu(inputs={X=['x']})
            {Out=['a']} = while(inputs={}, sub_block = block[1])
            {Out=['b']} = while(inputs={}, sub_block = block[2])
        }
        { // block 1, parent 0
        }
        { // block 2, parent 0
            {Out=['b']} = while(inputs={X=['inner']}, blocks = blocks[3])
        }
        { // block 3, parent 2, forward 1
        }",
    )
    .unwrap();
    expect![[r#"
        { // block 0
            var x : LOD_TENSOR.shape().dtype(float32).stop_gradient(False)
            var inner : LOD_TENSOR.shape().dtype(float32).stop_gradient(False)
            var b : LOD_TENSOR.shape().dtype(float32).stop_gradient(False)

            {Out=['inner']} = relu(inputs={X=['x']})
            {Out=['b']} = while(inputs={}, sub_block = block[1])
        }
        { // block 1, parent 0
            {Out=['b']} = while(inputs={X=['inner']}, blocks = blocks[2])
        }
        { // block 2, parent 1
        }
    "#]]
    .assert_eq(&program.prune(&["x"], &["b"]).unwrap().to_string());
}
