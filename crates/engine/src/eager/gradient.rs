//! The gradient of one op in one form, from the same rules that differentiate a program.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bireme_ir::{Op, Program, Var};

use super::Prepared;
use super::cache::{Ready, by_position, input_name, output_name};
use super::routine::Routine;
use crate::op::{GradRule, Meta, OpDef, OpView};
use crate::{Result, autodiff};

/// The gradients of one prepared op, by which inputs want one.
#[derive(Default)]
pub(super) struct Gradients(Mutex<Vec<(Vec<bool>, Arc<Gradient>)>>);

/// How to compute the gradients of some inputs of an op.
pub(super) struct Gradient {
    pub(super) routine: Routine,
    /// What the routine reads: places of the table and what belongs there.
    pub(super) sources: Vec<(usize, Source)>,
    /// Gradients that the routine computes: the input, and the place.
    pub(super) results: Vec<(usize, usize)>,
    /// Forward inputs whose values are read.
    pub(super) saves_input: Vec<bool>,
    /// Forward outputs whose values are read.
    pub(super) saves_output: Vec<bool>,
    /// The slot of each output whose gradient the rule does not read; one that arrives is an error.
    pub(super) unread: Vec<Option<&'static str>>,
    /// What to do with those that arrive there nevertheless: gradients of single outputs.
    pub(super) sides: Vec<(usize, Arc<Gradient>)>,
    /// The routine as ops of their own, which can be put on the tape; made when first needed.
    steps: OnceLock<Vec<Step>>,
}

/// One op of a routine, with the places of its variables.
pub(super) struct Step {
    pub(super) def: &'static OpDef,
    pub(super) ready: Ready,
    pub(super) inputs: Box<[usize]>,
    pub(super) outputs: Box<[usize]>,
}

/// A value that a gradient reads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    /// A forward input.
    Input(usize),
    /// A forward output.
    Output(usize),
    /// The gradient of a forward output.
    OutputGrad(usize),
}

impl Gradients {
    /// The gradient for the inputs that `wanted` marks.
    ///
    /// # Errors
    /// When a gradient rule refuses the op.
    pub(super) fn get(
        &self,
        op: &Op,
        wanted: &[bool],
        inputs: &[Meta],
        outputs: &[Meta],
    ) -> Result<Arc<Gradient>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, gradient)) = known.iter().find(|(mask, _)| mask == wanted) {
            return Ok(Arc::clone(gradient));
        }
        let gradient = Arc::new(Gradient::new(op, wanted, inputs, outputs)?);
        known.push((wanted.to_vec(), Arc::clone(&gradient)));
        Ok(gradient)
    }

    /// The gradient for `wanted`, if it has been asked for before.
    pub(super) fn find(&self, wanted: &[bool]) -> Option<Arc<Gradient>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().find(|(mask, _)| mask == wanted);
        found.map(|(_, gradient)| Arc::clone(gradient))
    }
}

impl Gradient {
    /// Whether the gradient of this output has a part in those of the inputs.
    pub(super) fn reads_output_grad(&self, output: usize) -> bool {
        let is_it = |source: &Source| matches!(source, Source::OutputGrad(at) if *at == output);
        self.sources.iter().any(|(_, source)| is_it(source))
    }

    /// The gradient of a single output.
    pub(super) fn side(&self, output: usize) -> Option<&Arc<Gradient>> {
        self.sides.iter().find(|(at, _)| *at == output).map(|(_, gradient)| gradient)
    }

    /// The routine as ops that can be put on the tape.
    ///
    /// # Errors
    /// When an op cannot be prepared.
    pub(super) fn steps(&self) -> Result<&[Step]> {
        if let Some(steps) = self.steps.get() {
            return Ok(steps);
        }
        let step = |call: &super::routine::Call| {
            let def = OpView::new(call.op.op())?.def;
            let forward = Prepared::new(by_position(def, call.op.op()), call.op.seed())?;
            let ready = Ready { forward, gradients: Gradients::default() };
            Ok(Step { def, ready, inputs: call.inputs.clone(), outputs: call.outputs.clone() })
        };
        let steps = self.routine.calls().iter().map(step).collect::<Result<Vec<_>>>()?;
        Ok(self.steps.get_or_init(|| steps))
    }

    fn new(op: &Op, wanted: &[bool], inputs: &[Meta], outputs: &[Meta]) -> Result<Gradient> {
        let (is_unread, unread) = unread(op, outputs)?;
        let read = |at: &usize| outputs[*at].dtype.is_float() && !is_unread[*at];
        let targets: Vec<usize> = (0..outputs.len()).filter(read).collect();
        let mut gradient = Gradient::of(op, wanted, inputs, outputs, &targets)?;
        if OpView::new(op)?.def.side_grad.is_some() {
            for at in (0..outputs.len()).filter(|at| unread[*at].is_some()) {
                let side = Gradient::of(op, wanted, inputs, outputs, &[at])?;
                gradient.save_also(&side);
                gradient.sides.push((at, Arc::new(side)));
            }
        }
        Ok(Gradient { unread, ..gradient })
    }

    /// The gradients by the inputs that `wanted` marks, of the outputs `targets` alone.
    fn of(
        op: &Op,
        wanted: &[bool],
        inputs: &[Meta],
        outputs: &[Meta],
        targets: &[usize],
    ) -> Result<Gradient> {
        let mut program = Program::default();
        let block = program.global_mut();
        for (position, meta) in inputs.iter().enumerate() {
            block.add_var(declared(input_name(position), meta));
        }
        for (position, meta) in outputs.iter().enumerate() {
            block.add_var(declared(output_name(position), meta));
            if targets.contains(&position) {
                block.add_var(declared(grad_name(position), meta));
            }
        }
        let mut located = op.clone();
        located.site = None;
        block.ops.push(located);
        let names: Vec<String> = targets.iter().map(|at| output_name(*at)).collect();
        let weights: Vec<String> = targets.iter().map(|at| grad_name(*at)).collect();
        let asked: Vec<usize> = (0..inputs.len()).filter(|at| wanted[*at]).collect();
        let asked_names: Vec<String> = asked.iter().map(|at| input_name(*at)).collect();
        let found = autodiff::gradients_in(
            &mut program,
            &texts(&names),
            &texts(&asked_names),
            Some(&weights.iter().map(|name| Some(name.as_str())).collect::<Vec<_>>()),
            &[],
        )?;
        let routine = Routine::new(&program.global().ops[1..], 0)?;
        let results = asked.iter().zip(found);
        let results = results.filter_map(|(at, name)| Some((*at, routine.find(&name?)?))).collect();
        let view = OpView::new(op)?;
        Ok(Gradient::reading(routine, results, view, inputs.len(), outputs.len()))
    }

    /// Keeps what another gradient of the same op reads.
    fn save_also(&mut self, other: &Gradient) {
        let pairs = [
            (&mut self.saves_input, &other.saves_input),
            (&mut self.saves_output, &other.saves_output),
        ];
        for (mine, theirs) in pairs {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine |= theirs);
        }
    }

    fn reading(
        routine: Routine,
        results: Vec<(usize, usize)>,
        view: OpView<'_>,
        inputs: usize,
        outputs: usize,
    ) -> Gradient {
        debug_assert_eq!(view.flat_inputs().count(), inputs);
        let mut sources = Vec::new();
        let mut look = |name: String, source: Source| {
            let place = routine.find(&name);
            sources.extend(place.map(|place| (place, source)));
            place.is_some()
        };
        let saves_input = (0..inputs).map(|at| look(input_name(at), Source::Input(at))).collect();
        let saves_output =
            (0..outputs).map(|at| look(output_name(at), Source::Output(at))).collect();
        for at in 0..outputs {
            look(grad_name(at), Source::OutputGrad(at));
        }
        let (unread, sides, steps) = (Vec::new(), Vec::new(), OnceLock::new());
        Gradient { routine, sources, results, saves_input, saves_output, unread, sides, steps }
    }
}

/// Which outputs have a gradient that the rule of `op` does not read, and the slots of those where
/// one must not arrive. What an op writes in the place of an input (a running mean) is state, and
/// takes no part in gradients.
fn unread(op: &Op, outputs: &[Meta]) -> Result<(Vec<bool>, Vec<Option<&'static str>>)> {
    let view = OpView::new(op)?;
    if matches!(view.def.grad, GradRule::Formula(_)) {
        return Ok((vec![false; outputs.len()], vec![None; outputs.len()]));
    }
    let rule = view.def.grad.ops(&view)?;
    let slots = view.def.signature.outputs.iter();
    let flat =
        slots.flat_map(|slot| op.outputs_of(slot.name).iter().map(move |var| (slot.name, var)));
    let of = |((slot, var), meta): ((&'static str, &String), &Meta)| {
        let is_state = view.def.inplace.iter().any(|(_, to)| *to == slot);
        let is_unread =
            meta.dtype.is_float() && autodiff::is_unread(&rule, &bireme_ir::grad_name(var));
        (is_unread, (is_unread && !is_state).then_some(slot))
    };
    Ok(flat.zip(outputs).map(of).unzip())
}

/// The given gradient of a flat output.
fn grad_name(position: usize) -> String {
    format!("g{position}")
}

fn declared(name: String, meta: &Meta) -> Var {
    let mut var = Var::tensor(name, meta.dtype, meta.dims.clone());
    (var.kind, var.lod_level) = (meta.kind, meta.lod_level);
    var
}

fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}
