//! One eager op, from its kernel alone to a call with a tape: what a front end starts from.

use std::time::Duration;

use anyhow::Result;
use bireme_engine::Value;
use bireme_engine::eager::{EagerTensor, Form, OpCache, Prepared, Session};
use bireme_engine::tensor::Tensor;
use bireme_ir::Op;

use super::{ROUNDS, time_per_run};

/// Calls between two looks at the clock, which takes longer than a kernel.
const CALLS: u32 = 1000;

/// Seconds for one addition of two elements.
#[derive(Debug)]
pub(crate) struct Eager {
    /// The kernel, on values that exist, with the check of their shapes.
    pub(crate) kernel_s: f64,
    /// A whole call, which makes a tensor.
    pub(crate) call_s: f64,
    /// A call that is put on the tape.
    pub(crate) recorded_s: f64,
}

/// Measures for about `seconds`, after a warm-up.
///
/// # Errors
/// When the engine fails.
pub(crate) fn measure_add(seconds: f64) -> Result<Eager> {
    let pair = || Tensor::from_slice([2], &[1.0f32, 2.0]);
    let op = Op::new("elementwise_add").input("X", ["x"]).input("Y", ["y"]).output("Out", ["z"]);
    let (prepared, x, y) = (Prepared::new(op, 0)?, Value::from(pair()?), Value::from(pair()?));
    let mut sum = [Value::from(pair()?)];
    let kernel = || Ok(prepared.run_on(&[&x, &y], &mut sum, 0)?);

    let (session, cache) = (Session::default(), OpCache::new("elementwise_add")?);
    let form = Form { attrs: &[], inputs: &[1, 1], outputs: &[1] };
    let add = |inputs: &[EagerTensor; 2]| Ok(session.apply(&cache, form, inputs).map(drop)?);
    let plain = [EagerTensor::new(pair()?), EagerTensor::new(pair()?)];
    let wanted = [EagerTensor::new(pair()?), EagerTensor::new(pair()?)];
    wanted[0].set_stop_gradient(false);

    let mut works: [Box<dyn FnMut() -> Result<()>>; 3] =
        [Box::new(kernel), Box::new(|| add(&plain)), Box::new(|| add(&wanted))];
    let mut best = [f64::INFINITY; 3];
    let round = Duration::from_secs_f64(seconds / f64::from(3 * ROUNDS));
    for _ in 0..ROUNDS {
        for (best, work) in best.iter_mut().zip(&mut works) {
            let many = time_per_run(round, || (0..CALLS).try_for_each(|_| work()))?;
            *best = best.min(many / f64::from(CALLS));
        }
    }
    let [kernel_s, call_s, recorded_s] = best;
    Ok(Eager { kernel_s, call_s, recorded_s })
}
