//! Gradients of ops that run blocks: a block of gradient ops for each, and the op that runs it.
//!
//! The block starts from the gradients of what the forward block leaves, and computes those of what it reads. In a loop,
//! what one run computes for a variable that the loop continues is what the run before starts from; so more variables
//! may need a gradient, and start from one, than the loss asks for.

use std::collections::{BTreeSet, HashMap, HashSet};

use bireme_ir::{Block, EMPTY_VAR, Op, OpRole, Program, Var, grad_name};

use super::emit::{Emitter, Targets, on_device_of};
use super::flat::Flat;
use super::path::{Path, Roots, needs_gradient};
use crate::flow::{INNER_INPUTS, INNER_OUTPUTS, Target, Wiring, names, sub_block};
use crate::graph::infer_among;
use crate::op::Flow;
use crate::{Error, Result};

/// What is differentiated of a block.
struct Region {
    flat: Flat,
    /// What the block calls its reads.
    inner_in: Vec<String>,
    /// What it calls its outputs when it has run.
    exits: Vec<String>,
    /// How many of the reads it continues; they and their outputs come first.
    continued: usize,
    /// The reads that need a gradient.
    roots: BTreeSet<usize>,
    /// The outputs whose gradients it starts from.
    starts: BTreeSet<usize>,
}

impl Region {
    fn new(program: &Program, forward: &Op, idx: usize) -> Result<Region> {
        let (inner_in, inner_out) = (names(forward, INNER_INPUTS), names(forward, INNER_OUTPUTS));
        let flat = Flat::inner(program, idx, &inner_in)?;
        let continued = inner_in.iter().zip(&inner_out).take_while(|(a, b)| a == b).count();
        let exits = inner_out.iter().map(|name| flat.single.at_end(name).to_owned()).collect();
        let (roots, starts) = (BTreeSet::new(), BTreeSet::new());
        Ok(Region { flat, inner_in, exits, continued, roots, starts })
    }

    fn root_names(&self) -> HashSet<&str> {
        self.roots.iter().map(|at| self.inner_in[*at].as_str()).collect()
    }

    /// Adds the variables that need a gradient because a run before passes it on.
    fn close_roots(&mut self, no_grad: &HashSet<&str>) {
        loop {
            for at in &self.roots {
                if let Some(var) = self.flat.block.vars.get_mut(&self.inner_in[*at]) {
                    var.stop_gradient = false;
                }
            }
            let roots = Roots::Vars(self.root_names());
            let needs = needs_gradient(&self.flat.block, &roots, no_grad);
            let passed = |at: &usize| needs.contains(self.exits[*at].as_str());
            let more: Vec<usize> =
                (0..self.continued).filter(passed).filter(|at| !self.roots.contains(at)).collect();
            if more.is_empty() {
                return;
            }
            self.roots.extend(more);
        }
    }

    /// The way through the block; in a loop the gradients that it ends with are also such that it starts from.
    fn path(&mut self, repeats: bool, no_grad: &HashSet<&str>) -> Result<Path> {
        loop {
            let targets: Vec<&str> =
                self.starts.iter().map(|at| self.exits[*at].as_str()).collect();
            let roots = Roots::Vars(self.root_names());
            let path = Path::find(&self.flat.block, &targets, roots, no_grad)?;
            let reached = |at: &usize| repeats && path.wanted.contains(&self.inner_in[*at]);
            let more: Vec<usize> = (0..self.continued)
                .filter(reached)
                .filter(|at| !self.starts.contains(at))
                .collect();
            if more.is_empty() {
                return Ok(path);
            }
            self.starts.extend(more);
        }
    }
}

impl Emitter<'_> {
    /// Emits the gradient of op `at`, which runs a block.
    pub(super) fn push_block(&mut self, at: usize, flow: &'static Flow) -> Result<()> {
        let program = self.program;
        let forward = self.block.ops[at].clone();
        let Some(kind) = flow.gradient else {
            let kind = &forward.kind;
            return Err(Error::kernel(format!("the gradient of `{kind}` is not defined")));
        };
        let idx = sub_block(program, &forward)?;
        let (reads, outs) = (forward.inputs_of(flow.reads), forward.outputs_of("Out"));
        let mut region = Region::new(program, &forward, idx)?;
        let no_grad = self.no_grad.clone();
        let no_grad = no_grad.iter().map(String::as_str).collect();
        let wanted = |at: &usize| self.path.wanted.contains(&reads[*at]);
        region.roots.extend((0..reads.len()).filter(wanted));
        let asked: Vec<usize> = region.roots.iter().copied().collect();
        let given: HashMap<usize, String> = (0..outs.len())
            .filter_map(|at| Some((at, self.whole(&grad_name(&outs[at]))?)))
            .collect();
        region.starts.extend(given.keys());
        if flow.repeats {
            region.close_roots(&no_grad);
        }
        let path = region.path(flow.repeats, &no_grad)?;
        let (number, results) = self.gradient_block(&region, &path, idx)?;
        let gradients: Vec<&String> =
            given.keys().collect::<BTreeSet<_>>().iter().map(|at| &given[at]).collect();
        let place = |at: &usize| gradients.iter().position(|name| Some(*name) == given.get(at));
        let targets = region.starts.iter().map(|at| Target {
            name: grad_name(&region.exits[*at]),
            output: *at,
            gradient: place(at),
            input: (*at < region.continued).then_some(*at),
        });
        let wiring =
            Wiring { inputs: region.inner_in.clone(), targets: targets.collect(), results };
        let computed = |at: &usize| {
            !wiring.results[*at].is_empty()
                || (*at < region.continued && region.starts.contains(at))
        };
        let written = (0..reads.len()).map(|at| match asked.contains(&at) && computed(&at) {
            true => grad_name(&reads[at]),
            false => EMPTY_VAR.to_owned(),
        });
        let written: Vec<String> = written.collect();
        if written.iter().all(|name| name == EMPTY_VAR) {
            return Ok(());
        }
        // What the block continues is named as it is when it has run: what it was before is kept by the op.
        let reads =
            (0..reads.len()).map(|at| if at < region.continued { &outs[at] } else { &reads[at] });
        let mut op = Op::new(kind)
            .input(flow.reads, reads)
            .input("Out", outs)
            .input("Out@GRAD", gradients)
            .input(flow.saved, self.saved(at, flow)?)
            .output(&format!("{}@GRAD", flow.reads), written.iter());
        if !flow.repeats {
            op = op.input(flow.condition, forward.inputs_of(flow.condition));
            if let Some(scalar) = forward.attrs.get("is_scalar_condition") {
                op = op.attr("is_scalar_condition", scalar.clone());
            }
        }
        op = wiring.write(op.attr("sub_block", bireme_ir::Attr::Block(number)));
        op.site.clone_from(&forward.site);
        let wanted: Targets =
            written.into_iter().filter(|n| n != EMPTY_VAR).map(|n| (n, true)).collect();
        self.push(on_device_of(op, &forward).role(OpRole::BACKWARD), &wanted);
        Ok(())
    }

    /// The variable that keeps what the gradient needs of the runs of op `at`.
    fn saved(&self, at: usize, flow: &Flow) -> Result<Vec<String>> {
        let saved = self.program.blocks[self.block.idx].ops[self.places[at]].outputs_of(flow.saved);
        match saved {
            [] => Err(Error::kernel(format!(
                "has no variable in slot `{}`, where what its gradient needs is kept",
                flow.saved
            ))),
            saved => Ok(saved.to_vec()),
        }
    }

    /// Makes the block of gradients. Returns its number, and the name of each read's gradient in it.
    fn gradient_block(
        &mut self,
        region: &Region,
        path: &Path,
        idx: usize,
    ) -> Result<(i32, Vec<String>)> {
        let number = self.program.blocks.len() + self.made.len();
        let mut made = Block::new(number, self.program.blocks[idx].parent);
        made.forward = Some(idx);
        // Blocks inside of it get higher numbers.
        self.made.push(made.clone());
        let mut inner = Emitter::new(self.program, &region.flat, path, self.no_grad.clone());
        inner.made = std::mem::take(&mut self.made);
        for at in &region.starts {
            let (exit, start) = (&region.exits[*at], grad_name(&region.exits[*at]));
            inner.reserve(&start);
            if path.wanted.contains(exit) {
                inner.start_with(exit, &start);
            }
            if let Some(like) = region.flat.block.var(exit) {
                made.add_var(given(like, &start));
            }
        }
        inner.run()?;
        let (ops, finals, blocks) = inner.finish();
        self.made = blocks;
        let parent = made.parent;
        for name in ops.iter().flat_map(Op::input_vars) {
            let around = parent.and_then(|parent| self.program.find_var(parent, name));
            let of_forward = region.flat.block.var(name).filter(|_| around.is_none());
            if let Some(var) = of_forward.filter(|_| made.var(name).is_none()) {
                made.add_var(given(var, name));
            }
        }
        for op in ops {
            let around = |name: &str| {
                let visible = parent.and_then(|parent| self.program.find_var(parent, name));
                region.flat.block.var(name).or(visible).cloned()
            };
            infer_among(&mut made, &around, &op)?;
            set_kinds(&mut made, &op, &self.made, self.program.blocks.len());
            made.ops.push(op);
        }
        let result = |(at, name): (usize, &String)| {
            let found = region.roots.contains(&at).then(|| finals.get(&grad_name(name))).flatten();
            found.cloned().unwrap_or_default()
        };
        let results = region.inner_in.iter().enumerate().map(result).collect();
        let place = number - self.program.blocks.len();
        self.made[place] = made;
        let number = i32::try_from(number).expect("a program has fewer than 2**31 blocks");
        Ok((number, results))
    }
}

/// The declaration of a variable that has a value when the block of gradients runs.
fn given(like: &Var, name: &str) -> Var {
    let var = Var { name: name.to_owned(), persistable: false, param: None, ..like.clone() };
    Var { stop_gradient: true, need_check_feed: false, ..var }
}

/// Declares the gradients that a block computes as selected rows as such.
pub(super) fn set_kinds(of: &mut Block, op: &Op, made: &[Block], first: usize) {
    let Some(flow) = crate::flow::flow_of(&op.kind) else { return };
    let block = match op.attrs.get("sub_block") {
        Some(bireme_ir::Attr::Block(number)) => {
            usize::try_from(*number).ok().and_then(|number| made.get(number.checked_sub(first)?))
        }
        _ => None,
    };
    let (Some(block), Ok(wiring)) = (block, Wiring::of(op, flow)) else { return };
    let slot = format!("{}@GRAD", flow.reads);
    for (name, result) in op.outputs_of(&slot).iter().zip(&wiring.results) {
        if let (Some(var), Some(result)) = (of.vars.get_mut(name), block.var(result)) {
            var.kind = result.kind;
        }
    }
}
