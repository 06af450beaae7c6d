//! From an optimizer op to its rule: finds parameter, gradient and accumulators, and applies the
//! rule to a dense gradient or to selected rows.

#![expect(unsafe_code, reason = "tasks update parts that do not overlap")]

use bireme_ir::DType;

use super::merge_rows::{RowMerger, RowMergers};
use super::row_ranges::{Cut, RowRanges, RowRangesOfFloats};
use super::shared::SharedUpdate;
use super::step::MASTER;
use super::{Loops, Real, rule};
use crate::crew::{self, Parts};
use crate::op::{In, InOut, OpView, Out, Run};
use crate::tensor::{SelectedRows, Tensor};
use crate::value::Value;
use crate::{Error, Result};

/// What happens to the rows that a sparse gradient does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// They stay as they are.
    Keep,
    /// They are updated with a gradient of zero: accumulators decay, and momentum goes on.
    ZeroGradient,
}

/// The variables of an optimizer op with `N` accumulators.
pub(super) struct Update<const N: usize> {
    /// What is updated: the parameter, or its master copy.
    param: InOut,
    /// The parameter of 16 bits that a master copy is rounded to.
    rounded: Option<Out>,
    grad: In,
    learning_rate: In,
    state: [InOut; N],
    mergers: RowMergers,
    ranges: RowRangesOfFloats,
}

impl<const N: usize> Update<N> {
    /// Finds `Param`, `Grad`, `LearningRate` and the accumulators, given as pairs of slots
    /// `(input, output)`.
    pub(super) fn new(op: &OpView<'_>, state: [(&str, &str); N]) -> Result<Update<N>> {
        let own = op.in_out("Param", "ParamOut")?;
        let (param, rounded) = match op.maybe_in_out(MASTER.0, MASTER.1) {
            Some(master) => (master, Some(own.out)),
            None => (own, None),
        };
        Ok(Update {
            param,
            rounded,
            grad: op.input("Grad")?,
            learning_rate: op.input("LearningRate")?,
            state: collect(state.map(|(input, output)| op.in_out(input, output)))?,
            mergers: RowMergers::default(),
            ranges: RowRangesOfFloats::default(),
        })
    }

    /// The parameter's element type.
    pub(super) fn dtype(&self, run: &Run<'_>) -> Result<DType> {
        Ok(run.before(&self.param)?.dtype())
    }

    /// Whether the gradient holds selected rows.
    pub(super) fn is_sparse(&self, run: &Run<'_>) -> bool {
        run.value(self.grad).rows().is_some()
    }

    /// The learning rate of this step.
    pub(super) fn learning_rate(&self, run: &Run<'_>) -> Result<f64> {
        number(run.tensor(self.learning_rate)?)
    }

    /// Rounds the master copy, if there is one, to the parameter.
    pub(super) fn round(&mut self, run: &Run<'_>) -> Result<()> {
        let Some(rounded) = &mut self.rounded else { return Ok(()) };
        let master = run.out(&mut self.param.out)?;
        run.out(rounded)?.copy_from(master);
        Ok(())
    }

    /// Applies `rule`.
    pub(super) fn apply<T: Real, R: Loops<T, N>>(
        &mut self,
        run: &Run<'_>,
        rule: &R,
        absent: Absent,
    ) -> Result<()> {
        let param = run.continued(&mut self.param)?;
        let state = accumulators(run, &mut self.state, param.numel())?;
        if param.is_shared() || state.iter().any(|state| state.is_shared()) {
            let update = SharedUpdate::new(param, state)?;
            apply_shared(rule, update, run.value(self.grad), absent, &mut self.mergers)?;
            return self.round(run);
        }
        let own = Own { param: param.as_mut_slice::<T>()?, state: slices(state)? };
        match run.value(self.grad) {
            Value::Tensor(grad) => {
                let grad = dense(grad, own.param.len())?;
                own.update(rule, grad);
            }
            Value::Rows(grad) => {
                check_rows(grad, own.param.len())?;
                match RowRanges::<T>::are_worth_it(grad) {
                    true => own.update_ranges(rule, grad, absent, self.ranges.of())?,
                    false => own.update_rows(rule, grad, absent, self.mergers.of())?,
                }
            }
        }
        self.round(run)
    }

    /// Parameter, whole gradient and accumulators, for rules that need norms of whole tensors.
    pub(super) fn whole<'s, 'a: 's, T: Real>(
        &'s mut self,
        run: &Run<'a>,
    ) -> Result<Whole<'s, T, N>> {
        let param = run.update::<T>(&mut self.param)?;
        let state = slices(accumulators(run, &mut self.state, param.len())?)?;
        let grad = match run.value(self.grad) {
            Value::Tensor(grad) => dense(grad, param.len())?,
            Value::Rows(grad) => {
                check_rows(grad, param.len())?;
                self.mergers.of::<T>().scatter(grad)?
            }
        };
        Ok(Whole { param, grad, state })
    }
}

/// A parameter and its accumulators that nobody else touches now.
struct Own<'a, T, const N: usize> {
    param: &'a mut [T],
    state: [&'a mut [T]; N],
}

impl<T: Real, const N: usize> Own<'_, T, N> {
    /// Each element by its gradient; large parameters in blocks, by all threads.
    fn update<R: Loops<T, N>>(self, rule: &R, grad: &[T]) {
        /// Elements that are worth a task: some microseconds.
        const BLOCK: usize = 1 << 14;
        let len = self.param.len();
        let blocks = crew::blocks(len, BLOCK);
        if blocks == 1 {
            return rule::update(rule, self.param, grad, self.state);
        }
        let (param, state) = (Parts::of(self.param), self.state.map(Parts::of));
        crew::each_block(len, blocks, |block| {
            // SAFETY: blocks do not overlap.
            let (param, state) = unsafe {
                (param.part(block.clone()), state.each_ref().map(|one| one.part(block.clone())))
            };
            rule::update(rule, param, &grad[block], state);
        });
    }

    /// The rows of a sparse gradient, on this thread.
    fn update_rows<R: Loops<T, N>>(
        self,
        rule: &R,
        grad: &SelectedRows,
        absent: Absent,
        merger: &mut RowMerger<T>,
    ) -> Result<()> {
        if absent == Absent::Keep {
            let merged = merger.merge(grad, grad.height)?;
            rule::update_rows(rule, self.param, self.state, &merged);
        } else {
            let (merged, order) = merger.merge_sorted(grad, grad.height)?;
            rule::update_all_rows(rule, self.param, self.state, &merged, order);
        }
        Ok(())
    }

    /// The rows of a large sparse gradient, by all threads.
    fn update_ranges<R: Loops<T, N>>(
        self,
        rule: &R,
        grad: &SelectedRows,
        absent: Absent,
        ranges: &mut RowRanges<T>,
    ) -> Result<()> {
        let (cut, width) = match absent {
            Absent::Keep => (Cut::ByUse, grad.width()),
            Absent::ZeroGradient => (Cut::ByRows, grad.width()),
        };
        let (param, state) = (Parts::of(self.param), self.state.map(Parts::of));
        ranges.each(grad, grad.height, cut, |rows, merged, order| {
            let elements = rows.start * width..rows.end * width;
            // SAFETY: ranges of rows do not overlap.
            let (param, state) = unsafe {
                (
                    param.part(elements.clone()),
                    state.each_ref().map(|one| one.part(elements.clone())),
                )
            };
            match absent {
                Absent::Keep => rule::update_rows(rule, param, state, merged),
                Absent::ZeroGradient => rule::update_all_rows(rule, param, state, merged, order),
            }
        })
    }
}

/// Applies `rule` to memory that training threads share.
#[cold]
fn apply_shared<T: Real, R: Loops<T, N>, const N: usize>(
    rule: &R,
    mut update: SharedUpdate<'_, T, N>,
    grad: &Value,
    absent: Absent,
    mergers: &mut RowMergers,
) -> Result<()> {
    let len = update.len();
    match grad {
        Value::Tensor(grad) => update.update(rule, dense(grad, len)?),
        Value::Rows(grad) => {
            check_rows(grad, len)?;
            let height = grad.height;
            let merger = mergers.of::<T>();
            if absent == Absent::Keep {
                update.update_rows(rule, &merger.merge(grad, height)?);
            } else {
                let (merged, order) = merger.merge_sorted(grad, height)?;
                update.update_all_rows(rule, &merged, order);
            }
        }
    }
    Ok(())
}

/// The slices of one update.
pub(super) struct Whole<'a, T, const N: usize> {
    pub(super) param: &'a mut [T],
    pub(super) grad: &'a [T],
    pub(super) state: [&'a mut [T]; N],
}

/// The powers of the decay rates that Adam and its kin keep beside a parameter.
pub(super) struct Power {
    value: PowerValue,
    base: f64,
}

/// Where a power is kept.
enum PowerValue {
    /// The op raises it.
    Own(InOut),
    /// The op's output slot is empty: another op raises it.
    Others(In),
}

impl Power {
    /// The power of attribute `base` in slot `slot`.
    pub(super) fn new(op: &OpView<'_>, slot: &str, base: &str) -> Result<Power> {
        let value = match op.maybe_in_out(slot, &format!("{slot}Out")) {
            Some(own) => PowerValue::Own(own),
            None => PowerValue::Others(op.input(slot)?),
        };
        Ok(Power { value, base: op.f64(base)? })
    }

    /// Its value in this step.
    pub(super) fn get(&self, run: &Run<'_>) -> Result<f64> {
        number(match &self.value {
            PowerValue::Own(own) => run.before(own)?,
            PowerValue::Others(input) => run.tensor(*input)?,
        })
    }

    /// Raises it for the next step, or keeps it, unless that is left to another op.
    pub(super) fn advance(&mut self, run: &Run<'_>, keep: bool) -> Result<()> {
        let PowerValue::Own(power) = &mut self.value else { return Ok(()) };
        let base = if keep { 1.0 } else { self.base };
        crate::dispatch!(run.before(power)?.dtype(), T in [f32, f64] => {
            for power in run.update::<T>(power)? {
                *power *= base as T;
            }
            Ok(())
        }, else => Err(Error::kernel("powers of decay rates are float32 or float64")))
    }
}

/// The accumulators, which have `len` elements each.
fn accumulators<'r, 'a: 'r, const N: usize>(
    run: &Run<'a>,
    state: &'r mut [InOut; N],
    len: usize,
) -> Result<[&'r mut Tensor; N]> {
    collect(state.each_mut().map(|pair| {
        let tensor = run.continued(pair)?;
        if tensor.numel() != len {
            return Err(Error::kernel(format!(
                "an accumulator has {} elements, but `Param` has {len}",
                tensor.numel()
            )));
        }
        Ok(tensor)
    }))
}

fn slices<T: Real, const N: usize>(tensors: [&mut Tensor; N]) -> Result<[&mut [T]; N]> {
    collect(tensors.map(|tensor| tensor.as_mut_slice()))
}

/// All of them, or the first error.
pub(super) fn collect<T, const N: usize>(results: [Result<T>; N]) -> Result<[T; N]> {
    let mut first = None;
    let all = results.map(|result| result.map_err(|error| first.get_or_insert(error)).ok());
    match first {
        Some(error) => Err(error),
        None => Ok(all.map(|one| one.expect("there is no error"))),
    }
}

fn dense<T: Real>(grad: &Tensor, len: usize) -> Result<&[T]> {
    if grad.numel() != len {
        return Err(Error::kernel(format!(
            "`Grad` {} has {} elements, but `Param` has {len}",
            grad.dims(),
            grad.numel()
        )));
    }
    grad.as_slice()
}

fn check_rows(grad: &SelectedRows, len: usize) -> Result<()> {
    if grad.height * grad.width() == len {
        return Ok(());
    }
    Err(Error::kernel(format!(
        "`Grad` is of {} rows of {}, but `Param` has {len} elements",
        grad.height,
        grad.width()
    )))
}

/// A number kept in a float tensor of either type.
pub(super) fn number(tensor: &Tensor) -> Result<f64> {
    let first = match tensor.dtype() {
        DType::F64 => tensor.as_slice::<f64>()?.first().copied(),
        _ => tensor.as_slice::<f32>()?.first().copied().map(f64::from),
    };
    first.ok_or_else(|| Error::kernel("an empty tensor stands for a number"))
}
