//! An op of a program seen through its definition: typed attributes with defaults, slots as
//! positions. Everything here happens when a program is built or planned, never in a step.

use std::collections::HashSet;
use std::hash::Hash;
use std::ops::Range;
use std::sync::Arc;

use bireme_ir::{Attr, DType, Op, Scalar, Slot, Slots};

use super::halves::{ROUND_FACTORS, widened};
use super::handles::{Handles, MAX_VARS};
use super::{In, InOut, Kernel, OpDef, Out};
use crate::collective::Link;
use crate::remote::{Held, Remote, not_connected};
use crate::{Error, Result};

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
    /// What a `recv` op keeps of its last run, where its outputs are still there in the next.
    pub(crate) held: Option<&'a Arc<Held>>,
    /// Of each output in flat order, how often the step wrote a variable of its name before; nothing
    /// for the first time.
    pub(crate) versions: &'a [u32],
    /// What gives handles to the kernel that is being made, while one is.
    pub(crate) handles: Option<&'a Handles>,
}

impl<'a> OpView<'a> {
    /// Looks `op` up in the list of definitions.
    ///
    /// # Errors
    /// When there is no such op, or it has more variables than handles can count.
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
        OpView {
            op,
            def,
            seed: 0,
            remote: None,
            link: None,
            held: None,
            versions: &[],
            handles: None,
        }
    }

    /// What runs this op each step.
    ///
    /// # Errors
    /// When the op refuses its slots or attributes, or the kernel asks twice for an output.
    pub(crate) fn kernel(&self) -> Result<Kernel> {
        let handles = Handles::new();
        let kernel = (self.def.kernel)(&OpView { handles: Some(&handles), ..*self })?;
        handles.check()?;
        let rounds = self.rounds_factors();
        Ok(if self.def.any_width { kernel } else { widened(kernel, rounds) })
    }

    /// Whether its products may round their factors to 16 bits.
    pub(crate) fn rounds_factors(&self) -> bool {
        self.op.attrs.contains_key(ROUND_FACTORS)
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

    /// Input variables in slot order: what positions of inputs count.
    pub fn flat_inputs(&self) -> impl Iterator<Item = &'a String> + use<'a> {
        let op = self.op;
        self.def.signature.inputs.iter().flat_map(move |slot| op.inputs_of(slot.name))
    }

    /// Output variables in slot order: what positions of outputs count.
    pub fn flat_outputs(&self) -> impl Iterator<Item = &'a String> + use<'a> {
        let op = self.op;
        self.def.signature.outputs.iter().flat_map(move |slot| op.outputs_of(slot.name))
    }

    /// The positions of the variables in input slot `slot` among [`OpView::flat_inputs`].
    pub fn input_positions(&self, slot: &str) -> Range<usize> {
        range(self.def.signature.inputs, &self.op.inputs, slot)
    }

    /// The positions of the variables in output slot `slot` among [`OpView::flat_outputs`].
    pub fn output_positions(&self, slot: &str) -> Range<usize> {
        range(self.def.signature.outputs, &self.op.outputs, slot)
    }

    /// The position of the variable in input slot `slot`.
    ///
    /// # Errors
    /// When the slot is empty.
    pub fn input_position(&self, slot: &str) -> Result<usize> {
        self.input_positions(slot).next().ok_or_else(|| empty("input", slot))
    }

    /// The position of the variable in output slot `slot`.
    ///
    /// # Errors
    /// When the slot is empty.
    pub fn output_position(&self, slot: &str) -> Result<usize> {
        self.output_positions(slot).next().ok_or_else(|| empty("output", slot))
    }

    /// The variable in input slot `slot`, which no output shares; see [`OpView::in_out`] for those that one does.
    ///
    /// # Errors
    /// When the slot is empty.
    pub fn input(&self, slot: &str) -> Result<In> {
        self.maybe_input(slot).ok_or_else(|| empty("input", slot))
    }

    /// The variable in input slot `slot`, if there is one.
    pub fn maybe_input(&self, slot: &str) -> Option<In> {
        self.reading(slot, None).next()
    }

    /// All variables in input slot `slot`.
    pub fn inputs(&self, slot: &str) -> Vec<In> {
        self.reading(slot, None).collect()
    }

    /// The variable in output slot `slot`. A kernel may ask for it once; so for all that follow.
    ///
    /// # Errors
    /// When the slot is empty.
    pub fn output(&self, slot: &str) -> Result<Out> {
        self.maybe_output(slot).ok_or_else(|| empty("output", slot))
    }

    /// The variable in output slot `slot`, if there is one.
    pub fn maybe_output(&self, slot: &str) -> Option<Out> {
        self.writing(slot).next()
    }

    /// All variables in output slot `slot`.
    pub fn outputs(&self, slot: &str) -> Vec<Out> {
        self.writing(slot).collect()
    }

    /// The variable in input slot `input` and the one in slot `output` that continues it.
    ///
    /// # Errors
    /// When one of the slots is empty.
    pub fn in_out(&self, input: &str, output: &str) -> Result<InOut> {
        if self.op.inputs_of(input).is_empty() {
            return Err(empty("input", input));
        }
        self.maybe_in_out(input, output).ok_or_else(|| empty("output", output))
    }

    /// The variable in input slot `input` and the one in slot `output` that continues it, if there are both.
    pub fn maybe_in_out(&self, input: &str, output: &str) -> Option<InOut> {
        self.continuing(input, output).next()
    }

    /// The variables in input slot `input`, each with the one in slot `output` that continues it.
    pub fn in_outs(&self, input: &str, output: &str) -> Vec<InOut> {
        self.continuing(input, output).collect()
    }

    /// Handles to the inputs in slot `slot`. Those that an output other than that in slot `output` may share its
    /// variable with are refused: a kernel that reads them while it writes that output would read what it is writing.
    fn reading(&self, slot: &str, output: Option<&str>) -> impl Iterator<Item = In> {
        let others =
            self.def.inplace.iter().filter(|(from, to)| *from == slot && output != Some(*to));
        let other = others.max_by_key(|(_, to)| self.op.outputs_of(to).len());
        let shared = other.map_or(0, |(_, to)| self.op.outputs_of(to).len());
        self.input_positions(slot).enumerate().map(move |(i, at)| {
            if let (Some(handles), Some((from, to)), true) = (self.handles, other, i < shared) {
                handles.refuse(format!("must ask for input slot `{from}` together with `{to}`"));
            }
            Handles::input(self.handles, at)
        })
    }

    fn writing(&self, slot: &str) -> impl Iterator<Item = Out> {
        self.output_positions(slot).map(move |at| Handles::output(self.handles, slot, at))
    }

    fn continuing(&self, input: &str, output: &str) -> impl Iterator<Item = InOut> {
        let count = self.op.inputs_of(input).len().min(self.op.outputs_of(output).len());
        let pairs = self.reading(input, Some(output)).zip(self.writing(output));
        pairs.take(count).map(|(input, out)| InOut::new(input, out))
    }

    /// What random ops key their generator by: the name of the variable in output slot `slot`, told
    /// apart from other values of that name.
    pub fn output_key(&self, slot: &str) -> String {
        let name = self.op.outputs_of(slot).first().map_or("", String::as_str);
        let version = |at: usize| self.versions.get(at).copied();
        match self.output_positions(slot).next().and_then(version) {
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
            let names = self.op.inputs_of(slot.name).iter().enumerate();
            for (at, (i, name)) in self.input_positions(slot.name).zip(names) {
                let input = &inputs[at];
                let mut inplace = self.def.inplace.iter().filter(|(from, _)| *from == slot.name);
                let continues = |at: usize| outputs[at] == *input;
                let allowed =
                    inplace.any(|(_, to)| self.output_positions(to).nth(i).is_some_and(continues));
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

fn range(table: &'static [Slot], slots: &Slots, name: &str) -> Range<usize> {
    let count = |slot: &Slot| slots.get(slot.name).map_or(0, Vec::len);
    let first = table.iter().take_while(|slot| slot.name != name).map(count).sum::<usize>();
    let len = table.iter().find(|slot| slot.name == name).map_or(0, count);
    debug_assert!(table.iter().any(|slot| slot.name == name), "slot `{name}` is in the signature");
    first..first + len
}

fn empty(what: &str, slot: &str) -> Error {
    Error::kernel(format!("{what} slot `{slot}` is empty"))
}

fn wrong_type(name: &str, expected: &str, given: &Attr) -> Error {
    Error::kernel(format!("attribute `{name}` must be {expected}, not {:?}", given.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(
        miri,
        ignore = "a hundred thousand names take Miri twenty minutes, and nothing here is unsafe"
    )]
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

    /// What kernel makers of the tests below ask for.
    fn kernel_of(make: fn(&OpView<'_>) -> Result<Kernel>, op: &Op) -> Result<Kernel> {
        let def = OpDef { kernel: make, ..*crate::ops::find(&op.kind).unwrap() };
        OpView::of(op, Box::leak(Box::new(def))).kernel()
    }

    #[test]
    fn a_kernel_is_given_an_output_once() {
        let op = Op::new("mul").input("X", ["x"]).input("Y", ["y"]).output("Out", ["out"]);
        let twice = |op: &OpView<'_>| -> Result<Kernel> {
            let _outs = (op.output("Out")?, op.outputs("Out"));
            Ok(Box::new(|_| Ok(())))
        };
        let error = kernel_of(twice, &op).err().unwrap().to_string();
        assert_eq!(error, "an error of the engine: its kernel asks twice for output slot `Out`");
        let once = |op: &OpView<'_>| -> Result<Kernel> {
            let _handles = (op.output("Out")?, op.input("X")?, op.input("X")?);
            Ok(Box::new(|_| Ok(())))
        };
        assert!(kernel_of(once, &op).is_ok());
    }

    #[test]
    fn an_input_that_an_output_may_share_comes_with_it() {
        let op = Op::new("scale").input("X", ["x"]).output("Out", ["x"]);
        let apart = |op: &OpView<'_>| -> Result<Kernel> {
            let _handles = (op.input("X")?, op.output("Out")?);
            Ok(Box::new(|_| Ok(())))
        };
        let error = kernel_of(apart, &op).err().unwrap().to_string();
        assert_eq!(
            error,
            "an error of the engine: its kernel must ask for input slot `X` together with `Out`"
        );
        let together = |op: &OpView<'_>| -> Result<Kernel> {
            op.in_out("X", "Out")?;
            Ok(Box::new(|_| Ok(())))
        };
        assert!(kernel_of(together, &op).is_ok());
    }

    #[test]
    fn an_output_may_be_the_input_at_its_own_place_only() {
        let op = |outputs: [&str; 2]| {
            Op::new("c_identity").input("X", ["a", "b"]).output("Out", outputs)
        };
        assert!(OpView::new(&op(["a", "b"])).unwrap().check_aliases().is_ok());
        let error = OpView::new(&op(["b", "a"])).unwrap().check_aliases().unwrap_err().to_string();
        assert!(error.contains("reads `a` and writes it too"), "{error}");
    }
}
