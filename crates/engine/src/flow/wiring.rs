//! What the gradient of an op that runs a block does with which variable of its own block: attributes that the backward
//! pass writes (`autodiff/blocks.rs`) and the kernel reads.

use std::collections::HashSet;

use bireme_ir::{Attr, EMPTY_VAR, Op, Program};

use super::{INNER_INPUTS, names, sub_block};
use crate::op::Flow;
use crate::{Error, Result};

const RESULTS: &str = "inner_gradients";
const TARGETS: &str = "targets";
const TARGET_OUTPUTS: &str = "target_outputs";
const TARGET_GRADIENTS: &str = "target_gradients";
const TARGET_INPUTS: &str = "target_inputs";

/// How a gradient op is wired to its block.
#[derive(Debug, Default)]
pub(crate) struct Wiring {
    /// What the forward block calls each variable in the slot of reads.
    pub(crate) inputs: Vec<String>,
    /// What the gradient's block calls the gradient of each of them; empty where it computes none.
    pub(crate) results: Vec<String>,
    /// The outputs whose gradients the block starts from.
    pub(crate) targets: Vec<Target>,
}

/// An output of the forward op, whose gradient is known or starts as zero.
#[derive(Debug)]
pub(crate) struct Target {
    /// What the block calls its gradient.
    pub(crate) name: String,
    /// Its place in `Out`.
    pub(crate) output: usize,
    /// The place of its gradient in `Out@GRAD`; none where it starts as zero.
    pub(crate) gradient: Option<usize>,
    /// Its place among the reads, if the block continues a value from around it.
    pub(crate) input: Option<usize>,
}

impl Wiring {
    /// Writes it into the attributes of a gradient op.
    pub(crate) fn write(&self, op: Op) -> Op {
        let place = |place: Option<usize>| {
            place.map_or(-1, |at| i32::try_from(at).expect("an op has fewer than 2**31 variables"))
        };
        let places = |of: &dyn Fn(&Target) -> Option<usize>| {
            Attr::Ints(self.targets.iter().map(|target| place(of(target))).collect())
        };
        let targets = self.targets.iter().map(|target| target.name.clone()).collect();
        op.attr(INNER_INPUTS, Attr::Strings(self.inputs.clone()))
            .attr(RESULTS, Attr::Strings(self.results.clone()))
            .attr(TARGETS, Attr::Strings(targets))
            .attr(TARGET_OUTPUTS, places(&|target| Some(target.output)))
            .attr(TARGET_GRADIENTS, places(&|target| target.gradient))
            .attr(TARGET_INPUTS, places(&|target| target.input))
    }

    /// Reads it from the attributes of a gradient op.
    ///
    /// # Errors
    /// When they do not fit the slots: another system wrote this program.
    pub(crate) fn of(op: &Op, flow: &Flow) -> Result<Wiring> {
        let foreign = || {
            Error::kernel(
                "lacks the attributes by which its block is wired: gradients of blocks in \
                 programs that another system wrote are not understood; load the forward program \
                 and differentiate it here",
            )
        };
        let (inputs, results) = (names(op, INNER_INPUTS), names(op, RESULTS));
        let reads = op.inputs_of(flow.reads).len();
        let (outs, grads) = (op.inputs_of("Out").len(), op.inputs_of("Out@GRAD").len());
        let targets = names(op, TARGETS);
        let places = |attr: &str, len: usize| -> Result<Vec<Option<usize>>> {
            let numbers: Vec<i32> = match op.attrs.get(attr) {
                Some(Attr::Ints(numbers)) => numbers.clone(),
                _ => Vec::new(),
            };
            let fits = numbers.len() == targets.len()
                && numbers.iter().all(|at| *at < 0 || (*at as usize) < len);
            fits.then(|| numbers.iter().map(|at| usize::try_from(*at).ok()).collect())
                .ok_or_else(foreign)
        };
        let gradients = places(TARGET_GRADIENTS, grads)?;
        let continued = places(TARGET_INPUTS, reads)?;
        let outputs = places(TARGET_OUTPUTS, outs)?;
        if targets.is_empty() || inputs.len() != reads || results.len() != reads {
            return Err(foreign());
        }
        let targets = targets.iter().zip(outputs).zip(gradients.into_iter().zip(continued));
        let targets = targets.map(|((name, output), (gradient, input))| {
            let output = output.ok_or_else(foreign)?;
            Ok(Target { name: name.clone(), output, gradient, input })
        });
        Ok(Wiring { inputs, results, targets: targets.collect::<Result<_>>()? })
    }

    /// The variables of the forward block that the gradient's block reads; those that the forward op only reads are
    /// still there.
    ///
    /// # Errors
    /// When there is no block.
    pub(crate) fn kept(&self, program: &Program, op: &Op) -> Result<Vec<String>> {
        let block = &program.blocks[sub_block(program, op)?];
        let mut known: HashSet<&str> =
            self.targets.iter().map(|target| target.name.as_str()).collect();
        known.extend(self.inputs.iter().skip(continued(op)).map(String::as_str));
        let mut kept = Vec::new();
        for inner in &block.ops {
            for name in inner.input_vars().filter(|name| *name != EMPTY_VAR) {
                if known.insert(name) {
                    kept.push(name.clone());
                }
            }
            known.extend(inner.output_vars().map(String::as_str));
        }
        Ok(kept)
    }
}

/// How many of the reads of a gradient op are continued by its outputs: they come first, and have one name.
fn continued(op: &Op) -> usize {
    let reads = ["Input", "X"].iter().map(|slot| op.inputs_of(slot)).find(|vars| !vars.is_empty());
    let pairs = reads.unwrap_or_default().iter().zip(op.inputs_of("Out"));
    pairs.take_while(|(read, out)| read == out).count()
}
