//! The block that a backward pass goes through: every variable written once, and declared. Afterwards names are the
//! program's again; a value that the program writes over, and that a gradient reads, is copied before.

use std::collections::{HashMap, HashSet};

use bireme_ir::{Block, EMPTY_VAR, Op, Program, Var};

use crate::Result;
use crate::flow::{Single, check_blocks, single_assignment};

/// A block in single assignment.
pub(super) struct Flat {
    pub(super) block: Block,
    pub(super) single: Single,
}

impl Flat {
    /// The global block of `program`.
    ///
    /// # Errors
    /// When an op names a block that does not exist.
    pub(super) fn global(program: &Program) -> Result<Flat> {
        check_blocks(program)?;
        let global = program.global();
        let written: HashSet<&str> =
            global.ops.iter().flat_map(Op::output_vars).map(String::as_str).collect();
        // What no op writes is fed.
        let enters = |name: &str| {
            let var = global.var(name);
            var.is_some_and(|var| var.persistable || var.need_check_feed)
                || (!written.contains(name) && var.is_some_and(|var| var.kind.is_tensor()))
        };
        let single = single_assignment(program, 0, &enters)?;
        let block = Block { vars: global.vars.clone(), ..Block::new(0, None) };
        Ok(Flat::new(program, block, single))
    }

    /// Block `idx`, which the variables `enters` enter from around it.
    ///
    /// # Errors
    /// When an op names a block that does not exist.
    pub(super) fn inner(program: &Program, idx: usize, enters: &[String]) -> Result<Flat> {
        let single =
            single_assignment(program, idx, &|name| enters.iter().any(|known| known == name))?;
        let declared = &program.blocks[idx];
        let block = Block { vars: declared.vars.clone(), ..Block::new(idx, declared.parent) };
        Ok(Flat::new(program, block, single))
    }

    fn new(program: &Program, mut block: Block, mut single: Single) -> Flat {
        block.ops = std::mem::take(&mut single.ops);
        for name in block.ops.iter().flat_map(|op| op.input_vars().chain(op.output_vars())) {
            let declared = program.find_var(block.idx, single.in_program(name));
            if let Some(var) = declared.filter(|_| !block.vars.contains_key(name)) {
                block.vars.insert(name.clone(), Var { name: name.clone(), ..var.clone() });
            }
        }
        Flat { block, single }
    }

    /// Gives `ops`, which a backward pass appends to the global block, the program's names. Returns the copies that
    /// the forward pass must make: before which op, and the op.
    pub(super) fn restore(&self, ops: &mut [Op]) -> Vec<(usize, Op)> {
        let overwritten = self.overwritten();
        let mut copies: Vec<(usize, Op)> = Vec::new();
        let mut made: HashMap<String, String> = HashMap::new();
        for name in ops.iter_mut().flat_map(|op| op.inputs.values_mut().flatten()) {
            if let Some(copy) = made.get(name) {
                name.clone_from(copy);
            } else if let Some(at) = overwritten.get(name.as_str()) {
                let copy = self.free_name(&format!("{}@COPY", self.single.in_program(name)), &made);
                let source = self.single.in_program(name);
                let mut op = Op::new("assign").input("X", [source]).output("Out", [copy.as_str()]);
                op.site.clone_from(&self.block.ops[*at].site);
                copies.push((self.single.places[*at], op));
                made.insert(std::mem::replace(name, copy.clone()), copy);
            } else {
                *name = self.single.in_program(name).to_owned();
            }
        }
        copies
    }

    /// The variables that are written over, each with the op that does.
    fn overwritten(&self) -> HashMap<&str, usize> {
        let mut now: HashMap<&str, &str> = HashMap::new();
        let mut overwritten = HashMap::new();
        for (at, op) in self.block.ops.iter().enumerate() {
            for name in op.output_vars().filter(|name| *name != EMPTY_VAR) {
                let original = self.single.in_program(name);
                if original != name {
                    overwritten.insert(now.get(original).copied().unwrap_or(original), at);
                }
                now.insert(original, name);
            }
        }
        overwritten
    }

    fn free_name(&self, name: &str, made: &HashMap<String, String>) -> String {
        let free =
            |name: &String| self.block.var(name).is_none() && made.values().all(|n| n != name);
        let mut numbered = (0..).map(|number| format!("{name}@{number}"));
        numbered.find(free).expect("numbers do not end")
    }
}
