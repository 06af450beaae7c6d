//! Runs the gradient of a block: once for each run of the block, last run first. Gradients of what the block continues
//! go from run to run; those of what it only reads are added up.

#![expect(unsafe_code, reason = "values around a block are read where they lie; see `op::Run`")]

use std::collections::HashMap;
use std::ptr::NonNull;

use bireme_ir::{EMPTY_VAR, Op, VarKind};

use super::block::{BlockRun, Number, copy, take, zeros_like};
use super::{Context, Target, Wiring, sub_block};
use crate::op::{Flow, Kernel, OpView, Run, run_once};
use crate::tensor::not_a_list;
use crate::value::Value;
use crate::{Error, Result};

struct Backward {
    block: BlockRun,
    targets: Vec<Target>,
    /// The number of each target in the block.
    starts: Vec<Number>,
    /// The gradient of each read.
    results: Vec<Outcome>,
    /// Position among the inputs, and number, of what the forward op only reads.
    reads: Vec<(usize, Number)>,
    /// Number of each kept value, by its place in the list of a run.
    kept: Vec<Number>,
    first_out: usize,
    first_grad: usize,
    saved: usize,
}

/// The gradient of one variable that the block reads.
struct Outcome {
    /// Position of the variable among the inputs.
    input: usize,
    /// Position of the gradient among the outputs, if it is wanted.
    output: Option<usize>,
    /// Its number in the block, and what kind of value it is, if the block computes it.
    number: Option<(Number, VarKind)>,
    /// The target that continues it.
    target: Option<usize>,
    /// The sum over the runs so far, of what is not continued.
    sum: Option<Value>,
}

/// What runs the gradient of an op that runs a block.
///
/// # Errors
/// As [`super::kernel`].
pub(super) fn kernel(cx: &Context, view: &OpView<'_>, flow: &'static Flow) -> Result<Kernel> {
    let mut backward = Backward::new(cx, view, flow)?;
    Ok(Box::new(move |run| backward.run(run)))
}

impl Backward {
    fn new(cx: &Context, view: &OpView<'_>, flow: &Flow) -> Result<Backward> {
        let wiring = Wiring::of(view.op, flow)?;
        let block = &cx.program.blocks[sub_block(&cx.program, view.op)?];
        let kept = wiring.kept(&cx.program, view.op)?;
        // A variable that is kept is the run's, one that is not kept is still there.
        let plain: Vec<(usize, &String)> =
            wiring.inputs.iter().enumerate().filter(|(_, name)| !kept.contains(name)).collect();
        let mut enters: Vec<String> = wiring.targets.iter().map(|t| t.name.clone()).collect();
        enters.extend(kept.iter().cloned());
        enters.extend(plain.iter().map(|(_, name)| (*name).clone()));
        let run = BlockRun::new(cx, &block.ops, &enters)?;
        let number = |name: &str| {
            run.number(name).ok_or_else(|| Error::kernel(format!("its block has no `{name}`")))
        };
        let first_in = view.input_positions(flow.reads).start;
        let wanted = view.op.outputs_of(&format!("{}@GRAD", flow.reads));
        let mut results = Vec::new();
        for (at, name) in wiring.results.iter().enumerate() {
            let kind = |name: &str| block.var(name).map_or(VarKind::LodTensor, |var| var.kind);
            let computed: Option<Result<_>> =
                (!name.is_empty()).then(|| Ok((number(name)?, kind(name))));
            results.push(Outcome {
                input: first_in + at,
                output: wanted.get(at).filter(|name| *name != EMPTY_VAR).map(|_| at),
                number: computed.transpose()?,
                target: wiring.targets.iter().position(|target| target.input == Some(at)),
                sum: None,
            });
        }
        let saved = view.input_positions(flow.saved).next();
        Ok(Backward {
            starts: wiring.targets.iter().map(|t| number(&t.name)).collect::<Result<_>>()?,
            results,
            reads: plain
                .iter()
                .map(|(at, name)| Ok((first_in + at, number(name)?)))
                .collect::<Result<_>>()?,
            kept: kept.iter().map(|name| number(name)).collect::<Result<_>>()?,
            first_out: view.input_positions("Out").start,
            first_grad: view.input_positions("Out@GRAD").start,
            saved: saved.ok_or_else(|| Error::kernel("is given nothing of the runs it is for"))?,
            targets: wiring.targets,
            block: run,
        })
    }

    fn run(&mut self, run: &Run<'_>) -> Result<()> {
        let (inputs, outputs) = run.places();
        // SAFETY: inputs are valid during the call, and nobody writes them.
        let input = |at: usize| unsafe { inputs[at].as_ref() };
        let runs = input(self.saved).tensor()?.list().ok_or_else(not_a_list)?;
        let start = |target: &Target| match target.gradient {
            Some(at) => input(self.first_grad + at).clone(),
            None => zeros_like(input(self.first_out + target.output), VarKind::LodTensor),
        };
        let mut gradients: Vec<Value> = self.targets.iter().map(start).collect();
        for (count, kept) in runs.items.iter().enumerate().rev() {
            let kept = kept.as_deref().ok_or_else(not_a_list)?.tensor()?.list();
            let kept = kept.ok_or_else(not_a_list)?;
            let mut enters: Vec<(Number, NonNull<Value>)> =
                self.reads.iter().map(|(at, number)| (*number, inputs[*at])).collect();
            for (at, number) in self.kept.iter().enumerate() {
                enters.push((*number, NonNull::from(kept.get(at)?)));
            }
            for (number, gradient) in self.starts.iter().zip(&mut gradients) {
                enters.push((*number, NonNull::from(gradient)));
            }
            // SAFETY: all are valid and only read during the call.
            unsafe { self.block.run(&enters, super::block::step_of_run(run.step, count as u64))? };
            self.collect(&mut gradients)?;
        }
        for outcome in &mut self.results {
            let Some(output) = outcome.output else { continue };
            let kind = outcome.number.map_or(VarKind::LodTensor, |(_, kind)| kind);
            let gradient = match outcome.target {
                Some(target) => take(&mut gradients[target]),
                None => {
                    outcome.sum.take().unwrap_or_else(|| zeros_like(input(outcome.input), kind))
                }
            };
            // SAFETY: the output is this op's alone during the call.
            copy(&gradient, unsafe { &mut *outputs[output].as_ptr() });
        }
        Ok(())
    }

    /// Takes the gradients of a run.
    fn collect(&mut self, gradients: &mut [Value]) -> Result<()> {
        let mut next: HashMap<usize, Value> = HashMap::new();
        for outcome in &mut self.results {
            let gradient = outcome.number.map(|(number, _)| take(self.block.value(number)));
            match (outcome.target, gradient) {
                (Some(target), Some(gradient)) => drop(next.insert(target, gradient)),
                (Some(target), None) => {
                    // The block writes it without a look at what it was.
                    let zero = zeros_like(&gradients[target], VarKind::LodTensor);
                    next.insert(target, zero);
                }
                (None, Some(gradient)) => {
                    outcome.sum = Some(match outcome.sum.take() {
                        Some(sum) => add(sum, gradient)?,
                        None => gradient,
                    });
                }
                (None, None) => {}
            }
        }
        for (target, gradient) in next {
            gradients[target] = gradient;
        }
        Ok(())
    }
}

/// The sum of two gradients of one variable.
fn add(one: Value, other: Value) -> Result<Value> {
    let mut values = HashMap::from([("x".to_owned(), one), ("y".to_owned(), other)]);
    run_once(&Op::new("sum").input("X", ["x", "y"]).output("Out", ["sum"]), &mut values)?;
    values.remove("sum").ok_or_else(|| Error::kernel("a sum has a value"))
}
