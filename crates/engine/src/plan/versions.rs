//! Gives every write of a temporary a name of its own.
//!
//! A program may write a variable twice, or write one that is fed. A plan knows one shape, one
//! place and one spread for each name, and feeds are the caller's memory; so a second write becomes
//! another variable, and later readers read that one. Persistable variables keep their names: they
//! are meant to change.

use std::collections::{HashMap, HashSet};

use bireme_ir::{EMPTY_VAR, Op, Program, Slots};

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
    fn a_fed_variable_is_never_written() {
        let (ops, _) = rename(vec![op("scale", "x", "x")], &Program::new(), &["x"], &[]);
        assert_eq!(ops[0].inputs_of("X"), ["x"]);
        assert_ne!(ops[0].outputs_of("Out"), ["x"]);
    }
}
