//! From an optimizer op to its rule: finds parameter, gradient and accumulators, and applies the
//! rule to a dense gradient or to selected rows.

use bireme_ir::DType;

use super::merge_rows::RowMergers;
use super::shared::SharedUpdate;
use super::step::MASTER;
use super::{Loops, Real, rule};
use crate::op::{In, OpView, Out, Run};
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
    param: (In, Out),
    /// The parameter of 16 bits that a master copy is rounded to.
    rounded: Option<Out>,
    grad: In,
    learning_rate: In,
    state: [(In, Out); N],
    mergers: RowMergers,
}

impl<const N: usize> Update<N> {
    /// Finds `Param`, `Grad`, `LearningRate` and the accumulators, given as pairs of slots
    /// `(input, output)`.
    pub(super) fn new(op: &OpView<'_>, state: [(&str, &str); N]) -> Result<Update<N>> {
        let pair = |input, output| Ok::<_, Error>((op.input(input)?, op.output(output)?));
        let own = pair("Param", "ParamOut")?;
        let master = op.maybe_input(MASTER.0).zip(op.maybe_output(MASTER.1));
        let param = master.unwrap_or(own);
        let mut slots = [param; N];
        for (slot, (input, output)) in slots.iter_mut().zip(state) {
            *slot = pair(input, output)?;
        }
        Ok(Update {
            param,
            rounded: master.map(|_| own.1),
            grad: op.input("Grad")?,
            learning_rate: op.input("LearningRate")?,
            state: slots,
            mergers: RowMergers::default(),
        })
    }

    /// The parameter's element type.
    pub(super) fn dtype(&self, run: &Run<'_>) -> Result<DType> {
        Ok(run.tensor(self.param.0)?.dtype())
    }

    /// Whether the gradient holds selected rows.
    pub(super) fn is_sparse(&self, run: &Run<'_>) -> bool {
        run.value(self.grad).rows().is_some()
    }

    /// The learning rate of this step.
    pub(super) fn learning_rate(&self, run: &Run<'_>) -> Result<f64> {
        number(run, self.learning_rate)
    }

    /// Rounds the master copy, if there is one, to the parameter.
    pub(super) fn round(&self, run: &Run<'_>) -> Result<()> {
        let Some(rounded) = self.rounded else { return Ok(()) };
        let master = run.out(self.param.1)?;
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
        let param = run.continued(self.param.0, self.param.1)?;
        let state = accumulators(run, &self.state, param.numel())?;
        if param.is_shared() || state.iter().any(|state| state.is_shared()) {
            return self.apply_shared(run, rule, absent, SharedUpdate::new(param, state)?);
        }
        let (param, state) = (param.as_mut_slice::<T>()?, slices(state)?);
        match run.value(self.grad) {
            Value::Tensor(grad) => {
                rule::update(rule, param, dense(grad, param.len())?, state);
            }
            Value::Rows(grad) => {
                check_rows(grad, param.len())?;
                let height = grad.height;
                let merger = self.mergers.of::<T>();
                if absent == Absent::Keep {
                    rule::update_rows(rule, param, state, &merger.merge(grad, height)?);
                } else {
                    let (merged, order) = merger.merge_sorted(grad, height)?;
                    rule::update_all_rows(rule, param, state, &merged, order);
                }
            }
        }
        self.round(run)
    }

    /// Applies `rule` to memory that training threads share.
    #[cold]
    fn apply_shared<T: Real, R: Loops<T, N>>(
        &mut self,
        run: &Run<'_>,
        rule: &R,
        absent: Absent,
        mut update: SharedUpdate<'_, T, N>,
    ) -> Result<()> {
        let len = update.len();
        match run.value(self.grad) {
            Value::Tensor(grad) => update.update(rule, dense(grad, len)?),
            Value::Rows(grad) => {
                check_rows(grad, len)?;
                let height = grad.height;
                let merger = self.mergers.of::<T>();
                if absent == Absent::Keep {
                    update.update_rows(rule, &merger.merge(grad, height)?);
                } else {
                    let (merged, order) = merger.merge_sorted(grad, height)?;
                    update.update_all_rows(rule, &merged, order);
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
        let param = run.update::<T>(self.param.0, self.param.1)?;
        let state = slices(accumulators(run, &self.state, param.len())?)?;
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

/// The slices of one update.
pub(super) struct Whole<'a, T, const N: usize> {
    pub(super) param: &'a mut [T],
    pub(super) grad: &'a [T],
    pub(super) state: [&'a mut [T]; N],
}

/// The powers of the decay rates that Adam and its kin keep beside a parameter.
pub(super) struct Power {
    input: In,
    output: Option<Out>,
    base: f64,
}

impl Power {
    /// The power of attribute `base` in slot `slot`.
    pub(super) fn new(op: &OpView<'_>, slot: &str, base: &str) -> Result<Power> {
        let output = op.maybe_output(&format!("{slot}Out"));
        Ok(Power { input: op.input(slot)?, output, base: op.f64(base)? })
    }

    /// Its value in this step.
    pub(super) fn get(&self, run: &Run<'_>) -> Result<f64> {
        number(run, self.input)
    }

    /// Raises it for the next step, or keeps it; an op whose output slot is empty leaves this to
    /// another.
    pub(super) fn advance(&self, run: &Run<'_>, keep: bool) -> Result<()> {
        let Some(output) = self.output else { return Ok(()) };
        let base = if keep { 1.0 } else { self.base };
        crate::dispatch!(run.tensor(self.input)?.dtype(), T in [f32, f64] => {
            for power in run.update::<T>(self.input, output)? {
                *power *= base as T;
            }
            Ok(())
        }, else => Err(Error::kernel("powers of decay rates are float32 or float64")))
    }
}

/// The accumulators, which have `len` elements each.
fn accumulators<'a, const N: usize>(
    run: &Run<'a>,
    slots: &[(In, Out); N],
    len: usize,
) -> Result<[&'a mut Tensor; N]> {
    collect(slots.map(|(input, output)| {
        let tensor = run.continued(input, output)?;
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
pub(super) fn number(run: &Run<'_>, input: In) -> Result<f64> {
    match run.tensor(input)?.dtype() {
        DType::F64 => run.first::<f64>(input),
        _ => Ok(f64::from(run.first::<f32>(input)?)),
    }
}
