//! A block: variables by name, in order of declaration, and ops in order of execution.

use indexmap::IndexMap;

use crate::{Op, Var};

/// A list of ops and the variables they use; sub-blocks are bodies of control flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Position in [`Program::blocks`](crate::Program::blocks).
    pub idx: usize,
    /// The enclosing block, whose variables are visible here too.
    pub parent: Option<usize>,
    /// The forward block of which this one is the backward pass.
    pub forward: Option<usize>,
    /// Declarations in order; parameters keep the order in which they were created.
    pub vars: IndexMap<String, Var>,
    /// Ops in execution order.
    pub ops: Vec<Op>,
}

impl Block {
    /// An empty block.
    pub fn new(idx: usize, parent: Option<usize>) -> Block {
        Block { idx, parent, forward: None, vars: IndexMap::new(), ops: Vec::new() }
    }

    /// The declaration of `name` in this block (not in its parents).
    pub fn var(&self, name: &str) -> Option<&Var> {
        self.vars.get(name)
    }

    /// Declares `var`, replacing a declaration of the same name.
    pub fn add_var(&mut self, var: Var) -> &mut Var {
        let name = var.name.clone();
        self.vars.insert(name.clone(), var);
        &mut self.vars[&name]
    }

    /// Parameters in order of creation.
    pub fn parameters(&self) -> impl Iterator<Item = &Var> {
        self.vars.values().filter(|var| var.is_parameter())
    }
}
