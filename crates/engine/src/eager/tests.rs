//! Eager mode against programs and known gradients.

use std::sync::Arc;

use bireme_ir::{Attr, Param};

use super::*;
use crate::Error;
use crate::optimizer::{Adam, Sgd};
use crate::tensor::Tensor;

fn tensor(dims: &[usize], values: &[f32]) -> EagerTensor {
    EagerTensor::new(Tensor::from_slice(crate::tensor::Dims::new(dims), values).unwrap())
}

fn parameter(name: &str, dims: &[usize], values: &[f32]) -> EagerTensor {
    let parameter = tensor(dims, values);
    parameter.set_name(name);
    parameter.set_param(Param::default());
    parameter
}

fn values(tensor: &EagerTensor) -> Vec<f32> {
    tensor.to_tensor().unwrap().as_slice::<f32>().unwrap().to_vec()
}

fn binary(session: &Session, kind: &str, x: &EagerTensor, y: &EagerTensor) -> EagerTensor {
    let cache = OpCache::new(kind).unwrap();
    let form = Form { attrs: &[], inputs: &[1, 1], outputs: &[1] };
    session.apply(&cache, form, &[x.clone(), y.clone()]).unwrap().remove(0)
}

fn mean(session: &Session, x: &EagerTensor) -> EagerTensor {
    let cache = OpCache::new("mean").unwrap();
    let form = Form { attrs: &[], inputs: &[1], outputs: &[1] };
    session.apply(&cache, form, std::slice::from_ref(x)).unwrap().remove(0)
}

#[test]
fn a_tensor_used_twice_adds_its_gradients() {
    let session = Session::default();
    let x = parameter("x", &[4], &[1.0, 2.0, 3.0, 4.0]);
    let square = binary(&session, "elementwise_mul", &x, &x);
    let loss = mean(&session, &binary(&session, "elementwise_add", &square, &x));
    session.backward(&[(loss.clone(), None)], false).unwrap();
    let expected: Vec<f32> = [1.0f32, 2.0, 3.0, 4.0].map(|x| (2.0 * x + 1.0) / 4.0).to_vec();
    assert_eq!(values(&x.grad().unwrap()), expected);
    let again = session.backward(&[(loss, None)], false).unwrap_err().to_string();
    assert!(again.contains("retain_graph=True"), "{again}");
}

#[test]
fn nothing_is_recorded_without_need() {
    let session = Session::default();
    let (x, w) = (tensor(&[2], &[1.0, 2.0]), parameter("w", &[2], &[1.0, 1.0]));
    assert!(binary(&session, "elementwise_mul", &x, &x).is_leaf());
    assert!(!binary(&session, "elementwise_mul", &x, &w).is_leaf());
    session.set_grad_enabled(false);
    let frozen = binary(&session, "elementwise_mul", &x, &w);
    assert!(frozen.is_leaf() && frozen.stop_gradient());
    let error = session.backward(&[(frozen, None)], false).unwrap_err().to_string();
    assert!(error.contains("stop_gradient"), "{error}");
}

#[test]
fn gradients_of_inner_tensors_leave_the_leaves_alone() {
    let session = Session::default();
    let w = parameter("w", &[2], &[3.0, 4.0]);
    let h = binary(&session, "elementwise_mul", &w, &w);
    let y = binary(&session, "elementwise_mul", &h, &h);
    let found = session.gradients(&[(y, None)], &[h.clone(), w.clone()], false, false).unwrap();
    assert_eq!(values(found[0].as_ref().unwrap()), [18.0, 32.0]);
    assert_eq!(values(found[1].as_ref().unwrap()), [108.0, 256.0]);
    assert!(w.grad().is_none());
}

#[test]
fn hooks_see_and_change_gradients() {
    let session = Session::default();
    let w = parameter("w", &[2], &[3.0, 4.0]);
    let h = binary(&session, "elementwise_mul", &w, &w);
    let doubled = |grad: EagerTensor| {
        let twice: Vec<f32> = values(&grad).iter().map(|x| x * 2.0).collect();
        Ok(Some(tensor(&[2], &twice)))
    };
    let number = h.add_hook(Arc::new(doubled));
    session.backward(&[(h.clone(), None)], true).unwrap();
    assert_eq!(values(&w.grad().unwrap()), [12.0, 16.0]);
    assert!(h.remove_hook(number) && !h.remove_hook(number));
}

#[test]
fn a_cleared_gradient_is_zero_and_is_added_to() {
    let session = Session::default();
    let w = parameter("w", &[2], &[3.0, 4.0]);
    w.zero_grad();
    assert!(w.grad().is_none());
    let square = || binary(&session, "elementwise_mul", &w, &w);
    session.backward(&[(square(), None)], false).unwrap();
    w.zero_grad();
    session.backward(&[(square(), None)], false).unwrap();
    assert_eq!(values(&w.grad().unwrap()), [6.0, 8.0]);
    w.zero_grad();
    assert_eq!(values(&w.grad().unwrap()), [0.0, 0.0]);
}

#[test]
fn a_hook_cannot_give_a_gradient_another_shape() {
    let session = Session::default();
    let w = parameter("w", &[2], &[3.0, 4.0]);
    let h = binary(&session, "elementwise_mul", &w, &w);
    h.add_hook(Arc::new(|_| Ok(Some(tensor(&[3], &[1.0; 3])))));
    let error = session.backward(&[(h.clone(), None)], true).unwrap_err().to_string();
    assert!(error.contains("shape [2] cannot be float32 of shape [3]"), "{error}");
}

#[test]
fn errors_name_op_and_shapes() {
    let session = Session::default();
    let cache = OpCache::new("matmul_v2").unwrap();
    let form = Form { attrs: &[("trans_x", Attr::Bool(false))], inputs: &[1, 1], outputs: &[1] };
    let inputs = [tensor(&[2, 3], &[0.0; 6]), tensor(&[4, 5], &[0.0; 20])];
    let error = session.apply(&cache, form, &inputs).err().unwrap().to_string();
    assert!(error.starts_with("op `matmul_v2` (float32 [2, 3], float32 [4, 5])"), "{error}");
}

#[test]
fn random_ops_differ_from_call_to_call_and_repeat_with_the_seed() {
    let session = Session::default();
    let cache = OpCache::new("uniform_random").unwrap();
    let attrs = [("shape", Attr::Longs(vec![4]))];
    let form = Form { attrs: &attrs, inputs: &[0, 0], outputs: &[1] };
    let draw = || values(&session.apply(&cache, form, &[]).unwrap()[0]);
    session.set_seed(7);
    let (first, second) = (draw(), draw());
    assert_ne!(first, second);
    session.set_seed(7);
    assert_eq!([draw(), draw()], [first, second]);
}

#[test]
fn a_long_chain_is_dropped_without_recursion() {
    let session = Session::default();
    let mut x = parameter("x", &[1], &[1.0]);
    let one = tensor(&[1], &[1.0]);
    let cache = OpCache::new("elementwise_add").unwrap();
    let form = Form { attrs: &[], inputs: &[1, 1], outputs: &[1] };
    for _ in 0..100_000 {
        x = session.apply(&cache, form, &[x, one.clone()]).unwrap().remove(0);
    }
    drop(x);
}

#[test]
fn an_optimizer_steps_and_leaves_shared_values_alone() {
    let session = Session::default();
    let w = parameter("w", &[2], &[1.0, 2.0]);
    let before = w.value().unwrap();
    let loss = mean(&session, &binary(&session, "elementwise_mul", &w, &w));
    session.backward(&[(loss, None)], false).unwrap();
    let mut sgd = EagerOptimizer::new(Box::new(Sgd::new(0.1)));
    sgd.step(&[w.clone(), w.clone()], 0.5).unwrap();
    assert_eq!(values(&w), [0.5, 1.0]);
    assert_eq!(before.tensor().unwrap().as_slice::<f32>().unwrap(), [1.0, 2.0]);
    let mut adam = EagerOptimizer::new(Box::new(Adam::new(0.1)));
    adam.step(std::slice::from_ref(&w), 0.1).unwrap();
    let names: Vec<&str> = adam.accumulators().map(|(name, _)| name).collect();
    assert_eq!(names, ["w_beta1_pow_acc_0", "w_beta2_pow_acc_0", "w_moment1_0", "w_moment2_0"]);
    assert!((values(&w)[0] - 0.4).abs() < 1e-6);
}

#[test]
fn hooks_outlive_their_tensor_and_follow_it_in_place() {
    let session = Session::default();
    let w = parameter("w", &[2], &[3.0, 4.0]);
    let tenfold = |grad: EagerTensor| {
        let more: Vec<f32> = values(&grad).iter().map(|x| x * 10.0).collect();
        Ok(Some(tensor(&[2], &more)))
    };
    let loss = {
        let h = binary(&session, "elementwise_add", &w, &w);
        h.add_hook(Arc::new(tenfold));
        binary(&session, "elementwise_add", &h, &w)
    };
    session.backward(&[(loss, None)], false).unwrap();
    assert_eq!(values(&w.grad().unwrap()), [21.0, 21.0]);
    w.set_grad(None);
    let h = binary(&session, "elementwise_add", &w, &w);
    h.take_over(&binary(&session, "elementwise_mul", &h, &h)).unwrap();
    h.retain_grad();
    session.backward(&[(h.clone(), None)], false).unwrap();
    assert_eq!(values(&h.grad().unwrap()), [1.0, 1.0]);
    assert!(w.take_over(&h).is_err());
}

#[test]
fn gradients_leave_the_rest_of_the_tape_alone() {
    let session = Session::default();
    let w = parameter("w", &[1], &[2.0]);
    w.add_hook(Arc::new(|_| panic!("nobody asked for this gradient")));
    let h = binary(&session, "elementwise_mul", &w, &w);
    let y = binary(&session, "elementwise_mul", &h, &h);
    let found = session.gradients(&[(y, None)], std::slice::from_ref(&h), false, false).unwrap();
    assert_eq!(values(found[0].as_ref().unwrap()), [8.0]);
    // The op that computed `h` was not differentiated, so its tape is still there.
    let found = session.gradients(&[(h, None)], &[tensor(&[1], &[0.0])], false, false).unwrap();
    assert!(found[0].is_none());
}

#[test]
fn a_step_that_cannot_be_made_changes_nothing() {
    let (a, b) = (parameter("a", &[2], &[1.0, 1.0]), parameter("b", &[3], &[1.0; 3]));
    a.set_grad(Some(tensor(&[2], &[1.0, 1.0])));
    b.set_grad(Some(tensor(&[4], &[1.0; 4])));
    let mut sgd = EagerOptimizer::new(Box::new(Sgd::new(0.1)));
    let error = sgd.step(&[a.clone(), b.clone()], 0.1).unwrap_err().to_string();
    assert!(error.contains("parameter `b`") && error.contains("[4]"), "{error}");
    assert_eq!(values(&a), [1.0, 1.0]);
    assert_eq!(sgd.accumulators().count(), 0);
    // One parameter may be the gradient of another.
    b.set_grad(None);
    let c = parameter("c", &[2], &[5.0, 5.0]);
    c.set_grad(Some(a.clone()));
    sgd.step(&[a, c.clone()], 1.0).unwrap();
    assert_eq!(values(&c), [4.0, 4.0]);
}

/// Notes what a backward pass tells it.
#[derive(Default)]
struct Notes(std::sync::Mutex<Vec<String>>, std::sync::Mutex<Vec<EagerTensor>>);

impl Collector for Notes {
    fn begin(&self, members: &[usize]) -> crate::Result<()> {
        self.0.lock().unwrap().push(format!("begin {members:?}"));
        Ok(())
    }

    fn ready(&self, member: usize) -> crate::Result<()> {
        let grad = self.1.lock().unwrap()[member].grad().expect("kept before it is told");
        self.0.lock().unwrap().push(format!("ready {member} {:?}", values(&grad)));
        Ok(())
    }

    fn end(&self, whole: bool) -> crate::Result<()> {
        self.0.lock().unwrap().push(format!("end {whole}"));
        Ok(())
    }
}

#[test]
fn a_collector_gets_each_gradient_as_soon_as_it_is_whole() {
    let session = Session::default();
    let x = parameter("x", &[1], &[3.0]);
    let w = parameter("w", &[1], &[5.0]);
    let unused = parameter("unused", &[1], &[1.0]);
    let notes = Arc::new(Notes::default());
    *notes.1.lock().unwrap() = vec![x.clone(), w.clone(), unused.clone()];
    for (member, leaf) in [&x, &w, &unused].into_iter().enumerate() {
        session.collect(leaf, Arc::clone(&notes) as Arc<dyn Collector>, member);
    }
    // The last op sees `w` before the first one sees `x`; a hook tells when that is.
    let square = binary(&session, "elementwise_mul", &x, &x);
    let seen = Arc::clone(&notes);
    square.add_hook(Arc::new(move |_| {
        seen.0.lock().unwrap().push("the first op".to_owned());
        Ok(None)
    }));
    let loss = mean(&session, &binary(&session, "elementwise_mul", &square, &w));
    session.backward(&[(loss, None)], false).unwrap();
    let told = notes.0.lock().unwrap().clone();
    assert_eq!(
        told,
        ["begin [0, 1]", "ready 1 [9.0]", "the first op", "ready 0 [30.0]", "end true"]
    );
    session.stop_collecting(&x);
    session.stop_collecting(&w);
    let loss = mean(&session, &binary(&session, "elementwise_mul", &x, &w));
    session.backward(&[(loss, None)], false).unwrap();
    assert_eq!(notes.0.lock().unwrap().len(), told.len());
}

#[test]
fn a_gradient_through_an_output_without_one_is_refused() {
    let session = Session::default();
    let x = parameter("x", &[1, 3], &[1.0, 2.0, 3.0]);
    let cache = OpCache::new("norm").unwrap();
    let attrs = [("axis", Attr::Int(1))];
    let form = Form { attrs: &attrs, inputs: &[1], outputs: &[1, 1] };
    let outputs = || session.apply(&cache, form, std::slice::from_ref(&x)).unwrap();
    let made = outputs();
    let (out, norm) = (&made[0], &made[1]);
    let both = binary(&session, "elementwise_add", &mean(&session, out), &mean(&session, norm));
    let error = session.backward(&[(both, None)], false).unwrap_err().to_string();
    assert!(error.contains("output `Norm` of `norm`"), "{error}");
    // Looking at it is no gradient, and neither is a part that was cut off on purpose.
    let made = outputs();
    let (out, norm) = (&made[0], &made[1]);
    norm.set_stop_gradient(true);
    let both = binary(&session, "elementwise_add", &mean(&session, out), &mean(&session, norm));
    session.backward(&[(both, None)], false).unwrap();
    assert!(values(&x.grad().unwrap())[2] < 0.0);
}

#[test]
fn a_loss_may_depend_on_the_softmax_of_a_cross_entropy() {
    let session = Session::default();
    let label = EagerTensor::new(Tensor::from_slice([1, 1], &[1i64]).unwrap());
    let weights = tensor(&[1, 3], &[1.0, -2.0, 4.0]);
    let gradient = |own: bool, with_loss: bool| {
        let logits = parameter("x", &[1, 3], &[1.0, 2.0, 3.0]);
        let entropy = OpCache::new("softmax_with_cross_entropy").unwrap();
        let form = Form { attrs: &[], inputs: &[1, 1], outputs: &[1, 1] };
        let inputs = [logits.clone(), label.clone()];
        let made = session.apply(&entropy, form, &inputs).unwrap();
        let softmax = if own {
            let form = Form { attrs: &[], inputs: &[1], outputs: &[1] };
            let cache = OpCache::new("softmax").unwrap();
            session.apply(&cache, form, &inputs[..1]).unwrap().remove(0)
        } else {
            made[0].clone()
        };
        let mut total = mean(&session, &binary(&session, "elementwise_mul", &softmax, &weights));
        if with_loss {
            total = binary(&session, "elementwise_add", &total, &mean(&session, &made[1]));
        }
        session.backward(&[(total, None)], false).unwrap();
        values(&logits.grad().unwrap())
    };
    for with_loss in [false, true] {
        let pairs = gradient(true, with_loss).into_iter().zip(gradient(false, with_loss));
        assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-6), "{with_loss}");
    }
}

#[test]
fn errors_keep_their_class() {
    let relu = Prepared::new(bireme_ir::Op::new("relu").input("X", ["x"]).output("Out", ["y"]), 0);
    let relu = relu.unwrap();
    for error in
        [Error::Interrupted, Error::remote("gone"), Error::Device { problem: "gone".into() }]
    {
        let text = error.to_string();
        let told = super::prepared::at_call(error, &relu.op().kind, &[]);
        assert!(!matches!(told, Error::Op { .. }) && told.to_string() == text, "{told:?}");
    }
    let full = Error::OutOfMemory { bytes: 8, place: String::new() };
    let told = super::prepared::at_call(full, "relu", &[]);
    assert!(matches!(&told, Error::OutOfMemory { place, .. } if place == " in op `relu`"));
}
