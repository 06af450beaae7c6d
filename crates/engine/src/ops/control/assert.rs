//! `assert`: ends the step when a condition is false, and shows tensors that explain it.

use std::fmt::Write as _;

use super::print::general;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("assert", kernel)
    .inputs(&[Slot::one("Cond"), Slot::any("Data")])
    .attrs(&[attr::long("summarize", -1)])
    .side_effect();

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (condition, data) = (op.input("Cond")?, op.inputs("Data"));
    let condition_name = op.op.inputs_of("Cond").first().cloned().unwrap_or_default();
    let names = op.op.inputs_of("Data").to_vec();
    let shown = usize::try_from(op.i64("summarize")?).unwrap_or(usize::MAX);
    Ok(Box::new(move |run| {
        let tensor = run.tensor(condition)?;
        if tensor.numel() != 1 {
            let dims = tensor.dims();
            return Err(Error::kernel(format!("`Cond` must hold one truth value, not {dims}")));
        }
        if tensor.as_bytes().iter().any(|byte| *byte != 0) {
            return Ok(());
        }
        let mut text = format!("`{condition_name}` must be true, but is false");
        for (name, input) in names.iter().zip(&data) {
            let tensor = run.tensor(*input)?;
            let (dims, values) = (tensor.dims(), tensor.to_f64_vec());
            let numbers: Vec<String> = values.iter().take(shown).map(|x| general(*x)).collect();
            let rest = if values.len() > shown { " ..." } else { "" };
            // Writing to a string cannot fail.
            let _ = write!(text, "; `{name}` of shape {dims}: {}{rest}", numbers.join(" "));
        }
        Err(Error::kernel(text))
    }))
}

#[cfg(test)]
mod tests {
    use bireme_ir::{DType, Op, Program, Var};

    use crate::tensor::Tensor;
    use crate::{Executor, Place};

    #[test]
    fn a_false_condition_ends_the_step_and_shows_data() {
        let mut program = Program::new();
        let block = program.global_mut();
        for name in ["x", "y"] {
            block.add_var(Var::tensor(name, DType::F32, [-1, 3]));
        }
        for (name, dtype) in [("limit", DType::F32), ("sum", DType::F32), ("small", DType::Bool)] {
            block.add_var(Var::tensor(name, dtype, [1]));
        }
        let limit = Op::new("fill_constant").output("Out", ["limit"]).attr("shape", vec![1i64]);
        let sum = Op::new("reduce_sum").input("X", ["x"]).output("Out", ["sum"]);
        let less = Op::new("less_than").input("X", ["sum"]).input("Y", ["limit"]);
        block.ops.extend([
            limit.attr("value", 10.0f32).attr("dtype", DType::F32.code()),
            sum.attr("reduce_all", true).attr("keep_dim", false).attr("dim", vec![0]),
            less.output("Out", ["small"]),
            Op::new("assert").input("Cond", ["small"]).input("Data", ["x", "sum"]),
            Op::new("relu").input("X", ["x"]).output("Out", ["y"]),
        ]);
        block.ops[3].attrs.insert("summarize".to_owned(), bireme_ir::Attr::Long(2));
        for threads in [1, 2] {
            let mut executor = Executor::new(Place::Cpu).unwrap().threads(threads);
            let mut run = |value: f32| {
                let x = Tensor::from_slice([2, 3], &[value; 6]).unwrap();
                executor.run(&program, &[("x", &x)], &["y"])
            };
            run(1.0).unwrap();
            let error = run(2.5).unwrap_err().to_string();
            let expected = "`small` must be true, but is false; `x` of shape [2, 3]: 2.5 2.5 ...; \
                            `sum` of shape []: 15";
            assert!(error.ends_with(expected), "{error}");
            run(1.0).unwrap();
        }
    }
}
