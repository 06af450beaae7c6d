//! Gives every write of a temporary a name of its own.
//!
//! A program may write a variable twice, or write one that is fed. A plan knows one shape, one
//! place and one spread for each name, and feeds are the caller's memory; so a second write becomes
//! another variable, and later readers read that one. Persistable variables keep their names: they
//! are meant to change.

use std::collections::{HashMap, HashSet};

use bireme_ir::{Attr, EMPTY_VAR, Op, Program, Slots};

use crate::op::OpView;
use crate::plan::inline::GUARD;

/// The ops with temporaries written once each, and the fetches under their new names.
pub(super) fn rename(
    mut ops: Vec<Op>,
    program: &Program,
    feeds: &[&str],
    fetches: &[&str],
) -> (Vec<Op>, Vec<String>) {
    let mut taken: HashSet<String> = feeds.iter().map(|feed| (*feed).to_owned()).collect();
    let mut current: HashMap<String, String> = HashMap::new();
    let mut versions = 0;
    for op in &mut ops {
        for var in vars_mut(&mut op.inputs) {
            if let Some(now) = current.get(var) {
                var.clone_from(now);
            }
        }
        if let Some(Attr::String(guard)) = op.attrs.get_mut(GUARD)
            && let Some(now) = current.get(guard)
        {
            guard.clone_from(now);
        }
        for var in vars_mut(&mut op.outputs) {
            let fed = feeds.contains(&var.as_str());
            let persists = program.global().var(var).is_some_and(|var| var.persistable);
            if (persists && !fed) || var == EMPTY_VAR || taken.insert(var.clone()) {
                continue;
            }
            versions += 1;
            let fresh = format!("{var}@VERSION@{versions}");
            current.insert(std::mem::replace(var, fresh.clone()), fresh);
        }
    }
    let fetches = fetches
        .iter()
        .map(|name| current.get(*name).cloned().unwrap_or_else(|| (*name).to_owned()));
    (ops, fetches.collect())
}

/// Lets an op that cannot work in place write a persistable variable it reads: it writes another,
/// which is copied over. Programs of local SGD update parameters so.
pub(super) fn write_apart(ops: Vec<Op>) -> Vec<Op> {
    let mut all = Vec::with_capacity(ops.len());
    for mut op in ops {
        let refused = OpView::new(&op).is_ok_and(|view| view.check_aliases().is_err());
        let read: HashSet<String> = op.input_vars().filter(|_| refused).cloned().collect();
        let mut copies = Vec::new();
        for var in vars_mut(&mut op.outputs).filter(|var| read.contains(*var)) {
            let apart = format!("{var}@APART@{}", all.len());
            let mut copy = Op::new("assign").input("X", [&apart]).output("Out", [var.as_str()]);
            *var = apart;
            copy.site.clone_from(&op.site);
            copies.push(copy);
        }
        if let Some(guard) = op.attrs.get(GUARD) {
            copies.iter_mut().for_each(|copy| {
                copy.attrs.insert(GUARD.to_owned(), guard.clone());
            });
        }
        all.push(op);
        all.extend(copies);
    }
    all
}

fn vars_mut(slots: &mut Slots) -> impl Iterator<Item = &mut String> {
    slots.values_mut().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(kind: &str, input: &str, output: &str) -> Op {
        Op::new(kind).input("X", [input]).output("Out", [output])
    }

    #[test]
    fn a_second_write_is_another_variable() {
        let ops = vec![op("relu", "x", "h"), op("scale", "h", "h"), op("relu", "h", "y")];
        let (ops, fetches) = rename(ops, &Program::new(), &["x"], &["h", "y"]);
        assert_eq!(ops[0].outputs_of("Out"), ["h"]);
        assert_eq!(ops[1].inputs_of("X"), ["h"]);
        assert_eq!(ops[1].outputs_of("Out"), ops[2].inputs_of("X"));
        assert_eq!(fetches, [ops[1].outputs_of("Out")[0].clone(), "y".to_owned()]);
    }

    #[test]
    fn an_op_that_cannot_work_in_place_writes_apart() {
        let sub = Op::new("elementwise_sub").input("X", ["old"]).input("Y", ["w"]);
        let ops = write_apart(vec![sub.output("Out", ["w"]), op("scale", "w", "w")]);
        let kinds: Vec<&str> = ops.iter().map(|op| op.kind.as_str()).collect();
        assert_eq!(kinds, ["elementwise_sub", "assign", "scale"]);
        assert_eq!(ops[0].outputs_of("Out"), ops[1].inputs_of("X"));
        assert_eq!(ops[1].outputs_of("Out"), ["w"]);
    }

    #[test]
    fn a_fed_variable_is_never_written() {
        let (ops, _) = rename(vec![op("scale", "x", "x")], &Program::new(), &["x"], &[]);
        assert_eq!(ops[0].inputs_of("X"), ["x"]);
        assert_ne!(ops[0].outputs_of("Out"), ["x"]);
    }
}
