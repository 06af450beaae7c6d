//! Programs cut down: to the forward pass for testing, or to what some targets need.
//!
//! Both keep the order of ops and declarations, and leave no variable or sub-block behind that
//! only removed ops used.

use std::collections::{BTreeMap, HashSet};

use crate::{Attr, Block, Error, Op, OpRole, Program, Result, TargetProblem, nearest};

/// Switches ops such as `dropout` from training to testing.
const IS_TEST: &str = "is_test";

/// An output that only a gradient op reads; Paddle drops it from programs for testing.
const RESERVE_SPACE: &str = "ReserveSpace";

impl Program {
    /// The forward pass alone, set to testing: Paddle's `clone(for_test=True)`. Ops that compute
    /// gradients, learning rates or updates are gone, and `is_test` is true wherever it was given.
    pub fn clone_for_test(&self) -> Program {
        self.clone_for_test_with(&[])
    }

    /// Like [`clone_for_test`](Program::clone_for_test), for programs that leave defaults out: ops
    /// of the types in `takes_is_test` get the attribute even if they did not have it.
    pub fn clone_for_test_with(&self, takes_is_test: &[&str]) -> Program {
        let mut program = self.clone();
        for block in &mut program.blocks {
            let (kept, removed) = std::mem::take(&mut block.ops)
                .into_iter()
                .partition::<Vec<Op>, _>(|op| !is_training(op.op_role()));
            block.ops = kept;
            for op in &mut block.ops {
                if op.attrs.contains_key(IS_TEST) || takes_is_test.contains(&op.kind.as_str()) {
                    op.attrs.insert(IS_TEST.to_owned(), Attr::Bool(true));
                    op.outputs.remove(RESERVE_SPACE);
                }
            }
            drop_unused(block, &removed);
        }
        program.drop_unreachable_blocks();
        program
    }

    /// The ops that `targets` need and nothing else. Variables in `feeds` are taken as given: what
    /// computes them is dropped too. Ops marked `is_target` stay.
    ///
    /// # Errors
    /// [`Error::Target`] for a target that nothing computes and a feed that is not declared.
    pub fn prune(&self, feeds: &[&str], targets: &[&str]) -> Result<Program> {
        self.check_names(feeds, targets)?;
        let mut program = self.clone();
        let mut needed: HashSet<String> = targets.iter().map(|name| (*name).to_owned()).collect();
        for feed in feeds {
            needed.remove(*feed);
        }
        let global = program.global_mut();
        let mut kept = Vec::new();
        for op in std::mem::take(&mut global.ops).into_iter().rev() {
            if op.is_target || op.output_vars().any(|var| needed.contains(var)) {
                needed
                    .extend(self.reads(&op).filter(|var| !feeds.contains(var)).map(str::to_owned));
                kept.push(op);
            }
        }
        kept.reverse();
        global.ops = kept;
        program.drop_unreachable_blocks();
        let mut used: HashSet<&str> = feeds.iter().chain(targets).copied().collect();
        used.extend(program.blocks.iter().flat_map(|block| &block.ops).flat_map(vars_of));
        let used: HashSet<String> = used.into_iter().map(str::to_owned).collect();
        program.global_mut().vars.retain(|name, _| used.contains(name));
        Ok(program)
    }

    fn check_names(&self, feeds: &[&str], targets: &[&str]) -> Result<()> {
        let global = self.global();
        let similar = |name| nearest(name, global.vars.keys().map(String::as_str));
        if let Some(feed) = feeds.iter().find(|feed| global.var(feed).is_none()) {
            let problem = TargetProblem::NotDeclared { nearest: similar(feed) };
            return Err(Error::Target { var: (*feed).to_owned(), problem });
        }
        let computed: HashSet<&str> =
            global.ops.iter().flat_map(Op::output_vars).map(String::as_str).collect();
        let given = |name: &str| {
            computed.contains(name)
                || feeds.contains(&name)
                || global.var(name).is_some_and(|var| var.persistable)
        };
        match targets.iter().find(|target| !given(target)) {
            None => Ok(()),
            Some(target) => {
                let problem = TargetProblem::NotComputed { nearest: similar(target) };
                Err(Error::Target { var: (*target).to_owned(), problem })
            }
        }
    }

    /// What an op reads, itself or in its sub-blocks.
    fn reads<'a>(&'a self, op: &'a Op) -> impl Iterator<Item = &'a str> {
        let mut inside = vec![false; self.blocks.len()];
        self.mark_blocks(op, &mut inside);
        let blocks = self.blocks.iter().zip(inside).filter_map(|(block, is)| is.then_some(block));
        let in_blocks = blocks.flat_map(|block| block.ops.iter().flat_map(Op::input_vars));
        op.input_vars().chain(in_blocks).map(String::as_str)
    }

    /// Marks the sub-blocks of `op`, and theirs.
    fn mark_blocks(&self, op: &Op, marked: &mut [bool]) {
        let mut ops = vec![op];
        while let Some(op) = ops.pop() {
            for idx in sub_blocks(op) {
                if let Some(mark) = marked.get_mut(idx).filter(|mark| !**mark) {
                    *mark = true;
                    ops.extend(&self.blocks[idx].ops);
                }
            }
        }
    }

    /// Removes blocks that no op refers to any more, and renumbers the others.
    fn drop_unreachable_blocks(&mut self) {
        let mut reachable = vec![false; self.blocks.len()];
        reachable[0] = true;
        for op in &self.global().ops {
            self.mark_blocks(op, &mut reachable);
        }
        // A block's parents hold variables it sees, so they stay with it.
        for idx in (0..self.blocks.len()).rev().filter(|idx| reachable[*idx]).collect::<Vec<_>>() {
            let mut parent = self.blocks[idx].parent;
            while let Some(idx) = parent.filter(|idx| reachable.get(*idx) == Some(&false)) {
                reachable[idx] = true;
                parent = self.blocks[idx].parent;
            }
        }
        let kept = (0..self.blocks.len()).filter(|idx| reachable[*idx]);
        let new: BTreeMap<usize, usize> = kept.enumerate().map(|(new, old)| (old, new)).collect();
        self.blocks.retain(|block| reachable.get(block.idx) == Some(&true));
        for block in &mut self.blocks {
            block.idx = new[&block.idx];
            block.parent = block.parent.and_then(|idx| new.get(&idx).copied());
            block.forward = block.forward.and_then(|idx| new.get(&idx).copied());
            for value in block.ops.iter_mut().flat_map(|op| op.attrs.values_mut()) {
                renumber(value, &new);
            }
        }
    }
}

/// Whether an op with this role runs only in training.
fn is_training(role: OpRole) -> bool {
    let flags = OpRole::BACKWARD.0 | OpRole::OPTIMIZE.0 | OpRole::LR_SCHED.0;
    role.0 & flags != 0
}

/// Drops the variables of `removed` ops that no op of the block uses.
fn drop_unused(block: &mut Block, removed: &[Op]) {
    let used: HashSet<&str> = block.ops.iter().flat_map(vars_of).collect();
    let orphans: HashSet<&str> =
        removed.iter().flat_map(vars_of).filter(|var| !used.contains(var)).collect();
    block.vars.retain(|name, _| !orphans.contains(name.as_str()));
}

/// Every variable an op names.
fn vars_of(op: &Op) -> impl Iterator<Item = &str> {
    op.input_vars().chain(op.output_vars()).map(String::as_str)
}

fn sub_blocks(op: &Op) -> impl Iterator<Item = usize> {
    let of = |attr: &Attr| match attr {
        Attr::Block(idx) => vec![*idx],
        Attr::Blocks(blocks) => blocks.clone(),
        _ => Vec::new(),
    };
    op.attrs.values().flat_map(of).filter_map(|idx| usize::try_from(idx).ok())
}

/// Gives sub-blocks their new numbers.
fn renumber(value: &mut Attr, new: &BTreeMap<usize, usize>) {
    let renumbered = |idx: &mut i32| {
        let found = usize::try_from(*idx).ok().and_then(|idx| new.get(&idx));
        if let Some(found) = found.and_then(|idx| i32::try_from(*idx).ok()) {
            *idx = found;
        }
    };
    match value {
        Attr::Block(idx) => renumbered(idx),
        Attr::Blocks(blocks) => blocks.iter_mut().for_each(renumbered),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
