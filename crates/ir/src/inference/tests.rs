//! Inference programs as Paddle saves them.

use expect_test::expect;

use super::*;

fn net() -> Program {
    Program::parse(
        "{ // block 0
            var x : LOD_TENSOR.shape(-1, 4).stop_gradient(True).need_check_feed(True)
            var y : LOD_TENSOR.shape(-1, 1).stop_gradient(True).need_check_feed(True)
            persist trainable param w : LOD_TENSOR.shape(4, 1)
            var pred : LOD_TENSOR.shape(-1, 1)
            var sum : LOD_TENSOR.shape(-1, 1)
            {Out=['pred']} = mul(inputs={X=['x'], Y=['w']})
            {Out=['sum']} = elementwise_add(inputs={X=['pred'], Y=['y']})
        }",
    )
    .unwrap()
}

#[test]
fn adds_feeds_scales_and_fetches() {
    let saved = net().inference_program(&["x", "y"], &["pred", "sum"], FetchStyle::Scaled).unwrap();
    expect![[r#"
        { // block 0
            var x : LOD_TENSOR.shape(-1, 4).dtype(float32).stop_gradient(True).need_check_feed(True)
            var y : LOD_TENSOR.shape(-1, 1).dtype(float32).stop_gradient(True).need_check_feed(True)
            persist trainable param w : LOD_TENSOR.shape(4, 1).dtype(float32).stop_gradient(False)
            var pred : LOD_TENSOR.shape(-1, 1).dtype(float32).stop_gradient(False)
            var sum : LOD_TENSOR.shape(-1, 1).dtype(float32).stop_gradient(False)
            var save_infer_model/scale_0.tmp_0 : LOD_TENSOR.shape(-1, 1).dtype(float32).stop_gradient(False)
            var save_infer_model/scale_1.tmp_0 : LOD_TENSOR.shape(-1, 1).dtype(float32).stop_gradient(False)
            persist var feed : FEED_MINIBATCH
            persist var fetch : FETCH_LIST

            {Out=['y']} = feed(inputs={X=['feed']}, col = 1)
            {Out=['x']} = feed(inputs={X=['feed']}, col = 0)
            {Out=['pred']} = mul(inputs={X=['x'], Y=['w']})
            {Out=['sum']} = elementwise_add(inputs={X=['pred'], Y=['y']})
            {Out=['save_infer_model/scale_0.tmp_0']} = scale(inputs={X=['pred']}, bias = 0.0, bias_after_scale = True, scale = 1.0)
            {Out=['save_infer_model/scale_1.tmp_0']} = scale(inputs={X=['sum']}, bias = 0.0, bias_after_scale = True, scale = 1.0)
            {Out=['fetch']} = fetch(inputs={X=['save_infer_model/scale_0.tmp_0']}, col = 0)
            {Out=['fetch']} = fetch(inputs={X=['save_infer_model/scale_1.tmp_0']}, col = 1)
        }
    "#]]
    .assert_eq(&saved.to_string());
    assert_eq!(saved.feed_names(), ["x", "y"]);
    assert_eq!(
        saved.fetch_names(),
        ["save_infer_model/scale_0.tmp_0", "save_infer_model/scale_1.tmp_0"]
    );
}

#[test]
fn plain_style_fetches_the_targets_themselves() {
    let saved = net().inference_program(&["x"], &["pred"], FetchStyle::Plain).unwrap();
    assert_eq!(saved.fetch_names(), ["pred"]);
    assert!(saved.global().var("y").is_none());
    // Saving what was saved gives the same again.
    let again = saved.inference_program(&["x"], &["pred"], FetchStyle::Plain).unwrap();
    assert_eq!(again, saved);
}

#[test]
fn a_second_scale_takes_a_free_name() {
    let saved = net().inference_program(&["x"], &["pred"], FetchStyle::Scaled).unwrap();
    let targets = saved.fetch_names();
    let again = saved.inference_program(&["x"], &[&targets[0]], FetchStyle::Scaled).unwrap();
    assert_eq!(again.fetch_names(), ["save_infer_model/scale_0.tmp_1"]);
}

#[test]
fn a_needed_variable_that_is_not_fed_is_an_error() {
    let error = net().inference_program(&["x"], &["sum"], FetchStyle::Plain).unwrap_err();
    assert_eq!(
        error.to_string(),
        "variable `y` is needed by op `elementwise_add` to compute the targets: add it to the feeds"
    );
}
