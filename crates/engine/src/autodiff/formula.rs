//! The gradient of an op that is given by a formula: the formula's ops, differentiated.

use std::collections::HashMap;

use bireme_ir::{Block, Op, Program, Var, grad_name};

use crate::graph::infer_into;
use crate::op::{Formula, OpView};
use crate::{Error, Result};

/// The gradient ops of the op of `view`, whose variables `block` declares. They are named like those
/// of any other rule, and values on the way after the op's first output.
///
/// # Errors
/// When the formula refuses the op, or one of its ops has no gradient.
pub(super) fn gradient_ops(
    block: &Block,
    view: &OpView<'_>,
    formula: fn(&mut Formula<'_>) -> Result<()>,
) -> Result<Vec<Op>> {
    let mut names = Names::default();
    let mut program = Program::default();
    // Under names of its own: a gradient op writes what its own gradient is called, too.
    let mut op = view.op.clone();
    for vars in op.inputs.values_mut() {
        for var in vars {
            let declared = block.var(var).ok_or_else(|| undeclared(var))?;
            let name = names.input(var);
            if program.global().var(&name).is_none() {
                program.global_mut().add_var(plain(name.clone(), declared));
            }
            *var = name;
        }
    }
    for vars in op.outputs.values_mut() {
        vars.iter_mut().for_each(|var| *var = names.output(var));
    }
    let inner = OpView::of(&op, view.def);
    let declared = program.global().clone();
    let mut written = Formula::new(&inner, &declared);
    formula(&mut written)?;
    let (ops, constants) = written.finish();
    let global = program.global_mut();
    for op in ops {
        infer_into(global, &op)?;
        global.ops.push(op);
    }
    for name in constants {
        if let Some(var) = program.global_mut().vars.get_mut(&name) {
            var.stop_gradient = true;
        }
    }
    differentiate(&mut program, &mut names)?;
    Ok(names.give_back(program, view))
}

/// Appends the gradients of the outputs by all inputs that can have one.
fn differentiate(program: &mut Program, names: &mut Names) -> Result<()> {
    let block = program.global_mut();
    let mut targets = Vec::new();
    for (real, name) in &names.outputs {
        let Some(var) = block.var(name).cloned() else { continue };
        let weight = format!("weight_of_{name}");
        block.add_var(plain(weight.clone(), &var));
        names.real.insert(weight.clone(), grad_name(real));
        targets.push((name.clone(), weight));
    }
    let is_float = |name: &String| block.var(name).is_some_and(|var| var.dtype.is_float());
    let inputs: Vec<(String, String)> =
        names.inputs.iter().filter(|(_, name)| is_float(name)).cloned().collect();
    let asked: Vec<&str> = inputs.iter().map(|(_, name)| name.as_str()).collect();
    let outputs: Vec<&str> = targets.iter().map(|(name, _)| name.as_str()).collect();
    let weights: Vec<Option<&str>> = targets.iter().map(|(_, w)| Some(w.as_str())).collect();
    let found = super::gradients_in(program, &outputs, &asked, Some(&weights), &[])?;
    for ((real, _), found) in inputs.iter().zip(found) {
        if let Some(found) = found {
            names.real.insert(found, grad_name(real));
        }
    }
    Ok(())
}

/// What the variables of the op are called in the program of its formula.
#[derive(Default)]
struct Names {
    inputs: Vec<(String, String)>,
    outputs: Vec<(String, String)>,
    /// From names in that program to those outside.
    real: HashMap<String, String>,
}

impl Names {
    fn input(&mut self, real: &str) -> String {
        if let Some((_, name)) = self.inputs.iter().find(|(known, _)| known == real) {
            return name.clone();
        }
        let name = format!("in{}", self.inputs.len());
        self.inputs.push((real.to_owned(), name.clone()));
        self.real.insert(name.clone(), real.to_owned());
        name
    }

    fn output(&mut self, real: &str) -> String {
        let name = format!("out{}", self.outputs.len());
        self.outputs.push((real.to_owned(), name.clone()));
        name
    }

    /// The ops of the program under names from outside.
    fn give_back(self, mut program: Program, view: &OpView<'_>) -> Vec<Op> {
        let first = view.op.output_vars().next().cloned().unwrap_or_default();
        let mut ops = std::mem::take(&mut program.global_mut().ops);
        for op in &mut ops {
            for var in op.inputs.values_mut().chain(op.outputs.values_mut()).flatten() {
                *var = match self.real.get(var) {
                    Some(real) => real.clone(),
                    None => format!("{first}@FORMULA@{var}"),
                };
            }
        }
        ops
    }
}

fn plain(name: String, like: &Var) -> Var {
    let mut var = Var::tensor(name, like.dtype, like.shape.clone());
    (var.kind, var.lod_level) = (like.kind, like.lod_level);
    var
}

fn undeclared(name: &str) -> Error {
    Error::kernel(format!("the program has no variable `{name}`"))
}
