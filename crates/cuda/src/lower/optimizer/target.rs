//! A parameter with its gradient, accumulators and numbers, as kernels are given them.

use bireme_ir::DType;
use bytemuck::{Pod, Zeroable};

use super::super::divider::{MAX_DIVIDEND, divider};
use super::super::{Lowering, Outcome, Var, host};
use crate::work::Ref;

/// What an op says of its update, the tensors left aside.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// What its kernels are called.
    pub(crate) name: &'static str,
    /// The slots of accumulators: `(input, output)`.
    pub(crate) state: &'static [(&'static str, &'static str)],
    /// The slots of the powers of decay rates, and where those lie that have been raised already.
    pub(crate) powers: &'static [&'static str],
    pub(crate) before: [Ref; 2],
    /// In the order that the rule names them in (`kernels/rules.cuh`).
    pub(crate) attributes: [f64; 6],
    /// Whether rows that a sparse gradient does not name stay as they are; else their gradient is zero.
    pub(crate) keeps_rows: bool,
}

/// Where one parameter's update finds everything.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) dtype: DType,
    /// Elements in all, and in a row.
    pub(crate) count: usize,
    pub(crate) width: usize,
    /// Where it is read, and where it is written.
    pub(crate) param: [Ref; 2],
    pub(crate) grad: Ref,
    /// Of a gradient that is merged rows: where each row of the parameter finds its own; null otherwise.
    pub(crate) index: Ref,
    /// Accumulators, as the parameter.
    pub(crate) state: Vec<[Ref; 2]>,
    /// Elements from one row to the next, of the parameter and of each accumulator; where rows lie apart, an update
    /// is in place.
    pub(crate) pitches: Vec<usize>,
    /// The learning rate and the powers of decay rates; which of them are of 64 bits.
    pub(crate) numbers: [Ref; 3],
    pub(crate) doubles: u32,
}

/// What a kernel knows of a target beside its places, as in `kernels/rules.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct Extent {
    pub(super) attributes: Attributes,
    count: i64,
    pub(super) first_block: u32,
    width: [u32; 3],
}

impl Extent {
    /// The word that begins with the first block.
    pub(super) const BLOCK_WORD: usize = std::mem::offset_of!(Extent, first_block) / 8;
}

/// The numbers of a rule, as in `kernels/rules.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(super) struct Attributes {
    of: [f64; 6],
    doubles: u32,
    unused: u32,
}

/// What an op updates: its parameter, or the master copy of one of 16 bits.
fn updated(cx: &Lowering<'_>) -> Outcome<(Var, Var)> {
    match (cx.maybe_input("MasterParam"), cx.maybe_output("MasterParamOut")) {
        (Some(from), Some(to)) => Ok((from.dense()?, to.dense()?)),
        _ => Ok((cx.input("Param")?.dense()?, cx.output("ParamOut")?.dense()?)),
    }
}

/// Gives the parameter what its master copy has become; they are of one type here (`lower/widen.rs`).
pub(super) fn round(cx: &mut Lowering<'_>) -> Outcome {
    let Some(master) = cx.maybe_output("MasterParamOut") else { return Ok(()) };
    let (master, param) = (master.dense()?, cx.output("ParamOut")?.dense()?);
    if master.dtype != param.dtype {
        return host();
    }
    cx.copy(master.at, param.at, master.bytes());
    Ok(())
}

/// Elements from one row to the next, the same where it is read and where it is written.
fn pitch(from: &Var, to: &Var) -> Outcome<usize> {
    match (from.has_gaps(), to.has_gaps()) {
        (false, false) => Ok(from.width()),
        _ if from.pitch == to.pitch => Ok(from.pitch),
        _ => host(),
    }
}

impl Target {
    /// The target of an op, with its gradient as a variable: dense or selected rows.
    pub(super) fn of(cx: &Lowering<'_>, rule: &Rule) -> Outcome<(Target, Var)> {
        let ((param, param_out), grad) = (updated(cx)?, cx.input("Grad")?);
        if !matches!(param.dtype, DType::F32 | DType::F64) || grad.dtype != param.dtype {
            return host();
        }
        let is_rows = grad.selected.is_some();
        if grad.numel() != param.numel() || is_rows && param.numel() >= MAX_DIVIDEND {
            return host();
        }
        let mut state = Vec::new();
        let mut pitches = vec![pitch(&param, &param_out)?];
        for (input, output) in rule.state {
            let (from, to) = (cx.input(input)?.dense()?, cx.output(output)?.dense()?);
            if from.numel() != param.numel() || from.dtype != param.dtype {
                return host();
            }
            pitches.push(pitch(&from, &to)?);
            state.push([from.at, to.at]);
        }
        let mut numbers = [Ref::NULL; 3];
        let mut doubles = 0;
        for (at, slot) in ["LearningRate"].iter().chain(rule.powers).enumerate() {
            let number = cx.input(slot)?.dense()?;
            match number.dtype {
                _ if number.numel() == 0 => return host(),
                DType::F32 => {}
                DType::F64 => doubles |= 1 << at,
                _ => return host(),
            }
            let before = at.checked_sub(1).map_or(Ref::NULL, |power| rule.before[power]);
            numbers[at] = if before == Ref::NULL { number.at } else { before };
        }
        let target = Target {
            dtype: param.dtype,
            count: param.numel(),
            width: grad.width(),
            param: [param.at, param_out.at],
            grad: grad.at,
            index: Ref::NULL,
            state,
            pitches,
            numbers,
            doubles,
        };
        Ok((target, grad))
    }

    /// Whether rows of it lie apart.
    pub(super) fn has_gaps(&self) -> bool {
        self.pitches.iter().any(|pitch| *pitch != self.width)
    }

    /// The pointers of a kernel's structure, in its order.
    pub(super) fn places(&self) -> Vec<Ref> {
        let mut places = vec![self.param[0], self.param[1], self.grad, self.index];
        for side in 0..2 {
            places.extend(self.room().map(|state| state[side]));
        }
        places.extend(self.numbers);
        places
    }

    /// The accumulators; kernels have room for at least one.
    pub(super) fn room(&self) -> impl Iterator<Item = [Ref; 2]> {
        let none = self.state.is_empty().then_some([Ref::NULL; 2]);
        self.state.iter().copied().chain(none)
    }

    pub(super) fn attributes(&self, rule: &Rule) -> Attributes {
        Attributes { of: rule.attributes, doubles: self.doubles, unused: 0 }
    }

    pub(super) fn extent(&self, rule: &Rule, first_block: u32) -> Extent {
        let width = if self.index == Ref::NULL { 1 } else { self.width };
        Extent {
            attributes: self.attributes(rule),
            count: self.count as i64,
            first_block,
            width: divider(width.max(1)),
        }
    }
}
