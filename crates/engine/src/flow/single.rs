//! The ops of a block with every variable written once. What is written again, or comes from around the block, gets a
//! name of its own from then on; so an op reads one value by one name, wherever in the block it stands.

use std::collections::{HashMap, HashSet};

use bireme_ir::{EMPTY_VAR, Op, Program};

use super::{complete, empty_arrays};
use crate::Result;

/// Stands between a variable's name and the number of its write.
const AGAIN: &str = "@AGAIN@";

/// A block in which every variable is written once.
#[derive(Default)]
pub(crate) struct Single {
    /// The ops, completed.
    pub(crate) ops: Vec<Op>,
    /// Which op of the program each is, or stands before.
    pub(crate) places: Vec<usize>,
    /// The name in the program of each variable that has another here.
    pub(crate) original: HashMap<String, String>,
    /// What a variable that is written again is called at the end.
    pub(crate) last: HashMap<String, String>,
}

impl Single {
    /// What a variable of the program is called at the end.
    pub(crate) fn at_end<'a>(&'a self, name: &'a str) -> &'a str {
        self.last.get(name).map_or(name, String::as_str)
    }

    /// What the program calls a variable.
    pub(crate) fn in_program<'a>(&'a self, name: &'a str) -> &'a str {
        self.original.get(name).map_or(name, String::as_str)
    }
}

/// The ops of block `idx`, each variable written once. `enters` says which variables have a value before the first op.
/// Persistable variables of the global block stay what they are: they are meant to change.
///
/// # Errors
/// When an op names a block that does not exist.
pub(crate) fn single_assignment(
    program: &Program,
    idx: usize,
    enters: &dyn Fn(&str) -> bool,
) -> Result<Single> {
    let block = &program.blocks[idx];
    let mut single = Single::default();
    let mut written: HashSet<String> = HashSet::new();
    let mut counts: HashMap<String, usize> = HashMap::new();
    for (place, op) in block.ops.iter().enumerate() {
        let has_value = |name: &str| written.contains(name) || enters(name);
        let in_op = |error: crate::Error| error.in_op(op);
        let mut ops = empty_arrays(program, idx, op, &has_value).map_err(in_op)?;
        let arrays: Vec<&str> = ops.iter().flat_map(Op::output_vars).map(String::as_str).collect();
        let known = |name: &str| has_value(name) || arrays.contains(&name);
        let op = complete(program, op, &known).map_err(in_op)?;
        ops.push(op);
        for mut op in ops {
            for name in op.inputs.values_mut().flatten() {
                *name = single.at_end(name).to_owned();
            }
            for name in op.outputs.values_mut().flatten() {
                let stays = idx == 0 && block.var(name).is_some_and(|var| var.persistable);
                if name == EMPTY_VAR || stays {
                    continue;
                }
                let is_first = written.insert(name.clone());
                let is_outer = idx > 0 && block.var(name).is_none();
                if is_first && !is_outer && !enters(name) {
                    continue;
                }
                let count = counts.entry(name.clone()).or_default();
                *count += 1;
                let fresh = format!("{name}{AGAIN}{count}");
                single.original.insert(fresh.clone(), name.clone());
                single.last.insert(std::mem::replace(name, fresh.clone()), fresh);
            }
            single.ops.push(op);
            single.places.push(place);
        }
    }
    Ok(single)
}
