//! The program: blocks, the first of which is the global one.

use std::collections::BTreeMap;

use crate::{Block, Blocks, Var};

/// Appended to a variable's name to name its gradient.
pub const GRAD_SUFFIX: &str = "@GRAD";

/// What Paddle writes into a slot in place of a variable that is not wanted.
pub const EMPTY_VAR: &str = "@EMPTY@";

/// The name of the gradient of `var`.
pub fn grad_name(var: &str) -> String {
    format!("{var}{GRAD_SUFFIX}")
}

/// A whole computation.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Never empty; block 0 is the global block.
    pub blocks: Blocks,
    /// Format version, as saved programs carry it.
    pub version: i64,
    /// Versions of the op definitions the program was written for.
    pub op_versions: BTreeMap<String, i32>,
    /// Seed of the random ops that have none of their own; 0 means "not set".
    pub random_seed: u64,
}

impl Default for Program {
    fn default() -> Program {
        Program {
            blocks: vec![Block::new(0, None)].into(),
            version: 0,
            op_versions: BTreeMap::new(),
            random_seed: 0,
        }
    }
}

impl Program {
    /// A program with an empty global block.
    pub fn new() -> Program {
        Program::default()
    }

    /// The global block.
    pub fn global(&self) -> &Block {
        &self.blocks[0]
    }

    /// The global block, to be changed.
    pub fn global_mut(&mut self) -> &mut Block {
        &mut self.blocks[0]
    }

    /// Looks `name` up in block `idx`, then in the blocks around it.
    pub fn find_var(&self, idx: usize, name: &str) -> Option<&Var> {
        let mut next = Some(idx);
        while let Some(block) = next.and_then(|idx| self.blocks.get(idx)) {
            if let Some(var) = block.var(name) {
                return Some(var);
            }
            // A parent always comes first, so this ends even in a damaged program.
            next = block.parent.filter(|parent| *parent < block.idx);
        }
        None
    }

    /// Every variable of every block, in order of declaration.
    pub fn list_vars(&self) -> impl Iterator<Item = &Var> {
        self.blocks.iter().flat_map(|block| block.vars.values())
    }

    /// Every parameter, in order of creation.
    pub fn parameters(&self) -> impl Iterator<Item = &Var> {
        self.list_vars().filter(|var| var.is_parameter())
    }

    /// Every tensor that outlives a run: parameters, optimizer state, metrics; what is saved.
    /// The lists of `feed` and `fetch` ops are persistable too, but are no tensors.
    pub fn persistables(&self) -> impl Iterator<Item = &Var> {
        self.list_vars().filter(|var| var.persistable && var.kind.is_tensor())
    }

    /// Adds an empty block inside block `parent` and returns it.
    ///
    /// # Panics
    /// When there is no block `parent`.
    pub fn append_block(&mut self, parent: usize) -> &mut Block {
        let idx = self.blocks.len();
        assert!(parent < idx, "block {parent} does not exist, so it cannot hold another");
        self.blocks.push(Block::new(idx, Some(parent)));
        &mut self.blocks[idx]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, VarKind};

    #[test]
    fn lists_variables_by_what_they_are() {
        let mut program = Program::new();
        let global = program.global_mut();
        global.add_var(Var::parameter("w", DType::F32, [2]));
        let feed = global.add_var(Var::tensor("feed", DType::F32, []));
        feed.persistable = true;
        feed.kind = VarKind::FeedMinibatch;
        program.append_block(0).add_var(Var::tensor("t", DType::F32, [2]));
        assert_eq!(program.blocks[1].parent, Some(0));
        let names = |vars: Vec<&Var>| vars.iter().map(|var| var.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(program.list_vars().collect()), ["w", "feed", "t"]);
        assert_eq!(names(program.parameters().collect()), ["w"]);
        assert_eq!(names(program.persistables().collect()), ["w"]);
        assert!(program.find_var(1, "w").is_some());
        assert!(program.find_var(0, "t").is_none());
    }
}
