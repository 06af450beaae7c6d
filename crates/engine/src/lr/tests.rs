//! Each schedule's ops against its formula, over twenty steps.

use std::collections::HashMap;

use super::*;
use crate::op::run_once;

fn check(schedule: Schedule) {
    let graph = Graph::new();
    let rate = Lr::from(schedule.clone()).build(&graph).unwrap();
    assert_eq!(rate.name(), "learning_rate_0");
    let mut values = HashMap::new();
    for op in &graph.startup().global().ops {
        run_once(op, &mut values).unwrap();
    }
    let first = schedule.first_step();
    for step in first..first + 20 {
        for op in &graph.main().global().ops {
            assert_eq!(op.op_role(), bireme_ir::OpRole::LR_SCHED);
            run_once(op, &mut values).unwrap();
        }
        let given = values["learning_rate_0"].tensor().unwrap().to_f64_vec()[0];
        let expected = schedule.at(step);
        let close = (given - expected).abs() <= 1e-5 * expected.abs() + 1e-9;
        assert!(close, "{schedule:?} at {step}: {given}, not {expected}");
    }
}

#[test]
fn noam() {
    check(Schedule::Noam { d_model: 64.0, warmup_steps: 7.0, rate: 2.0 });
}

#[test]
fn exponential_kinds() {
    for staircase in [false, true] {
        let (rate, decay_steps, decay_rate) = (0.5, 6.0, 0.3);
        check(Schedule::Exponential { rate, decay_steps, decay_rate, staircase });
        check(Schedule::NaturalExp { rate, decay_steps, decay_rate, staircase });
        check(Schedule::InverseTime { rate, decay_steps, decay_rate, staircase });
    }
}

#[test]
fn polynomial() {
    for cycle in [false, true] {
        for power in [1.0, 2.0] {
            check(Schedule::Polynomial { rate: 0.1, decay_steps: 6.0, end: 0.01, power, cycle });
        }
    }
}

#[test]
fn piecewise() {
    check(Schedule::Piecewise { boundaries: vec![3, 9], values: vec![1.0, 0.5, 0.1] });
    check(Schedule::Piecewise { boundaries: vec![], values: vec![1.0] });
}

#[test]
fn cosine() {
    check(Schedule::Cosine { rate: 0.2, step_each_epoch: 3.0, epochs: 5.0 });
}

#[test]
fn warm_up() {
    let warm = |then: Lr| Schedule::LinearWarmup {
        warmup_steps: 5.0,
        start: 0.0,
        end: 0.1,
        then: Box::new(then),
    };
    check(warm(0.1.into()));
    check(warm(Schedule::Piecewise { boundaries: vec![4], values: vec![0.1, 0.01] }.into()));
    check(warm(Schedule::Noam { d_model: 4.0, warmup_steps: 3.0, rate: 1.0 }.into()));
}

#[test]
fn a_variable_is_taken_as_it_is() {
    let graph = Graph::new();
    let rate = Lr::from(0.5).build(&graph).unwrap();
    let same = Lr::Variable(rate.name().to_owned()).build(&graph).unwrap();
    assert_eq!((same.name(), graph.main().global().vars.len()), ("learning_rate_0", 1));
    assert!(Lr::Variable("lost".to_owned()).build(&graph).is_err());
}

#[test]
fn impossible_schedules_are_errors() {
    let build = |schedule: Schedule| Lr::from(schedule).build(&Graph::new()).unwrap_err();
    let values = build(Schedule::Piecewise { boundaries: vec![1], values: vec![1.0] });
    assert_eq!(values.to_string(), "1 boundaries separate 2 values, but 1 are given");
    let order = build(Schedule::Piecewise { boundaries: vec![2, 1], values: vec![1.0; 3] });
    assert_eq!(order.to_string(), "the boundaries [2, 1] must rise");
    let steps = build(Schedule::Cosine { rate: 1.0, step_each_epoch: 0.0, epochs: 1.0 });
    assert_eq!(steps.to_string(), "`step_each_epoch` must be positive, not 0");
}
