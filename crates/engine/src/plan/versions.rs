//! Makes every write of a temporary a value of its own.
//!
//! A program may write a variable twice, or write one that is fed. A plan knows one shape, one
//! place and one spread for each value, and feeds are the caller's memory; so a second write becomes
//! another value, and later readers read that one. Persistable variables stay what they are: they
//! are meant to change.

use std::collections::{HashMap, HashSet};

use bireme_ir::Op;

use crate::plan::select::{Selection, VarId};

/// Has every temporary written once; fetches are of the last writes.
pub(super) fn separate(selection: &mut Selection) {
    let mut taken: HashSet<VarId> = selection.feeds.iter().copied().collect();
    let mut current: HashMap<VarId, VarId> = HashMap::new();
    let now = |current: &HashMap<VarId, VarId>, var| current.get(&var).copied().unwrap_or(var);
    let mut ops = std::mem::take(&mut selection.ops);
    for op in &mut ops {
        for var in &mut op.inputs {
            *var = now(&current, *var);
        }
        for var in &mut op.outputs {
            let fed = selection.feeds.contains(var);
            if (selection.vars[*var].persists() && !fed) || taken.insert(*var) {
                continue;
            }
            let fresh = selection.another(now(&current, *var));
            current.insert(std::mem::replace(var, fresh), fresh);
        }
    }
    selection.ops = ops;
    for fetch in &mut selection.fetches {
        *fetch = now(&current, *fetch);
    }
}

/// Lets an op that cannot work in place write a persistable variable it reads: it writes another,
/// which is copied over. Programs of local SGD update parameters so.
pub(super) fn write_apart(selection: &mut Selection) {
    for mut op in std::mem::take(&mut selection.ops) {
        let refused = op.check_aliases().is_err();
        let mut copies = Vec::new();
        for at in 0..op.outputs.len() {
            let var = op.outputs[at];
            if refused && op.inputs.contains(&var) {
                op.outputs[at] = selection.another(var);
                let (from, to) = ([("X", &op.outputs[at..=at])], [("Out", &[var][..])]);
                let mut copy = selection.op(Op::new("assign"), &op, &from, &to);
                copy.inputs.extend(op.guard());
                copy.guarded = op.guarded;
                copies.push(copy);
            }
        }
        selection.ops.push(op);
        selection.ops.extend(copies);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;
    use crate::{Error, Executor, Place};
    use bireme_ir::{DType, Program, Var};

    fn op(kind: &str, input: &str, output: &str) -> Op {
        Op::new(kind).input("X", [input]).output("Out", [output])
    }

    fn selection(ops: Vec<Op>, feeds: &[&str], fetches: &[&str]) -> Selection {
        let mut program = Program::new();
        program.global_mut().ops = ops;
        Selection::new(&program, feeds, fetches).unwrap()
    }

    #[test]
    fn a_second_write_is_another_variable() {
        let ops = vec![op("relu", "x", "h"), op("scale", "h", "h"), op("relu", "h", "y")];
        let mut selection = selection(ops, &["x"], &["h", "y"]);
        separate(&mut selection);
        let ops = &selection.ops;
        assert_eq!(ops[0].outputs, ops[1].inputs);
        assert_ne!(ops[1].inputs, ops[1].outputs);
        assert_eq!(ops[1].outputs, ops[2].inputs);
        assert_eq!(selection.fetches, [ops[1].outputs[0], ops[2].outputs[0]]);
        let names: Vec<&str> =
            selection.fetches.iter().map(|var| &*selection.vars[*var].name).collect();
        assert_eq!(names, ["h", "y"]);
    }

    #[test]
    fn an_op_that_cannot_work_in_place_writes_apart() {
        let sub = Op::new("elementwise_sub").input("X", ["old"]).input("Y", ["w"]);
        let ops = vec![sub.output("Out", ["w"]), op("scale", "w", "w")];
        let mut selection = selection(ops, &[], &["w"]);
        write_apart(&mut selection);
        let ops = &selection.ops;
        let kinds: Vec<&str> = ops.iter().map(|op| op.op.kind.as_str()).collect();
        assert_eq!(kinds, ["elementwise_sub", "assign", "scale"]);
        assert_eq!(ops[0].outputs, ops[1].inputs);
        assert_eq!(ops[1].outputs, selection.fetches);
        assert_eq!(ops[1].op.outputs_of("Out"), ["w"]);
    }

    #[test]
    fn a_fed_variable_is_never_written() {
        let mut selection = selection(vec![op("scale", "x", "x")], &["x"], &[]);
        separate(&mut selection);
        assert_eq!(selection.ops[0].inputs, selection.feeds);
        assert_ne!(selection.ops[0].outputs, selection.feeds);
    }

    fn declared(names: &[&str], ops: Vec<Op>) -> Program {
        let mut program = Program::new();
        for name in names {
            program.global_mut().add_var(Var::tensor(*name, DType::F32, [4]));
        }
        program.global_mut().ops = ops;
        program
    }

    #[test]
    fn a_second_random_write_draws_other_numbers() {
        let random = || {
            let op = Op::new("uniform_random").output("Out", ["y"]);
            op.attr("shape", vec![4i64]).attr("seed", 7)
        };
        let program =
            declared(&["y", "first"], vec![random(), op("assign", "y", "first"), random()]);
        let mut executor = Executor::new(Place::Cpu).unwrap();
        let drawn = executor.run(&program, &[], &["first", "y"]).unwrap();
        assert_ne!(drawn[0], drawn[1]);
    }

    #[test]
    fn messages_say_the_names_of_the_program() {
        let program = declared(&["x", "h"], vec![op("scale", "x", "h"), op("log", "h", "h")]);
        let mut executor = Executor::new(Place::Cpu).unwrap().check_finite(true);
        let x = Tensor::from_slice([4], &[-1f32; 4]).unwrap();
        match executor.run(&program, &[("x", &x)], &["h"]) {
            Err(Error::NotFinite { op, var, .. }) => assert_eq!((&*op, &*var), ("log", "h")),
            other => panic!("{other:?}"),
        }
    }
}
