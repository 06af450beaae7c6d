//! `gru_unit`: one step of a gated recurrent unit, around two products with the last state.
//!
//! `Weight` holds two matrices one after the other: `[hidden, 2 * hidden]` for the update and reset
//! gates, then `[hidden, hidden]` for the candidate. Rows of gates hold update gate, reset gate and
//! candidate.

use bireme_ir::DType;

use crate::lower::products::columns::{Matrix, column_sums};
use crate::lower::products::multiply::{dense, float, multiply, plain, turned};
use crate::lower::{Lowering, Outcome, Var, host};
use crate::work::{Product, Ref};

/// What a step works with.
struct Unit {
    rows: usize,
    hidden: usize,
    dtype: DType,
    weight: Ref,
    activation: i32,
    gate: i32,
    is_origin: i32,
}

impl Unit {
    fn of(l: &Lowering<'_>, last: &Var) -> Outcome<Unit> {
        let weight = l.input("Weight")?.dense()?;
        let number = |attr: &str| -> Outcome<i32> {
            match l.op.i64(attr)? {
                kind @ 0..=3 => Ok(kind as i32),
                // The host says what is wrong.
                _ => host(),
            }
        };
        let is_wide = matches!(last.dtype, DType::F32 | DType::F64) && weight.dtype == last.dtype;
        match last.dims[..] {
            [rows, hidden] if is_wide && i32::try_from(3 * rows * hidden).is_ok() => Ok(Unit {
                rows,
                hidden,
                dtype: last.dtype,
                weight: weight.at,
                activation: number("activation")?,
                gate: number("gate_activation")?,
                is_origin: i32::from(l.op.bool("origin_mode")?),
            }),
            _ => host(),
        }
    }

    /// So many elements behind a place.
    fn plus(&self, at: Ref, elements: usize) -> Ref {
        at.plus(elements * self.dtype.size())
    }

    fn elements(&self) -> usize {
        self.rows * self.hidden
    }

    /// The weight of the candidate, behind that of the gates.
    fn candidate_weight(&self) -> Ref {
        self.plus(self.weight, 2 * self.hidden * self.hidden)
    }
}

pub(super) fn forward(l: &mut Lowering<'_>) -> Outcome {
    let (input, last) = (l.input("Input")?.dense()?, l.input("HiddenPrev")?.dense()?);
    let (unit, bias) = (Unit::of(l, &last)?, l.maybe_input("Bias"));
    let is_typed = |var: &Var| var.dtype == unit.dtype;
    if !is_typed(&input) || !bias.as_ref().is_none_or(is_typed) {
        return host();
    }
    let (hidden, n, suffix) = (unit.hidden, unit.elements(), last.suffix()?);
    let size = unit.dtype.size();
    let gates = l.maybe_output("Gate").map(|var| var.at);
    let gates = gates.unwrap_or_else(|| l.scratch(3 * n * size));
    let reset_last = l.maybe_output("ResetHiddenPrev").map(|var| var.at);
    let reset_last = reset_last.unwrap_or_else(|| l.scratch(n * size));
    let out = l.output("Hidden")?;
    let launch = l.over(format!("gru_unit_input_{suffix}"), 3 * n).var(&input);
    launch.maybe(bias.as_ref()).at(gates).size(3 * n).size(3 * hidden).launch();
    let elements = float(unit.dtype)?;
    let sizes = [unit.rows, 2 * hidden, hidden];
    let one = dense(elements, sizes, plain(last.at), plain(unit.weight), gates);
    multiply(l, Product { pitches: [hidden, 2 * hidden, 3 * hidden], beta: 1.0, ..one })?;
    let launch = l.over(format!("gru_unit_reset_{suffix}"), n).at(gates).var(&last);
    launch.at(reset_last).size(n).size(hidden).value(unit.gate).launch();
    let (sizes, to) = ([unit.rows, hidden, hidden], unit.plus(gates, 2 * hidden));
    let one = dense(elements, sizes, plain(reset_last), plain(unit.candidate_weight()), to);
    multiply(l, Product { pitches: [hidden, hidden, 3 * hidden], beta: 1.0, ..one })?;
    let launch = l.over(format!("gru_unit_state_{suffix}"), n).at(gates).var(&last).var(&out);
    launch.size(n).size(hidden).value(unit.activation).value(unit.is_origin).launch();
    Ok(())
}

pub(super) fn backward(l: &mut Lowering<'_>) -> Outcome {
    let last = l.input("HiddenPrev")?.dense()?;
    let unit = Unit::of(l, &last)?;
    let (gates, reset_last) = (l.input("Gate")?.dense()?, l.input("ResetHiddenPrev")?.dense()?);
    let d = l.input("Hidden@GRAD")?.dense()?;
    let (hidden, n, suffix) = (unit.hidden, unit.elements(), last.suffix()?);
    let sizes = [(&gates, 3 * n), (&reset_last, n), (&d, n)];
    if sizes.iter().any(|(var, size)| var.numel() != *size || var.dtype != unit.dtype) {
        return host();
    }
    let size = unit.dtype.size();
    let dgates = l.maybe_output("Input@GRAD").map(|var| var.at);
    let dgates = dgates.unwrap_or_else(|| l.scratch(3 * n * size));
    let dlast = l.maybe_output("HiddenPrev@GRAD").map(|var| var.at);
    let dlast = dlast.unwrap_or_else(|| l.scratch(n * size));
    let dreset = l.scratch(n * size);
    let launch = l.over(format!("gru_unit_grad_{suffix}"), n).var(&gates).var(&last).var(&d);
    let launch = launch.at(dgates).at(dlast).size(n).size(hidden).value(unit.activation);
    launch.value(unit.gate).value(unit.is_origin).launch();
    let elements = float(unit.dtype)?;
    let dcandidate = unit.plus(dgates, 2 * hidden);
    let sizes = [unit.rows, hidden, hidden];
    let one = dense(elements, sizes, plain(dcandidate), turned(unit.candidate_weight()), dreset);
    multiply(l, Product { pitches: [3 * hidden, hidden, hidden], ..one })?;
    let launch = l.over(format!("gru_unit_reset_grad_{suffix}"), n).var(&gates).var(&last);
    launch.at(dreset).at(dgates).at(dlast).size(n).size(hidden).value(unit.gate).launch();
    let sizes = [unit.rows, hidden, 2 * hidden];
    let one = dense(elements, sizes, plain(dgates), turned(unit.weight), dlast);
    multiply(l, Product { pitches: [3 * hidden, 2 * hidden, hidden], beta: 1.0, ..one })?;
    if let Some(dweight) = l.maybe_output("Weight@GRAD") {
        let sizes = [hidden, 2 * hidden, unit.rows];
        let one = dense(elements, sizes, turned(last.at), plain(dgates), dweight.at);
        multiply(l, Product { pitches: [hidden, 3 * hidden, 2 * hidden], ..one })?;
        let to = unit.plus(dweight.at, 2 * hidden * hidden);
        let sizes = [hidden, hidden, unit.rows];
        let one = dense(elements, sizes, turned(reset_last.at), plain(dcandidate), to);
        multiply(l, Product { pitches: [hidden, 3 * hidden, hidden], ..one })?;
    }
    if let Some(dbias) = l.maybe_output("Bias@GRAD") {
        let (rows, columns, dtype) = (unit.rows, 3 * hidden, unit.dtype);
        let matrix = Matrix { at: dgates, dtype, rows, columns, pitch: columns };
        column_sums(l, matrix, Ref::NULL, dbias.at, 1.0)?;
    }
    Ok(())
}
