//! Counters that each training thread keeps for itself, so that none is lost, and that become one at
//! the end.

use bireme_engine::ir::{Attr, Program};
use bireme_engine::tensor::Tensor;
use bireme_engine::{DType, Scope};

use super::lane::Lane;
use crate::{Error, Result};

/// A persistable variable that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Counter {
    pub(super) name: String,
    /// Whether the threads' counts are added up. A window over the last batches is not: that of the
    /// first thread stands for all.
    sum: bool,
}

/// The counters of a program: those that the caller names, and those of its `auc` ops. A thread that
/// is alone needs none.
pub(super) fn find(program: &Program, named: &[String], threads: usize) -> Vec<Counter> {
    if threads < 2 {
        return Vec::new();
    }
    let mut found: Vec<Counter> = Vec::new();
    let mut add = |name: &str, sum: bool| {
        let declared = program.global().var(name).is_some_and(|var| var.persistable);
        if declared && found.iter().all(|counter| counter.name != name) {
            found.push(Counter { name: name.to_owned(), sum });
        }
    };
    named.iter().for_each(|name| add(name, true));
    for op in program.global().ops.iter().filter(|op| op.kind == "auc") {
        let window = !matches!(op.attrs.get("slide_steps"), Some(Attr::Int(0)));
        op.output_vars().for_each(|name| add(name, !window));
    }
    found
}

/// Adds what the threads have counted to what the scope has.
pub(super) fn merge(scope: &Scope, counters: &[Counter], lanes: &[Lane<'_>]) -> Result<()> {
    for counter in counters {
        let of_lanes: Vec<Tensor> =
            lanes.iter().filter_map(|lane| lane.counter(&counter.name)).collect();
        let Some(first) = of_lanes.first() else { continue };
        let mut total = match counter.sum {
            true => scope.get(&counter.name)?,
            false => first.clone(),
        };
        if counter.sum {
            let start = total.clone();
            for counts in &of_lanes {
                add(&mut total, counts, &start).map_err(|problem| {
                    Error::Settings(format!("counter `{}`: {problem}", counter.name))
                })?;
            }
        }
        scope.try_set(&counter.name, &total)?;
    }
    Ok(())
}

/// `total += counts - start`
fn add(total: &mut Tensor, counts: &Tensor, start: &Tensor) -> std::result::Result<(), String> {
    fn each<T: Copy>(to: &mut [T], counts: &[T], start: &[T], sum: impl Fn(T, T, T) -> T) {
        for ((to, &counts), &start) in to.iter_mut().zip(counts).zip(start) {
            *to = sum(*to, counts, start);
        }
    }
    let failed = |error: bireme_engine::Error| error.to_string();
    macro_rules! add_as {
        ($t:ty, $sum:expr) => {{
            let to = total.as_mut_slice::<$t>().map_err(failed)?;
            let counts = counts.as_slice::<$t>().map_err(failed)?;
            each(to, counts, start.as_slice::<$t>().map_err(failed)?, $sum);
        }};
    }
    match total.dtype() {
        DType::I64 => {
            add_as!(i64, |to: i64, n: i64, s: i64| to.wrapping_add(n.wrapping_sub(s)));
        }
        DType::I32 => {
            add_as!(i32, |to: i32, n: i32, s: i32| to.wrapping_add(n.wrapping_sub(s)));
        }
        DType::F32 => add_as!(f32, |to: f32, n: f32, s: f32| to + (n - s)),
        DType::F64 => add_as!(f64, |to: f64, n: f64, s: f64| to + (n - s)),
        other => return Err(format!("values of type {other} cannot be added up")),
    }
    Ok(())
}
