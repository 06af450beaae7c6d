//! Ops of networks, forward and back, with variables that are called as their slots.

use bireme_engine::tensor::Tensor;
use bireme_ir::{Attr, DType, Op};

use crate::beside_host::{Values, check_wide, draw_targets, gradient_ops, refused, written};
use crate::draws::{Draws, as_type};

/// An op and its variables.
pub(crate) struct Net {
    op: Op,
    values: Values,
    dtype: DType,
    draws: Draws,
}

/// An op of 32-bit floats.
pub(crate) fn net(kind: &str) -> Net {
    Net { op: Op::new(kind), values: Values::new(), dtype: DType::F32, draws: Draws(1) }
}

impl Net {
    /// Of other floats.
    pub(crate) fn of(mut self, dtype: DType) -> Net {
        self.dtype = dtype;
        self
    }

    /// An input of real numbers between two limits.
    pub(crate) fn real(mut self, slot: &str, dims: &[usize], low: f64, high: f64) -> Net {
        let value = self.draws.tensor(self.dtype, dims, low, high);
        self.input(slot, value)
    }

    /// An input of whole numbers from 0, below `bound`.
    pub(crate) fn whole(mut self, slot: &str, dims: &[usize], bound: usize) -> Net {
        let value = self.draws.whole(dims, bound);
        self.input(slot, value)
    }

    /// An input.
    pub(crate) fn input(mut self, slot: &str, tensor: Tensor) -> Net {
        let vars = self.op.inputs.entry(slot.to_owned()).or_default();
        let name = if vars.is_empty() { slot.to_owned() } else { format!("{slot}.{}", vars.len()) };
        vars.push(name.clone());
        self.values.insert(name, tensor.into());
        self
    }

    /// Outputs.
    pub(crate) fn out<const N: usize>(mut self, slots: [&str; N]) -> Net {
        for slot in slots {
            self.op.outputs.insert(slot.to_owned(), vec![slot.to_owned()]);
        }
        self
    }

    /// Several outputs in one slot.
    pub(crate) fn outs(mut self, slot: &str, count: usize) -> Net {
        let names = (0..count).map(|i| format!("{slot}.{i}")).collect();
        self.op.outputs.insert(slot.to_owned(), names);
        self
    }

    /// An attribute.
    pub(crate) fn attr(mut self, name: &str, value: impl Into<Attr>) -> Net {
        self.op.attrs.insert(name.to_owned(), value.into());
        self
    }

    /// Runs the op and its gradient on both, which must agree.
    pub(crate) fn check(mut self) {
        let op = self.op.clone();
        self.step(&op);
        draw_targets(&op, &mut self.values);
        for grad in self.gradients(&op) {
            self.step(&grad);
        }
    }

    /// Runs `op` and the op that is named as its gradient, where the definition has none of its own.
    pub(crate) fn check_with(mut self, gradient: impl Fn(&Op) -> Op) {
        let op = self.op.clone();
        self.step(&op);
        draw_targets(&op, &mut self.values);
        self.step(&gradient(&op));
    }

    /// The gradient ops, of all inputs that are floats.
    fn gradients(&self, op: &Op) -> Vec<Op> {
        let is_float =
            |name: &str| self.values.get(name).is_some_and(|value| value.dtype().is_float());
        gradient_ops(op, &self.values, is_float)
    }

    /// One op on both; the host's values are kept, as narrow as the card has them.
    fn step(&mut self, op: &Op) {
        let made = check_wide(op, &self.values);
        for name in written(op) {
            let value = made[name].tensor().unwrap();
            let is_narrow =
                matches!(self.dtype, DType::BF16 | DType::F16) && value.dtype() == DType::F32;
            let kept = if is_narrow { as_type(value, self.dtype) } else { value.clone() };
            self.values.insert(name.clone(), kept.into());
        }
    }

    /// Both refuse the op, the card in words that contain `text`.
    pub(crate) fn refused(self, text: &str) {
        refused(&self.op, &self.values, text);
    }
}
