//! The program: blocks, the first of which is the global one.

use std::collections::BTreeMap;

use crate::{Block, Var};

/// Appended to a variable's name to name its gradient.
pub const GRAD_SUFFIX: &str = "@GRAD";

/// The name of the gradient of `var`.
pub fn grad_name(var: &str) -> String {
    format!("{var}{GRAD_SUFFIX}")
}

/// A whole computation.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Never empty; block 0 is the global block.
    pub blocks: Vec<Block>,
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
            blocks: vec![Block::new(0, None)],
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
}
