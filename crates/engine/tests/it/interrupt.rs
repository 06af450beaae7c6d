//! A running step stops when its caller asks for it, on all workers, and can be run again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bireme_engine::tensor::Tensor;
use bireme_engine::{Error, Executor, Place};
use bireme_ir::{DType, Op, Program, Var};

/// `out = sum(relu(relu(... x)))`: ops on rows, then one on the whole batch.
fn program() -> Program {
    let mut program = Program::new();
    let block = program.global_mut();
    block.add_var(Var::tensor("x0", DType::F32, [-1, 4]));
    for i in 0..20 {
        let (from, to) = (format!("x{i}"), format!("x{}", i + 1));
        block.add_var(Var::tensor(&to, DType::F32, [-1, 4]));
        block.ops.push(Op::new("relu").input("X", [from]).output("Out", [to]));
    }
    block.add_var(Var::tensor("out", DType::F32, Vec::<i64>::new()));
    let sum = Op::new("reduce_sum").input("X", ["x20"]).output("Out", ["out"]);
    block.ops.push(sum.attr("reduce_all", true));
    program
}

fn feed() -> Tensor {
    Tensor::from_slice([6, 4], &[1.0f32; 24]).unwrap()
}

#[test]
fn a_step_that_was_stopped_runs_again() {
    for threads in [1, 3] {
        let stop = Arc::new(AtomicBool::new(true));
        let flag = Arc::clone(&stop);
        let executor = Executor::new(Place::Cpu).unwrap().threads(threads);
        let executor = executor.interrupt(Arc::new(move || flag.load(Ordering::Relaxed)));
        let mut step = executor.prepare(&program(), &["x0"], &["out"]).unwrap();
        // The first op of all asks.
        let error = step.run(&[&feed()]).unwrap_err();
        assert!(matches!(error, Error::Interrupted), "{error}");
        assert_eq!(error.to_string(), "interrupted");
        stop.store(false, Ordering::Relaxed);
        for _ in 0..3 {
            step.run(&[&feed()]).unwrap();
            assert_eq!(step.fetched(0).to_f64_vec(), [24.0]);
        }
    }
}

#[test]
fn steps_stop_wherever_they_are() {
    for threads in [1, 3] {
        let (asked, main) = (Arc::new(AtomicUsize::new(0)), std::thread::current().id());
        let count = Arc::clone(&asked);
        let executor = Executor::new(Place::Cpu).unwrap().threads(threads);
        let mut executor = executor.interrupt(Arc::new(move || {
            assert_eq!(std::thread::current().id(), main, "the caller's thread asks");
            // Every third answer is yes.
            count.fetch_add(1, Ordering::Relaxed) % 3 == 2
        }));
        let (program, feed, mut stopped) = (program(), feed(), 0);
        while stopped < 3 {
            match executor.run(&program, &[("x0", &feed)], &["out"]) {
                Ok(out) => assert_eq!(out[0].to_f64_vec(), [24.0]),
                Err(Error::Interrupted) => stopped += 1,
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(asked.load(Ordering::Relaxed), 9);
    }
}

#[test]
fn a_panic_in_a_step_comes_to_the_caller() {
    for threads in [1, 3] {
        let fail = Arc::new(AtomicBool::new(true));
        let flag = Arc::clone(&fail);
        let executor = Executor::new(Place::Cpu).unwrap().threads(threads);
        let executor = executor.interrupt(Arc::new(move || {
            assert!(!flag.load(Ordering::Relaxed), "a question that fails");
            false
        }));
        let mut step = executor.prepare(&program(), &["x0"], &["out"]).unwrap();
        let error = step.run(&[&feed()]).unwrap_err().to_string();
        assert!(error.contains("a question that fails"), "{error}");
        fail.store(false, Ordering::Relaxed);
        step.run(&[&feed()]).unwrap();
        assert_eq!(step.fetched(0).to_f64_vec(), [24.0]);
    }
}
