//! Conditions that hand nothing on: the ops of the `conditional_block` stand where it stands, each with the condition as its
//! *guard*. A guarded op runs in the steps in which its guard is true.

use std::collections::HashMap;

use bireme_ir::{Attr, Block, DType, Op, Program};

use crate::plan::select::{Selection, VarId};
use crate::{Error, Result};

/// What a `conditional_block` runs, and under which condition.
pub(super) struct Condition<'a> {
    pub(super) guard: &'a str,
    pub(super) block: &'a Block,
}

/// The condition that `op` stands for.
///
/// # Errors
/// When it holds what cannot run inside one.
pub(super) fn condition<'a>(program: &'a Program, op: &'a Op) -> Result<Condition<'a>> {
    let [guard] = op.inputs_of("Cond") else {
        return Err(Error::kernel("takes one condition"));
    };
    let block = match op.attrs.get("sub_block") {
        Some(Attr::Block(block)) => usize::try_from(*block).ok(),
        _ => None,
    };
    let block = block.and_then(|block| program.blocks.get(block));
    let block = block.ok_or_else(|| Error::kernel("has no block"))?;
    check_condition(program, guard)?;
    Ok(Condition { guard, block })
}

/// A condition is one truth value.
fn check_condition(program: &Program, condition: &str) -> Result<()> {
    match program.global().var(condition) {
        Some(var) if var.dtype != DType::Bool => Err(Error::kernel(format!(
            "condition `{condition}` must be bool, not {}: compare it with something first",
            var.dtype
        ))),
        _ => Ok(()),
    }
}

/// Refuses a temporary variable that is read, or fetched, where the condition under which it is
/// written need not hold: it would have no value, or one of something else.
///
/// # Errors
/// When there is one.
pub(super) fn check_reads(selection: &Selection) -> Result<()> {
    let refuse = |var: VarId, condition: VarId, reader: &str| {
        let (var, condition) = (&selection.vars[var].name, &selection.vars[condition].name);
        Error::kernel(format!(
            "`{var}` is {reader} outside the block that writes it, and would have no value when \
             condition `{condition}` is false: only persistable variables can be used so"
        ))
    };
    // The condition under which each temporary was last written.
    let mut written: HashMap<VarId, Option<VarId>> = HashMap::new();
    for op in &selection.ops {
        let own = op.guard();
        for var in &op.inputs {
            let condition = written.get(var).copied().flatten();
            if let Some(condition) = condition.filter(|condition| Some(*condition) != own) {
                return Err(refuse(*var, condition, "read").in_op(&op.op));
            }
        }
        let temporary = op.outputs.iter().filter(|var| !selection.vars[**var].persists());
        written.extend(temporary.map(|var| (*var, own)));
    }
    for fetch in &selection.fetches {
        if let Some(Some(condition)) = written.get(fetch) {
            return Err(refuse(*fetch, *condition, "fetched"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bireme_ir::Var;

    use super::*;
    use crate::tensor::Tensor;
    use crate::{Executor, Place};

    /// A block under `now` (and, under `later`, another) over `x`, `y` and `z`; `w` persists.
    fn program(dtype: DType, first: Vec<Op>, second: Vec<Op>, global: Vec<Op>) -> Program {
        let mut program = Program::new();
        let block = program.global_mut();
        for (name, dtype) in [("now", dtype), ("later", DType::Bool), ("x", DType::F32)] {
            block.add_var(Var::tensor(name, dtype, [1])).need_check_feed = true;
        }
        for name in ["y", "z", "w"] {
            block.add_var(Var::tensor(name, DType::F32, [1])).persistable = name == "w";
        }
        let condition = |name: &str, block: i32| {
            Op::new("conditional_block").input("Cond", [name]).attr("sub_block", Attr::Block(block))
        };
        block.ops = vec![condition("now", 1), condition("later", 2)];
        block.ops.extend(global);
        program.append_block(0).ops = first;
        program.append_block(0).ops = second;
        program
    }

    fn scale(x: &str, y: &str) -> Op {
        Op::new("scale").input("X", [x]).output("Out", [y]).attr("scale", 2.0f32)
    }

    fn run(program: &Program, now: &Tensor, fetches: &[&str]) -> Result<Vec<Tensor>> {
        let truth = |value: u8| {
            let mut tensor = Tensor::zeros(DType::Bool, [1]);
            tensor.as_mut_bytes()[0] = value;
            tensor
        };
        let (x, later) = (Tensor::from_slice([1], &[3f32])?, truth(1));
        let mut executor = Executor::new(Place::Cpu)?;
        executor.scope().set("w", &Tensor::from_slice([1], &[0f32])?);
        let now = if now.dtype() == DType::U8 { &truth(now.as_bytes()[0]) } else { now };
        executor.run(program, &[("now", now), ("later", &later), ("x", &x)], fetches)
    }

    fn truth(value: u8) -> Tensor {
        Tensor::from_slice([1], &[value]).unwrap()
    }

    #[test]
    fn a_temporary_is_used_only_where_its_condition_holds() {
        let first = || vec![scale("x", "y"), scale("y", "w")];
        let fine = program(DType::Bool, first(), vec![scale("w", "w")], Vec::new());
        for (now, w) in [(1, 24.0), (0, 0.0)] {
            assert_eq!(run(&fine, &truth(now), &["w"]).unwrap()[0].to_f64_vec(), [w]);
        }
        let error = run(&fine, &truth(0), &["y"]).unwrap_err().to_string();
        assert!(error.contains("`y` is fetched outside the block"), "{error}");
        assert!(error.contains("condition `now` is false"), "{error}");
        let other = program(DType::Bool, first(), vec![scale("y", "w")], Vec::new());
        let error = run(&other, &truth(0), &["w"]).unwrap_err().to_string();
        assert!(error.contains("`y` is read outside the block"), "{error}");
        let global = program(DType::Bool, first(), Vec::new(), vec![scale("y", "z")]);
        let error = run(&global, &truth(0), &["z"]).unwrap_err().to_string();
        assert!(error.contains("`y` is read"), "{error}");
        // A variable that another block writes before it reads it is its own.
        let own = program(DType::Bool, first(), vec![scale("x", "y"), scale("y", "w")], Vec::new());
        assert_eq!(run(&own, &truth(0), &["w"]).unwrap()[0].to_f64_vec(), [12.0]);
    }

    #[test]
    fn a_condition_is_a_bool() {
        let first = vec![scale("x", "w")];
        let float = program(DType::F32, first, Vec::new(), Vec::new());
        let one = Tensor::from_slice([1], &[1f32]).unwrap();
        let error = run(&float, &one, &["w"]).unwrap_err().to_string();
        assert!(error.contains("must be bool, not float32"), "{error}");
    }
}
