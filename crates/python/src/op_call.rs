//! `ops.<type>(...)`: one callable an op type, for both modes.
//!
//! Inputs are positional, in the order of the signature; keywords are attributes; `_count`, `_into`
//! and `_outputs` say what becomes of the outputs. Eager tensors run at once; a static variable
//! among the inputs appends the op to its program.

use std::collections::HashMap;
use std::sync::LazyLock;

use bireme_engine::eager::{EagerTensor, Form, HostValue, OpCache};
use bireme_engine::ir::{Attr, Param, Slot, did_you_mean, nearest};
use bireme_engine::op::OpDef;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyAttributeError, PyNotImplementedError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use crate::append::{Append, Operand, append_op};
use crate::autograd::on_host;
use crate::context::in_dynamic_mode;
use crate::convert::attr_of;
use crate::error::{enter, enter_held, to_py};
use crate::session::session;
use crate::tensor::Tensor;
use crate::variable::Variable;

/// Every op type with what has been prepared of it.
static CACHES: LazyLock<HashMap<&'static str, OpCache>> = LazyLock::new(|| {
    let all = bireme_engine::ops::all();
    all.map(|def| (def.name, OpCache::new(def.name).expect("listed ops exist"))).collect()
});

/// The prepared ops of type `kind`.
///
/// # Panics
/// When there is no such op; for types that this crate names itself.
pub(crate) fn cache(kind: &str) -> &'static OpCache {
    CACHES.get(kind).unwrap_or_else(|| panic!("there is no op `{kind}`"))
}

/// The namespace of all ops: `ops.relu`.
#[pyclass(frozen, dict, module = "bireme._core")]
pub(crate) struct Ops;

impl Ops {
    /// The namespace, every op in its dictionary, where Python finds it without asking us.
    pub(crate) fn with_all(py: Python<'_>) -> PyResult<Bound<'_, Ops>> {
        let ops = Bound::new(py, Ops)?;
        for (name, cache) in &*CACHES {
            ops.setattr(*name, OpCall { cache })?;
        }
        Ok(ops)
    }
}

#[pymethods]
impl Ops {
    /// Reached only for what is no op.
    fn __getattr__(&self, name: &str) -> PyResult<OpCall> {
        let near = did_you_mean(&nearest(name, CACHES.keys().copied()));
        Err(PyAttributeError::new_err(format!("there is no op `{name}`{near}")))
    }

    fn __dir__(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = CACHES.keys().copied().collect();
        names.sort_unstable();
        names
    }
}

/// One op type.
#[pyclass(frozen, module = "bireme._core")]
pub(crate) struct OpCall {
    cache: &'static OpCache,
}

#[pymethods]
impl OpCall {
    #[pyo3(signature = (*inputs, **attrs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
        attrs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut call = Call::new(self.cache);
        call.read_inputs(inputs)?;
        if let Some(attrs) = attrs {
            for (name, value) in attrs {
                call.read_keyword(name.cast::<PyString>()?.to_str()?, &value)?;
            }
        }
        call.run(py)
    }

    fn __repr__(&self) -> String {
        let def = self.cache.def();
        let names = |slots: &[Slot]| slots.iter().map(|s| s.name).collect::<Vec<_>>().join(", ");
        let (inputs, outputs) = (names(def.signature.inputs), names(def.signature.outputs));
        format!("<op {}({inputs}) -> {outputs}>", def.name)
    }
}

/// A call under construction.
pub(crate) struct Call<'py> {
    cache: &'static OpCache,
    def: &'static OpDef,
    inputs: Vec<Bound<'py, PyAny>>,
    counts: Vec<usize>,
    attrs: Vec<(&'static str, Attr)>,
    /// Variables in an output slot that holds many.
    many: usize,
    into: Vec<(&'static str, Vec<Bound<'py, PyAny>>)>,
    wanted: Option<Vec<&'static str>>,
    is_static: bool,
    /// Where an op without inputs goes.
    program: Option<Bound<'py, Variable>>,
}

/// An output slot of a call.
struct OutputSlot {
    slot: &'static str,
    count: usize,
    many: bool,
    returned: bool,
}

impl<'py> Call<'py> {
    pub(crate) fn new(cache: &'static OpCache) -> Call<'py> {
        Call {
            cache,
            def: cache.def(),
            inputs: Vec::with_capacity(4),
            counts: Vec::with_capacity(cache.def().signature.inputs.len()),
            attrs: Vec::new(),
            many: 1,
            into: Vec::new(),
            wanted: None,
            is_static: false,
            program: None,
        }
    }

    /// Appends the op, which has no inputs, to the program of `variable`.
    pub(crate) fn in_program_of(mut self, variable: &Bound<'py, Variable>) -> Call<'py> {
        (self.is_static, self.program) = (true, Some(variable.clone()));
        self
    }

    /// Adds an attribute.
    pub(crate) fn attr(mut self, name: &'static str, value: impl Into<Attr>) -> Call<'py> {
        self.attrs.push((name, value.into()));
        self
    }

    /// Adds one input, in the next slot.
    pub(crate) fn input(mut self, value: &Bound<'py, PyAny>) -> PyResult<Call<'py>> {
        self.counts.push(1);
        self.push(value)?;
        Ok(self)
    }

    fn read_inputs(&mut self, inputs: &Bound<'py, PyTuple>) -> PyResult<()> {
        let slots = self.def.signature.inputs;
        if inputs.len() > slots.len() {
            return Err(PyTypeError::new_err(format!(
                "op `{}` takes {} inputs, but {} are given",
                self.def.name,
                slots.len(),
                inputs.len()
            )));
        }
        for (slot, value) in slots.iter().zip(inputs.iter_borrowed()) {
            if value.is_none() {
                self.counts.push(0);
            } else if slot.many {
                let before = self.inputs.len();
                for item in value.try_iter()? {
                    self.push(&item?)?;
                }
                self.counts.push(self.inputs.len() - before);
            } else {
                self.counts.push(1);
                self.push(&value)?;
            }
        }
        Ok(())
    }

    fn push(&mut self, value: &Bound<'py, PyAny>) -> PyResult<()> {
        if value.is_instance_of::<Variable>() {
            self.is_static = true;
        } else if !value.is_instance_of::<Tensor>() {
            let slots = self.def.signature.inputs;
            let slot = slots.get(self.counts.len().saturating_sub(1)).map_or("?", |s| s.name);
            return Err(PyTypeError::new_err(format!(
                "op `{}`: input `{slot}` must be a tensor, not {}: make one with \
                 `paddle.to_tensor`",
                self.def.name,
                value.get_type().name()?
            )));
        }
        self.inputs.push(value.clone());
        Ok(())
    }

    fn read_keyword(&mut self, name: &str, value: &Bound<'py, PyAny>) -> PyResult<()> {
        match name {
            "_count" => self.many = value.extract()?,
            "_outputs" => {
                let slots = value.extract::<Vec<String>>()?;
                let slots = slots.iter().map(|slot| self.output_slot(slot));
                self.wanted = Some(slots.collect::<PyResult<_>>()?);
            }
            "_into" => {
                for (slot, target) in value.cast::<PyDict>()? {
                    let slot = self.output_slot(slot.cast::<PyString>()?.to_str()?)?;
                    let several =
                        target.is_instance_of::<PyList>() || target.is_instance_of::<PyTuple>();
                    let targets = if several {
                        target.try_iter()?.collect::<PyResult<Vec<_>>>()?
                    } else {
                        vec![target]
                    };
                    self.is_static |= targets.iter().any(|t| t.is_instance_of::<Variable>());
                    self.into.push((slot, targets));
                }
            }
            _ => {
                let spec = self.def.signature.attrs.iter().find(|spec| spec.name == name);
                let spec = spec.ok_or_else(|| self.unknown_attr(name))?;
                let attr = attr_of(value, name, Some(spec.default.kind())).map_err(|error| {
                    PyTypeError::new_err(format!(
                        "op `{}`: {}",
                        self.def.name,
                        error.value(value.py())
                    ))
                })?;
                self.attrs.push((spec.name, attr));
            }
        }
        Ok(())
    }

    fn unknown_attr(&self, name: &str) -> PyErr {
        let near = nearest(name, self.def.signature.attrs.iter().map(|spec| spec.name));
        let near = did_you_mean(&near);
        PyTypeError::new_err(format!("op `{}` has no attribute `{name}`{near}", self.def.name))
    }

    fn output_slot(&self, name: &str) -> PyResult<&'static str> {
        let slot = self.def.signature.outputs.iter().find(|slot| slot.name == name);
        slot.map(|slot| slot.name).ok_or_else(|| {
            PyTypeError::new_err(format!("op `{}` has no output slot `{name}`", self.def.name))
        })
    }

    /// What becomes of each output slot.
    fn outputs(&self) -> Vec<OutputSlot> {
        let slots = self.def.signature.outputs.iter();
        slots
            .map(|slot| {
                let into = self.into.iter().find(|(name, _)| *name == slot.name);
                let returned = match &self.wanted {
                    Some(wanted) => wanted.contains(&slot.name),
                    None => slot.required && into.is_none(),
                };
                let made = returned || slot.required || self.cache.gradient_reads(slot.name);
                let count = match into {
                    Some((_, targets)) => targets.len(),
                    None if !made => 0,
                    None => {
                        if slot.many {
                            self.many
                        } else {
                            1
                        }
                    }
                };
                OutputSlot { slot: slot.name, count, many: slot.many, returned }
            })
            .collect()
    }

    /// Runs or appends the op.
    pub(crate) fn run(mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.counts.resize(self.def.signature.inputs.len(), 0);
        let outputs = self.outputs();
        if self.is_static || (self.inputs.is_empty() && !in_dynamic_mode()) {
            self.append(py, &outputs)
        } else {
            self.apply(py, &outputs)
        }
    }

    fn apply(self, py: Python<'py>, outputs: &[OutputSlot]) -> PyResult<Bound<'py, PyAny>> {
        let tensor = |value: &Bound<'py, PyAny>| -> PyResult<EagerTensor> {
            Ok(value.cast::<Tensor>()?.get().inner.clone())
        };
        let inputs = self.inputs.iter().map(tensor).collect::<PyResult<Vec<_>>>()?;
        let counts: Vec<usize> = outputs.iter().map(|output| output.count).collect();
        let form = Form { attrs: &self.attrs, inputs: &self.counts, outputs: &counts };
        let made = run_op(py, self.cache, form, &inputs)?;
        let mut made = made.into_iter();
        let mut returned = Vec::with_capacity(1);
        for output in outputs {
            let values: Vec<EagerTensor> = made.by_ref().take(output.count).collect();
            if let Some((_, targets)) = self.into.iter().find(|(slot, _)| *slot == output.slot) {
                for (target, value) in targets.iter().zip(&values) {
                    overwrite(&tensor(target)?, value)?;
                }
                if output.returned {
                    returned.push(listed(py, output, targets.clone())?);
                }
            } else if output.returned {
                let wrap = |inner| Ok(Bound::new(py, Tensor { inner })?.into_any());
                let values = values.into_iter().map(wrap).collect::<PyResult<Vec<_>>>()?;
                returned.push(listed(py, output, values)?);
            }
        }
        one_or_tuple(py, returned)
    }

    fn append(self, py: Python<'py>, outputs: &[OutputSlot]) -> PyResult<Bound<'py, PyAny>> {
        if session().auto_cast().is_some() {
            return Err(PyNotImplementedError::new_err(
                "`amp.auto_cast` is for eager ops, and this one becomes part of a static program: use \
                 `static.amp.decorate`, or call the layer that `jit` made outside of it",
            ));
        }
        let eager = eager_tensors(py, &self.inputs)?;
        let mut at = 0;
        let mut inputs = Vec::new();
        for (slot, count) in self.def.signature.inputs.iter().zip(&self.counts) {
            let range = at..at + count;
            if *count > 0 {
                inputs.push((slot.name, operands(&self.inputs[range.clone()], &eager[range])?));
            }
            at += count;
        }
        let targets = self.into.iter().map(|(_, targets)| eager_tensors(py, targets));
        let targets = targets.collect::<PyResult<Vec<_>>>()?;
        let mut into = Vec::new();
        for ((slot, given), eager) in self.into.iter().zip(&targets) {
            into.push((*slot, operands(given, eager)?));
        }
        let given = |slot: &str| self.into.iter().any(|(name, _)| *name == slot);
        let new = outputs.iter().filter(|output| output.count > 0 && !given(output.slot));
        let new = new.map(|output| (output.slot, output.count)).collect();
        let append = Append {
            def: self.def,
            inputs,
            attrs: self.attrs.clone(),
            outputs: new,
            into,
            layer: None,
            beside: self.program.as_ref(),
        };
        let mut made = append_op(py, append)?.into_iter();
        let mut returned = Vec::new();
        for output in outputs {
            let values = match self.into.iter().find(|(slot, _)| *slot == output.slot) {
                Some((_, targets)) => targets.clone(),
                None => {
                    let new = made.by_ref().take(output.count);
                    let wrap = |variable| Ok(Bound::new(py, variable)?.into_any());
                    new.map(wrap).collect::<PyResult<Vec<_>>>()?
                }
            };
            if output.returned {
                returned.push(listed(py, output, values)?);
            }
        }
        one_or_tuple(py, returned)
    }
}

/// An eager tensor in a static op: name, value, and what a parameter is.
type EagerFacts = (String, HostValue, Option<Param>);

/// The eager tensors among what a static op reads or writes.
fn eager_tensors<'py>(
    py: Python<'py>,
    values: &[Bound<'py, PyAny>],
) -> PyResult<Vec<Option<EagerFacts>>> {
    let look = |value: &Bound<'py, PyAny>| match value.cast::<Tensor>() {
        Err(_) => Ok(None),
        Ok(tensor) => {
            let tensor = tensor.get();
            Ok(Some((tensor.name_of(py)?, on_host(&tensor.inner)?, tensor.inner.param())))
        }
    };
    values.iter().map(look).collect()
}

fn operands<'a, 'py>(
    values: &'a [Bound<'py, PyAny>],
    eager: &'a [Option<EagerFacts>],
) -> PyResult<Vec<Operand<'a, 'py>>> {
    let operand = |(value, eager): (&'a Bound<'py, PyAny>, &'a Option<EagerFacts>)| match eager {
        Some((name, value, param)) => {
            Ok(Operand::Eager { name, value: value.tensor().map_err(to_py)?, param: param.clone() })
        }
        None => Ok(Operand::Variable(value.cast::<Variable>()?)),
    };
    values.iter().zip(eager).map(operand).collect()
}

/// Inputs of this many elements are worth letting other Python threads run meanwhile.
const LARGE: usize = 1 << 15;

/// Runs an op on eager tensors.
pub(crate) fn run_op(
    py: Python<'_>,
    cache: &'static OpCache,
    form: Form<'_>,
    inputs: &[EagerTensor],
) -> PyResult<Vec<EagerTensor>> {
    let work = || session().apply(cache, form, inputs);
    // A card is only told what to do.
    let is_long = |input: &EagerTensor| {
        let held = input.held();
        held.home().is_none() && held.shape().1.numel() >= LARGE
    };
    if inputs.iter().any(is_long) { enter(py, work) } else { enter_held(py, work) }
}

/// Makes `target` what an op computed: with its past where gradients flow, as a mere value where
/// they do not (statistics).
fn overwrite(target: &EagerTensor, made: &EagerTensor) -> PyResult<()> {
    if made.is_leaf() {
        target.set_value(made.held());
        return Ok(());
    }
    target.take_over(made).map_err(to_py)
}

/// A slot's values as Python sees them.
fn listed<'py>(
    py: Python<'py>,
    output: &OutputSlot,
    mut values: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    if output.many {
        return Ok(PyList::new(py, values)?.into_any());
    }
    values.pop().ok_or_else(|| PyValueError::new_err(format!("output `{}` is empty", output.slot)))
}

fn one_or_tuple<'py>(
    py: Python<'py>,
    mut values: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    match values.len() {
        0 => Ok(py.None().into_bound(py)),
        1 => Ok(values.remove(0)),
        _ => PyTuple::new(py, values)?.into_bound_py_any(py),
    }
}
