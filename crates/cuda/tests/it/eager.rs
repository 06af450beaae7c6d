//! Eager mode on the card: the same models learn the same as on the host, without a wait and with few calls.

use std::sync::{Arc, Mutex};

use bireme_cuda::Keeping;
use bireme_cuda::driver::Stream;
use bireme_engine::device::Device;
use bireme_engine::eager::{EagerOptimizer, EagerTensor, Held};
use bireme_engine::optimizer::{Adam, Momentum, Optimizer, Sgd};
use bireme_engine::tensor::Tensor;
use bireme_engine::{Error, Place};
use bireme_ir::{Attr, DType};

use crate::card::{alone, device, get, put};
use crate::eager_models::{Eager, assert_close, embeddings, numbers, perceptron};

/// Sums of a few numbers in another order.
const TOLERANCE: f64 = 2e-5;

fn kept() -> Arc<dyn Device> {
    bireme_cuda::open_alone(0, Keeping::Kept).unwrap()
}

#[test]
fn models_learn_what_they_learn_on_the_host() {
    let Some((_machine, device)) = device() else { return };
    let (dense, sparse) = (perceptron(&Eager::on_host(), 6), embeddings(&Eager::on_host(), 5));
    let got = perceptron(&Eager::on(&device), 6);
    assert_close(&got, &dense, TOLERANCE);
    assert_close(&embeddings(&Eager::on(&device), 5), &sparse, TOLERANCE);
    // In memory that is used again and again, to the same bits.
    let kept = kept();
    assert_eq!(perceptron(&Eager::on(&kept), 6), got);
    assert_close(&embeddings(&Eager::on(&kept), 5), &sparse, TOLERANCE);
}

#[test]
fn a_step_waits_for_nothing_and_takes_no_new_memory() {
    let Some(machine) = alone() else { return };
    let device = kept();
    let eager = Eager::on(&device);
    let x = eager.floats(&[4, 8], &[0.5; 32]);
    let (w, b) = (eager.parameter("w", &[8, 3]), eager.parameter("b", &[3]));
    let mut sgd = EagerOptimizer::new(Box::new(Sgd::new(0.1)));
    let mut step = || {
        let out = eager.binary("elementwise_add", &eager.binary("matmul_v2", &x, &w), &b);
        let loss = eager.unary("mean", &eager.unary("relu", &out));
        eager.session.backward(&[(loss, None)], false).unwrap();
        sgd.step(&[w.clone(), b.clone()], 0.1).unwrap();
        w.set_grad(None);
        b.set_grad(None);
    };
    step();
    step();
    device.synchronize().unwrap();
    let control = &machine.control;
    let (allocated, waits, calls) = (control.allocated(), control.waits(), control.calls());
    step();
    assert_eq!((control.allocated(), control.waits()), (allocated, waits));
    // Four ops forward, as many back (of which the product is two), two updates.
    let made = control.calls() - calls;
    assert!(made <= 16, "{made} calls of the driver in one step");
    device.synchronize().unwrap();
    assert_eq!(control.allocated(), allocated);
}

#[test]
fn a_simple_op_is_one_call_of_the_driver() {
    let Some(machine) = alone() else { return };
    let eager = Eager::on(&kept());
    let (x, y) = (eager.floats(&[4, 8], &[0.5; 32]), eager.floats(&[8], &[0.25; 8]));
    let weight = eager.floats(&[8, 4], &[0.1; 32]);
    let ops: [(&dyn Fn() -> EagerTensor, u64); 4] = [
        (&|| eager.unary("relu", &x), 1),
        (&|| eager.binary("elementwise_add", &x, &y), 1),
        (&|| eager.unary("mean", &x), 2),
        (&|| eager.binary("matmul_v2", &x, &weight), 1),
    ];
    for (at, (run, most)) in ops.into_iter().enumerate() {
        drop(run());
        let calls = machine.control.calls();
        drop(run());
        let made = machine.control.calls() - calls;
        assert!(made <= most, "op {at}: {made} calls of the driver");
    }
}

#[test]
fn updates_of_all_parameters_are_one_launch() {
    let Some(machine) = alone() else { return };
    let eager = Eager::on(&kept());
    let parameters: Vec<EagerTensor> =
        (0..9).map(|at| eager.parameter(&format!("p{at}"), &[at + 3, 5])).collect();
    // Powers are raised in a launch of their own.
    let optimizers: [(Box<dyn Optimizer + Send>, u64); 3] = [
        (Box::new(Sgd::new(0.1)), 1),
        (Box::new(Momentum::new(0.1, 0.9)), 1),
        (Box::new(Adam::new(0.1)), 2),
    ];
    for (at, (optimizer, most)) in optimizers.into_iter().enumerate() {
        let mut optimizer = EagerOptimizer::new(optimizer);
        for parameter in &parameters {
            parameter.set_grad(Some(EagerTensor::from_held(parameter.held().copy().unwrap())));
        }
        optimizer.step(&parameters, 0.1).unwrap();
        let calls = machine.control.calls();
        optimizer.step(&parameters, 0.1).unwrap();
        let made = machine.control.calls() - calls;
        assert!(made <= most, "optimizer {at}: {made} calls of the driver");
    }
}

#[test]
fn a_wrong_id_is_told_when_somebody_looks() {
    let Some((_machine, device)) = device() else { return };
    let eager = Eager::on(&device);
    let table = eager.parameter("table", &[5, 2]);
    let ids = eager.tensor(Tensor::from_slice([3], &[0i64, 7, 1]).unwrap());
    let look = || eager.op("lookup_table_v2", &[], &[("W", &table), ("Ids", &ids)], "Out");
    let error = look().value().err().unwrap().to_string();
    assert!(error.contains("`lookup_table_v2`"), "{error}");
    assert!(error.contains("7 at position 1 lies outside 0..5"), "{error}");
    // Told once; what does not depend on it can be used.
    assert_eq!(numbers(&eager.unary("relu", &table)).len(), 10);
    drop(look());
    let card = eager.card.as_ref().unwrap();
    assert!(card.synchronize().is_err());
    card.synchronize().unwrap();
}

#[test]
fn what_is_not_finite_is_found_where_it_is_made() {
    let Some((_machine, device)) = device() else { return };
    let eager = Eager::on(&device);
    eager.session.set_check_finite(true);
    let x = eager.floats(&[3], &[1.0, -1.0, 2.0]);
    eager.run("relu", &[], &[("X", &x)]).ok().unwrap();
    match eager.run("log", &[], &[("X", &x)]).err().unwrap() {
        Error::NotFinite { op, what, .. } => assert_eq!((op.as_str(), what), ("log", "NaN")),
        other => panic!("{other}"),
    }
}

#[test]
fn random_numbers_are_those_of_the_host() {
    let Some((_machine, device)) = device() else { return };
    let draw = |eager: &Eager| {
        eager.session.set_seed(7);
        let x = eager.floats(&[8], &[1.0; 8]);
        let mut drawn = Vec::new();
        for _ in 0..2 {
            let shape = [("shape", Attr::Longs(vec![5])), ("dtype", Attr::Int(DType::F32.code()))];
            drawn.push(eager.op("uniform_random", &shape, &[], "Out"));
            let half = [("dropout_prob", Attr::Float(0.5))];
            drawn.push(eager.op("dropout", &half, &[("X", &x)], "Out"));
        }
        (drawn.iter().map(numbers).collect::<Vec<_>>(), drawn[0].place())
    };
    let (on_host, on_card) = (draw(&Eager::on_host()), draw(&Eager::on(&device)));
    assert_eq!(on_host.0, on_card.0);
    assert_ne!(on_card.0[0], on_card.0[2]);
    assert_eq!((on_host.1, on_card.1), (Place::Cpu, Place::Cuda(0)));
}

#[test]
fn gradients_twice_hooks_and_sums() {
    let Some((_machine, device)) = device() else { return };
    let run = |eager: &Eager| {
        let w = eager.parameter("w", &[4]);
        let square = eager.binary("elementwise_mul", &w, &w);
        let loss = eager.unary("mean", &eager.binary("elementwise_add", &square, &w));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&seen);
        w.add_hook(Arc::new(move |grad| {
            noted.lock().unwrap().push(numbers(&grad));
            Ok(None)
        }));
        eager.session.backward(&[(loss.clone(), None)], true).unwrap();
        eager.session.backward(&[(loss.clone(), Some(loss.clone()))], true).unwrap();
        let inner = eager.session.gradients(&[(loss, None)], &[square], false, false).unwrap();
        let seen = seen.lock().unwrap().clone();
        (numbers(&w.grad().unwrap()), seen, numbers(inner[0].as_ref().unwrap()))
    };
    let (on_host, on_card) = (run(&Eager::on_host()), run(&Eager::on(&device)));
    let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
    assert!(close(&on_card.0, &on_host.0), "{:?} and {:?}", on_card.0, on_host.0);
    assert!(on_card.1.iter().zip(&on_host.1).all(|(a, b)| close(a, b)));
    assert!(close(&on_card.2, &on_host.2));
}

#[test]
fn tensors_survive_when_memory_runs_out() {
    let Some(machine) = alone() else { return };
    let device = bireme_cuda::open_alone(0, Keeping::Driver).unwrap();
    let eager = Eager::on(&device);
    let w = eager.parameter("w", &[6]);
    let expected: Vec<f64> = numbers(&w).iter().map(|w| 2.0 * w / 6.0).collect();
    let run = || -> bireme_engine::Result<()> {
        let out = eager.run("elementwise_mul", &[], &[("X", &w), ("Y", &w)])?;
        let loss = eager.run("mean", &[], &[("X", &out["Out"])])?.remove("Out").unwrap();
        eager.session.backward(&[(loss, None)], false)
    };
    let mut failures = 0;
    for number in 1..40 {
        machine.control.fail_allocation(number);
        w.set_grad(None);
        match run() {
            Err(error) => {
                // What is kept is given back, and it is tried once more: one failure alone is not seen.
                assert!(error.to_string().contains("out of memory"), "{error}");
                failures += 1;
            }
            Ok(()) => {
                let grad = numbers(&w.grad().unwrap());
                assert!(grad.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6));
            }
        }
        machine.control.fail_allocation(0);
    }
    assert_eq!(failures, 0);
    // No room at all: an error, and then it goes on.
    machine.control.set_memory(machine.control.allocated() + 8);
    let error = run().unwrap_err().to_string();
    assert!(error.contains("out of memory"), "{error}");
    machine.control.set_memory(1 << 30);
    w.set_grad(None);
    run().unwrap();
    let grad = numbers(&w.grad().unwrap());
    assert!(grad.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6));
}

#[test]
fn what_is_kept_goes_back_when_it_is_needed() {
    let Some(machine) = alone() else { return };
    machine.control.set_memory(80 << 20);
    let device = kept();
    let before = machine.control.allocated();
    let first = device.allocate(30 << 20).unwrap();
    let small: Vec<_> = (0..8).map(|_| device.allocate(100).unwrap()).collect();
    let kept_bytes = machine.control.allocated() - before;
    assert!(kept_bytes >= 32 << 20);
    drop((first, small));
    assert_eq!(machine.control.allocated() - before, kept_bytes);
    // The same block, without the driver.
    let calls = machine.control.calls();
    let again = device.allocate(30 << 20).unwrap();
    assert_eq!(machine.control.calls(), calls);
    drop(again);
    // Does not fit beside what is kept.
    let large = device.allocate(70 << 20).unwrap();
    assert_eq!(large.bytes(), 70 << 20);
    let error = device.allocate(40 << 20).err().unwrap().to_string();
    assert!(error.contains("out of memory"), "{error}");
}

#[test]
fn page_locked_tensors_go_up_without_a_wait() {
    let Some(machine) = alone() else { return };
    let eager = Eager::on(&kept());
    let card = eager.card.as_ref().unwrap();
    let batch = |at: i64| Tensor::from_slice([600], &vec![at; 600]).unwrap();
    let mut sums = Vec::new();
    let one = EagerTensor::from_held(card.zeros(DType::I64, [600].into()).unwrap());
    let waits = machine.control.waits();
    for at in 0..5 {
        let held = Held::page_locked(card, &batch(at)).unwrap();
        assert!(held.is_page_locked());
        let x = EagerTensor::from_held(held);
        sums.push(eager.binary("elementwise_add", &one, &x));
        // Nobody but the card holds it any more.
        drop(x);
    }
    assert_eq!(machine.control.waits(), waits);
    for (at, sum) in sums.iter().enumerate() {
        assert_eq!(numbers(sum), vec![at as f64; 600]);
    }
}

#[test]
fn other_streams_wait_and_are_waited_for() {
    let Some(machine) = alone() else { return };
    let (card, other) = crate::card::open(0);
    let device = kept();
    assert_ne!(device.queue(), 0);
    for seed in 0..6 {
        machine.control.seed(seed);
        let eager = Eager::on(&device);
        let made = eager.unary("relu", &eager.floats(&[64], &[3.0; 64]));
        let value = made.held();
        let operand = value.known_on_card().unwrap().operand();
        let bireme_engine::device::Operand::Dense(at) = operand else { panic!("{operand:?}") };
        // Another library reads what ours has made.
        device.hand_over(Some(other.raw())).unwrap();
        let theirs = put(&other, &[0.0f32; 64]);
        copy(&other, theirs.address(), at.0, 256);
        assert_eq!(get::<f32>(&other, &theirs), [3.0; 64]);
        // And we what it has.
        copy(&other, at.0, put(&other, &[5.0f32; 64]).address(), 256);
        device.take_over(Some(other.raw())).unwrap();
        assert_eq!(numbers(&eager.unary("relu", &EagerTensor::from_held(value))), [5.0; 64]);
    }
    drop(card);
    device.hand_over(None).unwrap();
    device.take_over(None).unwrap();
}

fn copy(stream: &Stream, to: u64, from: u64, bytes: usize) {
    // SAFETY: tests give memory that lives.
    #[allow(unsafe_code, reason = "memory is reached by address")]
    let span = |at| unsafe { bireme_cuda::driver::Span::from_raw(at, bytes) };
    stream.copy(span(to), span(from)).unwrap();
}
