//! Eager mode on a card gives what it gives on the host, whichever ops the card has.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use bireme_engine::Place;
use bireme_engine::device::Device;
use bireme_engine::eager::{EagerTensor, Held};
use bireme_engine::tensor::Tensor;

use crate::card::HostCard;
use crate::eager_models::{Eager, embeddings, numbers, perceptron};

fn on(card: &Arc<HostCard>) -> Eager {
    let device: Arc<dyn Device> = card.clone();
    Eager::on(&device)
}

#[test]
fn models_learn_the_same() {
    let (dense, sparse) = (perceptron(&Eager::on_host(), 6), embeddings(&Eager::on_host(), 4));
    let lacks: [&[&'static str]; 3] =
        [&[], &["tanh", "tanh_grad", "adam", "matmul_v2_grad"], &["matmul_v2", "mean", "adagrad"]];
    for lacks in lacks {
        assert_eq!(perceptron(&on(&HostCard::new(lacks)), 6), dense, "without {lacks:?}");
        assert_eq!(embeddings(&on(&HostCard::new(lacks)), 4), sparse, "without {lacks:?}");
    }
}

#[test]
fn what_an_op_makes_belongs_to_its_inputs_card() {
    let card = HostCard::new(&["exp"]);
    let eager = on(&card);
    let x = eager.floats(&[2], &[1.0, 2.0]);
    let number = EagerTensor::new(Tensor::scalar(3.0f32));
    for made in [eager.unary("exp", &x), eager.binary("elementwise_mul", &x, &number)] {
        assert_eq!(made.place(), Place::Cuda(0));
    }
    assert_eq!(number.place(), Place::Cpu);
    assert_eq!(eager.unary("relu", &number).place(), Place::Cpu);
    assert_eq!(numbers(&eager.binary("elementwise_mul", &x, &number)), [3.0, 6.0]);
    // Shapes are known without a copy, and there is one copy however often it is asked for.
    let made = eager.unary("relu", &x);
    assert_eq!(made.dims().to_vec(), [2]);
    let (a, b) = (made.value().unwrap(), made.value().unwrap());
    assert!(std::ptr::eq(&*a, &*b));
}

#[test]
fn who_shares_a_value_keeps_it() {
    let eager = on(&HostCard::new(&[]));
    let w = eager.parameter("w", &[3]);
    let (before, shared) = (numbers(&w), w.held());
    let loss = eager.unary("mean", &eager.binary("elementwise_mul", &w, &w));
    eager.session.backward(&[(loss, None)], false).unwrap();
    let mut sgd = bireme_engine::eager::EagerOptimizer::new(Box::new(
        bireme_engine::optimizer::Sgd::new(0.5),
    ));
    sgd.step(std::slice::from_ref(&w), 0.5).unwrap();
    let after: Vec<f64> = before.iter().map(|w| w - 0.5 * 2.0 * w / 3.0).collect();
    assert!(numbers(&w).iter().zip(&after).all(|(a, b)| (a - b).abs() < 1e-6));
    assert_eq!(numbers(&EagerTensor::from_held(shared)), before);
    // Alone, it is updated where it is.
    let at = |w: &EagerTensor| w.held().known_on_card().unwrap().operand();
    let place = at(&w);
    sgd.step(std::slice::from_ref(&w), 0.5).unwrap();
    assert_eq!(at(&w), place);
    assert!(numbers(&w).iter().zip(&after).all(|(a, b)| (a - b).abs() > 1e-4));
}

#[test]
fn hooks_and_inner_gradients() {
    let eager = on(&HostCard::new(&["elementwise_mul_grad"]));
    let w = eager.parameter("w", &[2]);
    let h = eager.binary("elementwise_mul", &w, &w);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    h.add_hook(Arc::new(move |grad| {
        noted.lock().unwrap().push((grad.place(), numbers(&grad)));
        Ok(None)
    }));
    let loss = eager.unary("mean", &eager.binary("elementwise_add", &h, &w));
    let found = eager.session.gradients(&[(loss, None)], &[w.clone(), h], false, false).unwrap();
    assert_eq!(*seen.lock().unwrap(), [(Place::Cuda(0), vec![0.5, 0.5])]);
    assert_eq!(numbers(found[1].as_ref().unwrap()), [0.5, 0.5]);
    let expected: Vec<f64> = numbers(&w).iter().map(|w| w + 0.5).collect();
    let got = numbers(found[0].as_ref().unwrap());
    assert!(got.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6), "{got:?}");
    assert!(w.grad().is_none());
}

#[test]
fn tensors_survive_a_card_without_memory() {
    let card = HostCard::new(&[]);
    let eager = on(&card);
    let x = eager.parameter("x", &[64]);
    let y = eager.binary("elementwise_mul", &x, &x);
    card.left.store(300, Ordering::Relaxed);
    let error = eager.run("elementwise_mul", &[], &[("X", &y), ("Y", &x)]).err().unwrap();
    assert!(error.to_string().contains("do not fit"), "{error}");
    assert!(eager.session.backward(&[(y.clone(), None)], true).is_err());
    card.left.store(usize::MAX, Ordering::Relaxed);
    eager.session.backward(&[(y, None)], true).unwrap();
    let expected: Vec<f64> = numbers(&x).iter().map(|x| 2.0 * x).collect();
    assert_eq!(numbers(&x.grad().unwrap()), expected);
}

#[test]
fn tensors_move() {
    let eager = on(&HostCard::new(&[]));
    let x = eager.floats(&[2], &[1.0, 2.0]);
    let home = x.held().moved(None).unwrap();
    assert_eq!((home.place(), home.host().unwrap().tensor().unwrap().numel()), (Place::Cpu, 2));
    let other = on(&HostCard::new(&[]));
    let there = Held::new(Tensor::scalar(1.0f32)).moved(other.card.as_ref()).unwrap();
    assert_eq!(there.place(), Place::Cuda(0));
    x.replace_on_host(Tensor::scalar(5.0f32));
    assert_eq!((x.place(), numbers(&x)), (Place::Cuda(0), vec![5.0]));
    assert_eq!(x.take_value().unwrap().tensor().unwrap().to_f64_vec(), [5.0]);
    assert_eq!((x.place(), x.dims().numel()), (Place::Cuda(0), 0));
}
