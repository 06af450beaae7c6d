//! An op of a program seen through its definition: typed attributes with defaults, slots as
//! positions. Everything here happens when a program is built or planned, never in a step.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use bireme_ir::{Attr, DType, Op, Scalar, Slot, Slots};

use super::halves::widened;
use super::{Kernel, OpDef};
use crate::collective::Link;
use crate::remote::{Remote, not_connected};
use crate::{Error, Result};

/// The position of an input variable of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct In(pub(crate) u16);

impl In {
    /// Its position among the op's inputs in flat order.
    pub fn position(self) -> usize {
        usize::from(self.0)
    }
}

/// The position of an output variable of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Out(pub(crate) u16);

impl Out {
    /// Its position among the op's outputs in flat order.
    pub fn position(self) -> usize {
        usize::from(self.0)
    }
}

/// The most inputs, or outputs, of one op.
const MAX_VARS: usize = u16::MAX as usize;

/// An op and its definition.
#[derive(Clone, Copy)]
pub struct OpView<'a> {
    /// The op.
    pub op: &'a Op,
    /// Its definition.
    pub def: &'static OpDef,
    /// Seed for random ops that have none of their own.
    pub seed: u64,
    /// Who answers ops that ask other processes.
    pub remote: Option<&'a Arc<dyn Remote>>,
    /// The way to the other ranks of a collective job.
    pub link: Option<&'a Arc<Link>>,
    /// Of each output in flat order, how often the step wrote a variable of its name before; nothing
    /// for the first time.
    pub(crate) versions: &'a [u32],
}

impl<'a> OpView<'a> {
    /// Looks `op` up in the list of definitions.
    ///
    /// # Errors
    /// When there is no such op, or it has more variables than [`In`] and [`Out`] can count.
    pub fn new(op: &'a Op) -> Result<OpView<'a>> {
        let def = crate::ops::find(&op.kind)?;
        for (what, slots) in [("inputs", &op.inputs), ("outputs", &op.outputs)] {
            let count = slots.values().map(Vec::len).sum::<usize>();
            if count > MAX_VARS {
                return Err(Error::kernel(format!("has {count} {what}, more than {MAX_VARS}")));
            }
        }
        Ok(OpView::of(op, def))
    }

    /// An op that was looked up before.
    pub(crate) fn of(op: &'a Op, def: &'static OpDef) -> OpView<'a> {
        OpView { op, def, seed: 0, remote: None, link: None, versions: &[] }
    }

    /// What runs this op each step.
    ///
    /// # Errors
    /// When the op refuses its slots or attributes.
    pub(crate) fn kernel(&self) -> Result<Kernel> {
        let kernel = (self.def.kernel)(self)?;
        Ok(if self.def.any_width { kernel } else { widened(kernel) })
    }

    /// Who answers this op.
    ///
    /// # Errors
    /// When nobody does.
    pub fn remote(&self) -> Result<Arc<dyn Remote>> {
        self.remote.cloned().ok_or_else(|| not_connected(&self.op.kind))
    }

    /// The way to the other ranks.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn link(&self) -> Result<Arc<Link>> {
        self.link.cloned().ok_or_else(|| crate::collective::alone(&self.op.kind))
    }

    /// Input variables in slot order: what [`In`] counts.
    pub fn flat_inputs(&self) -> impl Iterator<Item = &'a String> + use<'a> {
        let op = self.op;
        self.def.signature.inputs.iter().flat_map(move |slot| op.inputs_of(slot.name))
    }

    /// Output variables in slot order: what [`Out`] counts.
    pub fn flat_outputs(&self) -> impl Iterator<Item = &'a String> + use<'a> {
        let op = self.op;
        self.def.signature.outputs.iter().flat_map(move |slot| op.outputs_of(slot.name))
    }

    /// The variable in input slot `slot`.
    ///
    /// # Errors
    /// When the slot is empty.
    pub fn input(&self, slot: &str) -> Result<In> {
        self.maybe_input(slot).ok_or_else(|| Error::kernel(format!("input slot `{slot}` is empty")))
    }

    /// The variable in input slot `slot`, if there is one.
    pub fn maybe_input(&self, slot: &str) -> Option<In> {
        range(self.def.signature.inputs, &self.op.inputs, slot).next().map(In)
    }

    /// All variables in input slot `slot`.
    pub fn inputs(&self, slot: &str) -> Vec<In> {
        range(self.def.signature.inputs, &self.op.inputs, slot).map(In).collect()
    }

    /// The variable in output slot `slot`.
    ///
    /// # Errors
    /// When the slot is empty.
    pub fn output(&self, slot: &str) -> Result<Out> {
        self.maybe_output(slot)
            .ok_or_else(|| Error::kernel(format!("output slot `{slot}` is empty")))
    }

    /// The variable in output slot `slot`, if there is one.
    pub fn maybe_output(&self, slot: &str) -> Option<Out> {
        range(self.def.signature.outputs, &self.op.outputs, slot).next().map(Out)
    }

    /// All variables in output slot `slot`.
    pub fn outputs(&self, slot: &str) -> Vec<Out> {
        range(self.def.signature.outputs, &self.op.outputs, slot).map(Out).collect()
    }

    /// What random ops key their generator by: the name of the variable in output slot `slot`, told
    /// apart from other values of that name.
    pub fn output_key(&self, slot: &str) -> String {
        let name = self.op.outputs_of(slot).first().map_or("", String::as_str);
        let version = |out: Out| self.versions.get(usize::from(out.0)).copied();
        match self.maybe_output(slot).and_then(version) {
            None | Some(0) => name.to_owned(),
            Some(version) => format!("{name}@{version}"),
        }
    }

    /// Kernels hold a shared reference to each input and an exclusive one to each output; this is where
    /// that is made true.
    ///
    /// # Errors
    /// When the op writes a variable twice, or one it reads without being made for that.
    pub(crate) fn check_aliases(&self) -> Result<()> {
        let (inputs, outputs): (Vec<_>, Vec<_>) =
            (self.flat_inputs().collect(), self.flat_outputs().collect());
        self.check_aliases_of(&inputs, &outputs)
    }

    /// As [`OpView::check_aliases`], of variables by what tells them apart, in flat order.
    pub(crate) fn check_aliases_of<T: Eq + Hash>(&self, inputs: &[T], outputs: &[T]) -> Result<()> {
        let mut written = HashSet::new();
        for (output, name) in outputs.iter().zip(self.flat_outputs()) {
            if !written.insert(output) && name != bireme_ir::EMPTY_VAR {
                return Err(Error::kernel(format!("writes `{name}` twice")));
            }
        }
        for slot in self.def.signature.inputs {
            for (at, name) in self.inputs(slot.name).iter().zip(self.op.inputs_of(slot.name)) {
                let input = &inputs[usize::from(at.0)];
                let is_it = |out: &Out| outputs[usize::from(out.0)] == *input;
                let mut inplace = self.def.inplace.iter().filter(|(from, _)| *from == slot.name);
                let allowed = inplace.any(|(_, to)| self.outputs(to).iter().any(is_it));
                if written.contains(input) && !allowed {
                    return Err(Error::kernel(format!(
                        "reads `{name}` and writes it too, which this op cannot do in place"
                    )));
                }
            }
        }
        Ok(())
    }

    /// The attribute as the program or its default gives it.
    ///
    /// # Errors
    /// When it has neither.
    pub fn attr(&self, name: &str) -> Result<Attr> {
        self.maybe_attr(name)
            .ok_or_else(|| Error::kernel(format!("attribute `{name}` must be given")))
    }

    /// The attribute, if the program or its default gives one.
    pub fn maybe_attr(&self, name: &str) -> Option<Attr> {
        if let Some(attr) = self.op.attrs.get(name) {
            return Some(attr.clone());
        }
        let spec = self.def.signature.attrs.iter().find(|spec| spec.name == name)?;
        spec.default.value()
    }

    /// A truth value.
    ///
    /// # Errors
    /// When the attribute is missing or of another type; so for all that follow.
    pub fn bool(&self, name: &str) -> Result<bool> {
        Ok(self.i64(name)? != 0)
    }

    /// An integer.
    pub fn i64(&self, name: &str) -> Result<i64> {
        Ok(match self.attr(name)? {
            Attr::Int(value) | Attr::Block(value) => i64::from(value),
            Attr::Long(value) | Attr::Scalar(Scalar::Long(value)) => value,
            Attr::Bool(value) | Attr::Scalar(Scalar::Bool(value)) => i64::from(value),
            other => return Err(wrong_type(name, "an integer", &other)),
        })
    }

    /// A real number.
    pub fn f64(&self, name: &str) -> Result<f64> {
        Ok(match self.attr(name)? {
            Attr::Float(value) => f64::from(value),
            Attr::Float64(value) | Attr::Scalar(Scalar::Float64(value)) => value,
            Attr::Int(value) => f64::from(value),
            Attr::Long(value) | Attr::Scalar(Scalar::Long(value)) => value as f64,
            other => return Err(wrong_type(name, "a number", &other)),
        })
    }

    /// A single-precision number.
    pub fn f32(&self, name: &str) -> Result<f32> {
        Ok(self.f64(name)? as f32)
    }

    /// Integers.
    pub fn longs(&self, name: &str) -> Result<Vec<i64>> {
        Ok(match self.attr(name)? {
            Attr::Ints(values) => values.into_iter().map(i64::from).collect(),
            Attr::Longs(values) => values,
            Attr::Int(value) => vec![i64::from(value)],
            Attr::Long(value) => vec![value],
            Attr::Bools(values) => values.into_iter().map(i64::from).collect(),
            // An empty list loses its type in some of Paddle's files.
            Attr::Floats(values) if values.is_empty() => Vec::new(),
            other => return Err(wrong_type(name, "integers", &other)),
        })
    }

    /// Real numbers.
    pub fn floats(&self, name: &str) -> Result<Vec<f64>> {
        Ok(match self.attr(name)? {
            Attr::Floats(values) => values.into_iter().map(f64::from).collect(),
            Attr::Float64s(values) => values,
            Attr::Ints(values) => values.into_iter().map(f64::from).collect(),
            other => return Err(wrong_type(name, "numbers", &other)),
        })
    }

    /// A text.
    pub fn string(&self, name: &str) -> Result<String> {
        match self.attr(name)? {
            Attr::String(value) => Ok(value),
            other => Err(wrong_type(name, "a text", &other)),
        }
    }

    /// Texts.
    pub fn strings(&self, name: &str) -> Result<Vec<String>> {
        match self.attr(name)? {
            Attr::Strings(values) => Ok(values),
            // An empty list loses its type in some of Paddle's files.
            Attr::Ints(values) if values.is_empty() => Ok(Vec::new()),
            other => Err(wrong_type(name, "texts", &other)),
        }
    }

    /// An element type, given by Paddle's number.
    pub fn dtype(&self, name: &str) -> Result<DType> {
        let code = self.i64(name)?;
        i32::try_from(code).ok().and_then(DType::from_code).ok_or_else(|| {
            Error::kernel(format!("attribute `{name}` is {code}, which is no element type"))
        })
    }
}

fn range(table: &'static [Slot], slots: &Slots, name: &str) -> impl Iterator<Item = u16> + use<> {
    let count = |slot: &Slot| slots.get(slot.name).map_or(0, Vec::len);
    let first = table.iter().take_while(|slot| slot.name != name).map(count).sum::<usize>();
    let len = table.iter().find(|slot| slot.name == name).map_or(0, count);
    debug_assert!(table.iter().any(|slot| slot.name == name), "slot `{name}` is in the signature");
    let position = |at: usize| u16::try_from(at).expect("`OpView::new` counted the variables");
    position(first)..position(first + len)
}

fn wrong_type(name: &str, expected: &str, given: &Attr) -> Error {
    Error::kernel(format!("attribute `{name}` must be {expected}, not {:?}", given.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_variables_than_positions_are_refused() {
        let op = |count: usize| {
            let names = (0..count).map(|i| format!("x{i}")).collect::<Vec<_>>();
            let mut op = Op::new("sum").output("Out", ["out"]);
            op.inputs.insert("X".to_owned(), names);
            op
        };
        let most = op(MAX_VARS);
        assert_eq!(OpView::new(&most).unwrap().inputs("X").len(), MAX_VARS);
        let error = OpView::new(&op(MAX_VARS + 1)).err().unwrap().to_string();
        assert_eq!(error, "has 65536 inputs, more than 65535");
    }
}
