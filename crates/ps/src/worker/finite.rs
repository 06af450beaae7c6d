//! The check before a push: a gradient that is NaN or infinite stays here, for on the servers it would
//! be in every trainer's parameters a step later. It looks once at values that were just computed.

use bireme_engine::Value;
use bireme_engine::finite::{NotFinite, not_finite, not_finite_in};
use bireme_engine::remote::{Sending, TableRef};

use super::geo::Delta;
use crate::{Error, Result};

/// Refuses values that are not finite; `step` says which step it is.
pub(crate) fn check_values(
    how: &Sending,
    values: &[&Value],
    step: impl FnOnce() -> u64,
) -> Result<()> {
    for (piece, value) in how.pieces.iter().zip(values) {
        let found = match value {
            Value::Tensor(tensor) => not_finite(tensor),
            Value::Rows(rows) => not_finite(&rows.value),
        };
        if let Some(bad) = found {
            let place = match value {
                Value::Tensor(_) => format!("element {}", bad.at),
                Value::Rows(rows) => {
                    let width = rows.value.numel() / rows.rows.len().max(1);
                    format!("row {}", rows.rows.get(bad.at / width.max(1)).copied().unwrap_or(0))
                }
            };
            return Err(refused(&piece.name, &place, bad, step()));
        }
    }
    Ok(())
}

/// Refuses gradients of a table's rows, and counts, that are not finite.
pub(crate) fn check_rows(
    table: &TableRef,
    ids: &[&[i64]],
    grads: &[&[f32]],
    counts: Option<&[[f32; 2]]>,
    step: impl FnOnce() -> u64,
) -> Result<()> {
    for (ids, grads) in ids.iter().zip(grads) {
        if let Some(bad) = not_finite_in(grads) {
            let id = ids.get(bad.at / table.width.max(1)).copied().unwrap_or(0);
            let what = format!("{}@GRAD", table.name);
            return Err(refused(&what, &format!("the row of id {id}"), bad, step()));
        }
    }
    match counts.and_then(|counts| not_finite_in(counts.as_flattened())) {
        Some(bad) => {
            let what = format!("show and click of `{}`", table.name);
            Err(refused(&what, &format!("id {} of the batch", bad.at / 2), bad, step()))
        }
        None => Ok(()),
    }
}

/// Refuses the difference of a geo trainer's parameter that is not finite.
pub(crate) fn check_delta(param: &str, delta: &Delta, step: u64) -> Result<()> {
    let Some(bad) = not_finite_in(&delta.values) else { return Ok(()) };
    let place = match &delta.rows {
        None => format!("element {}", bad.at),
        Some(rows) => {
            let width = (delta.values.len() / rows.len().max(1)).max(1);
            format!("row {}", rows.get(bad.at / width).copied().unwrap_or(0))
        }
    };
    Err(refused(param, &place, bad, step))
}

#[cold]
fn refused(var: &str, place: &str, bad: NotFinite, step: u64) -> Error {
    Error::NotFinite { var: var.to_owned(), place: place.to_owned(), what: bad.what, step }
}
