//! A rewrite of a list of ops, by the positions they had at first.

use std::collections::{BTreeMap, BTreeSet};

use bireme_ir::Op;

/// Ops to be removed, changed and added.
#[derive(Debug)]
pub(crate) struct Edit {
    ops: Vec<Op>,
    removed: BTreeSet<usize>,
    before: BTreeMap<usize, Vec<Op>>,
    after: BTreeMap<usize, Vec<Op>>,
}

impl Edit {
    /// A rewrite of `ops` that changes nothing yet.
    pub(crate) fn new(ops: &[Op]) -> Edit {
        Edit {
            ops: ops.to_vec(),
            removed: BTreeSet::new(),
            before: BTreeMap::new(),
            after: BTreeMap::new(),
        }
    }

    pub(crate) fn remove(&mut self, index: usize) {
        self.removed.insert(index);
    }

    /// The op at `index`, to be changed.
    pub(crate) fn op_mut(&mut self, index: usize) -> &mut Op {
        &mut self.ops[index]
    }

    /// Adds `op` before the op that is at `index`, after others added there; `index` may be the end.
    pub(crate) fn before(&mut self, index: usize, op: Op) {
        self.before.entry(index).or_default().push(op);
    }

    /// Adds `op` after the op that is at `index`, after others added there.
    pub(crate) fn after(&mut self, index: usize, op: Op) {
        self.after.entry(index).or_default().push(op);
    }

    /// The ops as they are now.
    pub(crate) fn finish(mut self) -> Vec<Op> {
        let mut ops = Vec::with_capacity(self.ops.len());
        let end = self.ops.len();
        for (index, op) in self.ops.into_iter().enumerate() {
            ops.extend(self.before.remove(&index).unwrap_or_default());
            if !self.removed.contains(&index) {
                ops.push(op);
            }
            ops.extend(self.after.remove(&index).unwrap_or_default());
        }
        ops.extend(self.before.remove(&end).unwrap_or_default());
        ops
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_those_of_the_start() {
        let mut edit = Edit::new(&["a", "b", "c"].map(Op::new));
        edit.remove(1);
        edit.after(0, Op::new("a1"));
        edit.after(1, Op::new("b1"));
        edit.before(1, Op::new("b0"));
        edit.before(3, Op::new("end"));
        edit.op_mut(2).kind = "C".to_owned();
        let kinds: Vec<String> = edit.finish().into_iter().map(|op| op.kind).collect();
        assert_eq!(kinds, ["a", "a1", "b0", "b1", "C", "end"]);
    }
}
