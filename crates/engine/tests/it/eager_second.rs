//! Gradients of gradients in eager mode, on the host and on a card.

use std::sync::Arc;

use bireme_engine::eager::{CustomGradient, EagerTensor};
use bireme_engine::{Error, Result};

use crate::card::HostCard;
use crate::eager_models::{Eager, numbers};

fn everywhere() -> Vec<Eager> {
    let on = |lacks: &[&'static str]| {
        let device: Arc<dyn bireme_engine::device::Device> = HostCard::new(lacks);
        Eager::on(&device)
    };
    vec![Eager::on_host(), on(&[]), on(&["elementwise_mul_grad", "scale"])]
}

fn leaf(eager: &Eager, values: &[f32]) -> EagerTensor {
    let leaf = eager.floats(&[values.len()], values);
    leaf.set_stop_gradient(false);
    leaf
}

/// The gradient of a tensor by another, which can be differentiated.
fn slope(eager: &Eager, of: &EagerTensor, by: &EagerTensor) -> Result<EagerTensor> {
    let roots = [(of.clone(), None)];
    let found = eager.session.gradients(&roots, std::slice::from_ref(by), false, true)?;
    Ok(found.into_iter().flatten().next().expect("it depends on it"))
}

#[test]
fn gradients_are_differentiated_as_often_as_is_wanted() {
    for eager in everywhere() {
        let x = leaf(&eager, &[1.0, -2.0]);
        let square = eager.binary("elementwise_mul", &x, &x);
        let fourth = eager.binary("elementwise_mul", &square, &square);
        let first = slope(&eager, &fourth, &x).unwrap();
        let second = slope(&eager, &first, &x).unwrap();
        let third = slope(&eager, &second, &x).unwrap();
        assert_eq!(numbers(&first), [4.0, -32.0]);
        assert_eq!(numbers(&second), [12.0, 48.0]);
        assert_eq!(numbers(&third), [24.0, -48.0]);
        eager.session.backward(&[(third, None)], false).unwrap();
        assert_eq!(numbers(&x.grad().unwrap()), [24.0, 24.0]);
    }
}

#[test]
fn gradients_of_gradients_reach_inner_tensors_too() {
    for eager in everywhere() {
        let (x, w) = (leaf(&eager, &[3.0]), leaf(&eager, &[0.5]));
        let hidden = eager.unary("tanh", &eager.binary("elementwise_mul", &x, &w));
        let first = slope(&eager, &eager.binary("elementwise_mul", &hidden, &hidden), &hidden);
        // 2 * hidden, whose gradient goes on to the weight.
        eager.session.backward(&[(first.unwrap(), None)], false).unwrap();
        let tanh = 1.5f64.tanh();
        let expected = 2.0 * (1.0 - tanh * tanh) * 3.0;
        assert!((numbers(&w.grad().unwrap())[0] - expected).abs() < 1e-5);
    }
}

#[test]
fn an_op_without_is_named_when_a_loss_depends_on_it() {
    let eager = Eager::on_host();
    let x = leaf(&eager, &[0.5, -0.5]);
    // The gradient itself is there.
    let first = slope(&eager, &eager.unary("mish", &x), &x).unwrap();
    let problem = eager.session.backward(&[(first, None)], false).unwrap_err().to_string();
    assert!(problem.contains("no gradient of a gradient for op `mish`"), "{problem}");
}

/// Its gradient is three times that of the output, or fails.
struct Tripled(bool);

impl CustomGradient for Tripled {
    fn gradients(&self, outputs: Vec<Option<EagerTensor>>) -> Result<Vec<Option<EagerTensor>>> {
        if self.0 {
            return Err(Error::kernel("it failed"));
        }
        let eager = Eager::on_host();
        let three = eager.floats(&[1], &[3.0]);
        let triple = |grad: &EagerTensor| eager.binary("elementwise_mul", grad, &three);
        Ok(outputs.iter().map(|grad| grad.as_ref().map(triple)).collect())
    }
}

#[test]
fn others_may_compute_gradients() {
    let eager = Eager::on_host();
    let x = leaf(&eager, &[2.0]);
    let record = |fails: bool| {
        let made = eager.binary("elementwise_mul", &x, &x).detach();
        let (inputs, outputs) = (std::slice::from_ref(&x), std::slice::from_ref(&made));
        eager.session.record_custom("cube", inputs, outputs, Arc::new(Tripled(fails))).remove(0)
    };
    eager.session.backward(&[(record(false), None)], false).unwrap();
    assert_eq!(numbers(&x.grad().unwrap()), [3.0]);
    let failed = eager.session.backward(&[(record(true), None)], false).unwrap_err().to_string();
    assert!(failed.contains("it failed"), "{failed}");
    // Where nobody wants a gradient nothing is kept.
    x.set_stop_gradient(true);
    assert!(record(false).is_leaf());
}
