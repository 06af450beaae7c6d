//! Checks a program before anything runs: op types, slots, attributes, variables, order, shapes.
//!
//! The first thing wrong is the error; it names the op with its position and call site, and the
//! variable, slot or attribute. A program that passes gives the engine no name it cannot resolve.

mod attrs;
mod order;

use std::collections::HashMap;

pub use attrs::COMMON_ATTRS;

use crate::{
    Attr, AttrDefault, AttrProblem, Block, Catalog, EMPTY_VAR, Error, Op, OpPlace, Program, Result,
    Signature, Slot, SlotProblem, Slots, Var, nearest,
};

/// How many variables of an overfull slot a message lists.
const LISTED: usize = 4;

/// Checks every block of `program` against the op types of `catalog`.
///
/// # Errors
/// The first thing that is wrong, in the order of the ops.
pub fn verify(program: &Program, catalog: &dyn Catalog) -> Result<()> {
    for block in &program.blocks {
        let writers = order::first_writers(block);
        for (index, op) in block.ops.iter().enumerate() {
            Check { program, catalog, block, writers: &writers, op, index }.run()?;
        }
    }
    Ok(())
}

/// The check of one op.
struct Check<'a> {
    program: &'a Program,
    catalog: &'a dyn Catalog,
    block: &'a Block,
    /// Variable to the first op of the block that writes it.
    writers: &'a HashMap<&'a str, usize>,
    op: &'a Op,
    index: usize,
}

impl Check<'_> {
    fn run(&self) -> Result<()> {
        let Some(signature) = self.catalog.signature(&self.op.kind) else {
            let nearest = nearest(&self.op.kind, self.catalog.kinds());
            return Err(Error::UnknownOp { op: self.place(), nearest });
        };
        self.slots(&self.op.inputs, signature.inputs, SlotProblem::MissingInput)?;
        self.slots(&self.op.outputs, signature.outputs, SlotProblem::MissingOutput)?;
        self.attrs(&signature)?;
        self.sub_blocks()?;
        self.declared()?;
        self.defined()?;
        self.inferred()
    }

    fn place(&self) -> Box<OpPlace> {
        Box::new(OpPlace::new(self.op, self.block.idx, self.index))
    }

    fn slots(
        &self,
        slots: &Slots,
        known: &[Slot],
        missing: fn(String) -> SlotProblem,
    ) -> Result<()> {
        let bad = |problem| Err(Error::BadSlot { op: self.place(), problem });
        let filled = |slot: &Slot| slots.get(slot.name).is_some_and(|vars| !vars.is_empty());
        if let Some(slot) = known.iter().find(|slot| slot.required && !filled(slot)) {
            return bad(missing(slot.name.to_owned()));
        }
        // Paddle lists slots that an op has but does not use as empty ones.
        for (name, vars) in slots.iter().filter(|(_, vars)| !vars.is_empty()) {
            match known.iter().find(|slot| slot.name == name) {
                None => {
                    let nearest = nearest(name, known.iter().map(|slot| slot.name));
                    return bad(SlotProblem::Unknown { slot: name.clone(), nearest });
                }
                Some(slot) if !slot.many && vars.len() > 1 => {
                    return bad(SlotProblem::Several {
                        slot: name.clone(),
                        count: vars.len(),
                        vars: vars.iter().take(LISTED).cloned().collect(),
                    });
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn attrs(&self, signature: &Signature) -> Result<()> {
        let bad = |attr: &str, problem| {
            Err(Error::BadAttr { op: self.place(), attr: attr.to_owned(), problem })
        };
        for spec in signature.attrs {
            match (self.op.attrs.get(spec.name), spec.default) {
                (None, AttrDefault::Required(kind)) => {
                    return bad(spec.name, AttrProblem::Missing(kind));
                }
                (Some(value), default) if value.coerce(default.kind()).is_none() => {
                    let (expected, found) = (default.kind(), value.kind());
                    return bad(spec.name, AttrProblem::WrongType { expected, found });
                }
                _ => {}
            }
        }
        let known = |attr: &str| signature.attrs.iter().any(|spec| spec.name == attr);
        for (attr, value) in self.op.attrs.iter().filter(|(attr, _)| !known(attr)) {
            if !attrs::is_harmless(attr, value) {
                return bad(attr, AttrProblem::NotHonoured { value: format!("{value:?}") });
            }
        }
        let mut names = self.op.attrs.keys().map(String::as_str);
        match names.find(|attr| !known(attr) && !COMMON_ATTRS.contains(attr)) {
            None => Ok(()),
            Some(attr) => Err(Error::UnknownAttr {
                op: self.place(),
                attr: attr.to_owned(),
                nearest: nearest(attr, signature.attrs.iter().map(|spec| spec.name)),
            }),
        }
    }

    /// Sub-blocks exist and come after the op's own block, so running them ends.
    fn sub_blocks(&self) -> Result<()> {
        let blocks = self.program.blocks.len();
        let inside = |block: i32| {
            usize::try_from(block).is_ok_and(|block| block > self.block.idx && block < blocks)
        };
        for (attr, value) in &self.op.attrs {
            let named: &[i32] = match value {
                Attr::Block(block) => std::slice::from_ref(block),
                Attr::Blocks(blocks) => blocks,
                _ => continue,
            };
            if let Some(block) = named.iter().copied().find(|block| !inside(*block)) {
                let problem = AttrProblem::NoSuchBlock { block, blocks };
                return Err(Error::BadAttr { op: self.place(), attr: attr.clone(), problem });
            }
        }
        Ok(())
    }

    fn declared(&self) -> Result<()> {
        let mut vars = self.op.input_vars().chain(self.op.output_vars());
        match vars.find(|var| is_real(var) && self.find(var).is_none()) {
            None => Ok(()),
            Some(var) => {
                let names = self.program.list_vars().map(|var| var.name.as_str());
                let nearest = nearest(var, names);
                Err(Error::Undeclared { op: self.place(), var: var.clone(), nearest })
            }
        }
    }

    fn defined(&self) -> Result<()> {
        for name in self.op.input_vars().filter(|var| is_real(var)) {
            let Some(var) = self.block.var(name) else {
                // Of a block around this one: its own order of ops has been checked there, and a
                // loop may read what it wrote the time before.
                continue;
            };
            if !order::has_value(var, self.writers, self.index) {
                let written_at = self.writers.get(name.as_str()).copied();
                return Err(Error::Undefined { op: self.place(), var: name.clone(), written_at });
            }
        }
        Ok(())
    }

    fn inferred(&self) -> Result<()> {
        let inferred = self.catalog.infer(self.op, &|name| self.find(name));
        let outputs = inferred.map_err(|error| match error {
            Error::BadOp { problem, .. } => Error::Infer { op: self.place(), problem },
            error => error,
        })?;
        for output in outputs {
            let Some(declared) = self.find(&output.name) else { continue };
            if declared.kind.is_tensor() && !agree(declared, &output) {
                return Err(Error::Conflict {
                    op: self.place(),
                    declared: describe(declared),
                    inferred: describe(&output),
                    var: output.name,
                });
            }
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Option<&Var> {
        self.program.find_var(self.block.idx, name)
    }
}

/// Whether a name in a slot stands for a variable.
fn is_real(name: &str) -> bool {
    !name.is_empty() && name != EMPTY_VAR
}

fn agree(declared: &Var, inferred: &Var) -> bool {
    let (a, b) = (&declared.shape, &inferred.shape);
    // Paddle 1.x and early 2.x give a single number the shape [1], later ones [].
    let single = |shape: &[i64]| shape.iter().all(|dim| *dim == 1 || *dim == -1) && shape.len() < 2;
    let fits = a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || *a < 0 || *b < 0);
    // Paddle's traces leave the shapes of outputs that nobody reads (saved statistics) empty.
    let open = a.is_empty() && !declared.persistable;
    declared.dtype == inferred.dtype && (fits || open || (single(a) && single(b)))
}

fn describe(var: &Var) -> String {
    format!("{} {:?}", var.dtype, var.shape)
}

#[cfg(test)]
mod tests;
