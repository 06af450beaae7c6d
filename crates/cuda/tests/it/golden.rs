//! Every golden case of the engine on the card, forward and backward, against the host.
//!
//! Whatever the card does not run is the host's, and is counted: `-- golden --nocapture` says which ops.

use std::collections::BTreeMap;
use std::sync::Mutex;

use bireme_engine::Result;
use bireme_engine::device::run_once_on;
use bireme_engine::op::run_once;
use bireme_ir::{EMPTY_VAR, Op, grad_name};

use crate::card::device;
use crate::case::{Case, Values, named};
use crate::compare::{Tolerance, difference};
use crate::runs::{gradient_ops, report};

/// The card sums in another order than the host, and its functions differ in the last digit.
const TOLERANCE: Tolerance = Tolerance { rtol: 2e-5, atol: 2e-6 };

/// How often each op ran on the card, and on the host.
static RAN: Mutex<BTreeMap<String, [usize; 2]>> = Mutex::new(BTreeMap::new());

#[test]
fn golden_cases_are_on_the_card_as_on_the_host() {
    // Each step takes the machine by itself: who holds it while another waits for it alone must not ask again.
    if device().is_none() {
        return;
    }
    report(check);
    let ran = RAN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let names = |at: usize| {
        let of = |(name, counts): (&String, &[usize; 2])| (counts[at] > 0).then(|| name.clone());
        ran.iter().filter_map(of).collect::<Vec<_>>().join(" ")
    };
    eprintln!("on the card: {}\n\non the host: {}", names(0), names(1));
}

fn check(case: &Case) -> Result<Vec<String>> {
    let within = Tolerance {
        rtol: case.rtol.unwrap_or(0.0).max(TOLERANCE.rtol),
        atol: case.atol.unwrap_or(0.0).max(TOLERANCE.atol),
    };
    let (op, mut values, mut found) = (case.op(), case.input_values(), Vec::new());
    found.extend(step(&op, &mut values, within)?);
    for (slot, i, target) in named(&case.targets) {
        values.insert(grad_name(&case.output_name(slot, i)), target.value());
    }
    for grad in gradient_ops(case, &op, &mut values)? {
        found.extend(step(&grad, &mut values, within)?);
    }
    Ok(found)
}

/// Runs an op on the card and on the host, and says how they differ; `values` gets what the host made.
fn step(op: &Op, values: &mut Values, within: Tolerance) -> Result<Vec<String>> {
    // Not by `device`, which the test holds: to take it twice is to wait for who wants it alone.
    let device = bireme_cuda::open(0)?;
    let mut on_card = values.clone();
    run_once(op, values)?;
    let is_on_card = run_once_on(&device, op, &mut on_card)?;
    let mut ran = RAN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    ran.entry(op.kind.clone()).or_default()[usize::from(!is_on_card)] += 1;
    if !is_on_card {
        return Ok(Vec::new());
    }
    let outputs = op.output_vars().filter(|name| *name != EMPTY_VAR);
    let differ = |name: &String| {
        let what = difference(&values[name], &on_card[name], within)?;
        Some(format!("`{}` on the card: `{name}` {what}", op.kind))
    };
    Ok(outputs.filter_map(differ).collect())
}
