//! Compares values, and says in words how they differ.

use bireme_engine::Value;
use bireme_engine::tensor::{SelectedRows, Tensor};

/// How far apart two numbers may be: `atol + rtol * |expected|`.
#[derive(Clone, Copy)]
pub(crate) struct Tolerance {
    pub(crate) rtol: f64,
    pub(crate) atol: f64,
}

impl Tolerance {
    /// Whether `got` is close enough; NaN is close to NaN.
    pub(crate) fn accepts(self, expected: f64, got: f64) -> bool {
        if expected.is_nan() || got.is_nan() {
            return expected.is_nan() && got.is_nan();
        }
        // Infinities are close only to themselves.
        expected == got || (expected - got).abs() <= self.atol + self.rtol * expected.abs()
    }
}

/// What differs, if anything: kind, element type, shape, first wrong element.
pub(crate) fn difference(expected: &Value, got: &Value, within: Tolerance) -> Option<String> {
    match (expected, got) {
        (Value::Tensor(expected), Value::Tensor(got)) => tensors(expected, got, within),
        (Value::Rows(expected), Value::Rows(got)) => rows(expected, got, within),
        (Value::Tensor(_), Value::Rows(_)) => {
            Some("expected a dense tensor, got selected rows".to_owned())
        }
        (Value::Rows(_), Value::Tensor(_)) => {
            Some("expected selected rows, got a dense tensor".to_owned())
        }
    }
}

/// How sequence offsets differ, if they do.
pub(crate) fn lod_difference(expected: &Value, got: &Value) -> Option<String> {
    let (Value::Tensor(expected), Value::Tensor(got)) = (expected, got) else { return None };
    (expected.lod() != got.lod())
        .then(|| format!("expected LoD {:?}, got {:?}", expected.lod(), got.lod()))
}

fn tensors(expected: &Tensor, got: &Tensor, within: Tolerance) -> Option<String> {
    if expected.dtype() != got.dtype() {
        return Some(format!("expected {} elements, got {}", expected.dtype(), got.dtype()));
    }
    if expected.dims() != got.dims() {
        return Some(format!("expected shape {}, got {}", expected.dims(), got.dims()));
    }
    if let (Ok(expected), Ok(got)) = (expected.as_slice::<i64>(), got.as_slice::<i64>()) {
        let wrong = expected.iter().zip(got).position(|(expected, got)| expected != got)?;
        return Some(format!("[{wrong}]: expected {}, got {}", expected[wrong], got[wrong]));
    }
    let within =
        if expected.dtype().is_float() { within } else { Tolerance { rtol: 0.0, atol: 0.0 } };
    numbers(&expected.to_f64_vec(), &got.to_f64_vec(), within)
}

/// The first pair of numbers that differs.
pub(crate) fn numbers(expected: &[f64], got: &[f64], within: Tolerance) -> Option<String> {
    let mut wrong = expected.iter().zip(got).enumerate().filter(|(_, pair)| {
        let (expected, got) = pair;
        !within.accepts(**expected, **got)
    });
    let (i, (expected, got)) = wrong.next()?;
    let more = wrong.count();
    let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
    Some(format!("[{i}]: expected {expected}, got {got}{more}"))
}

/// Selected rows mean a dense tensor: the order of rows, and whether equal ones are merged, is the
/// op's own business.
fn rows(expected: &SelectedRows, got: &SelectedRows, within: Tolerance) -> Option<String> {
    if expected.value.dtype() != got.value.dtype() {
        let (expected, got) = (expected.value.dtype(), got.value.dtype());
        return Some(format!("expected {expected} elements, got {got}"));
    }
    if (expected.height, expected.width()) != (got.height, got.width()) {
        return Some(format!(
            "expected {} rows of {}, got {} rows of {}",
            expected.height,
            expected.width(),
            got.height,
            got.width()
        ));
    }
    match (dense(expected), dense(got)) {
        (Ok(expected), Ok(got)) => numbers(&expected, &got, within),
        (Err(problem), _) | (_, Err(problem)) => Some(problem),
    }
}

/// The tall tensor that selected rows stand for.
pub(crate) fn dense(selected: &SelectedRows) -> Result<Vec<f64>, String> {
    let (width, values) = (selected.width(), selected.value.to_f64_vec());
    if values.len() != selected.rows.len() * width {
        return Err(format!("{} rows hold {} values", selected.rows.len(), values.len()));
    }
    let mut dense = vec![0.0; selected.height * width];
    for (row, values) in selected.rows.iter().zip(values.chunks(width.max(1))) {
        let first = usize::try_from(*row).unwrap_or(usize::MAX).saturating_mul(width);
        let Some(target) = dense.get_mut(first..first.saturating_add(width)) else {
            return Err(format!("row {row} lies outside {} rows", selected.height));
        };
        target.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }
    Ok(dense)
}
