//! What is known of the outputs of ops that run blocks: the shape rules of their blocks, applied until they say nothing
//! new. A dimension that changes from run to run is unknown.

use std::collections::HashMap;

use bireme_ir::{EMPTY_VAR, Op, Program, VarKind};

use super::{INNER_INPUTS, INNER_OUTPUTS, Single, Wiring, names, sub_block};
use crate::op::{Flow, Infer, Meta, OpDef, OpView, join};
use crate::{Error, Result};

/// Runs the shape rule of an op that runs a block: outputs in flat order.
///
/// # Errors
/// When inputs do not fit, or a variable changes its type or its number of dimensions from run to run.
pub(crate) fn infer(
    program: &Program,
    op: &Op,
    def: &'static OpDef,
    flow: &Flow,
    inputs: &[Meta],
) -> Result<Vec<Meta>> {
    let view = OpView::of(op, def);
    let reads = &inputs[view.input_positions(flow.reads)];
    match flow.gradient {
        Some(_) => forward(program, &view, flow, reads),
        None => backward(program, op, flow, reads),
    }
}

fn forward(program: &Program, view: &OpView<'_>, flow: &Flow, reads: &[Meta]) -> Result<Vec<Meta>> {
    let (inner_in, inner_out) = (names(view.op, INNER_INPUTS), names(view.op, INNER_OUTPUTS));
    let enters = |name: &str| inner_in.iter().any(|known| known == name);
    let single = super::single_assignment(program, sub_block(program, view.op)?, &enters)?;
    let mut known: HashMap<String, Meta> = inner_in.iter().cloned().zip(reads.to_vec()).collect();
    // Each round makes a dimension unknown, or tells what an array holds; more than these there are not.
    let rounds = if flow.repeats { 2 + inner_in.len() * (crate::tensor::MAX_RANK + 1) } else { 1 };
    let mut left = HashMap::new();
    for _ in 0..rounds {
        left = run(program, &single, known.clone())?;
        let before = known.clone();
        for name in inner_out.iter().filter(|_| flow.repeats) {
            if let Some(meta) = known.get_mut(name) {
                *meta = either(name, meta, &left[single.at_end(name)])?;
            }
        }
        if before == known {
            break;
        }
    }
    let mut outputs = Vec::new();
    for name in &inner_out {
        let after = &left[single.at_end(name)];
        outputs.push(match known.get(name) {
            Some(before) => either(name, before, after)?,
            None => after.clone(),
        });
    }
    let scopes = view.output_positions(flow.saved).len();
    let scope = Meta { kind: VarKind::StepScopes, ..Meta::unwritten_list(bireme_ir::DType::F32) };
    outputs.extend(std::iter::repeat_n(scope, scopes));
    Ok(outputs)
}

fn either(name: &str, before: &Meta, after: &Meta) -> Result<Meta> {
    join(before, after)
        .map_err(|error| Error::kernel(format!("`{name}` changes in its block: {error}")))
}

/// What is known of the variables of a block after a run.
fn run(
    program: &Program,
    single: &Single,
    mut known: HashMap<String, Meta>,
) -> Result<HashMap<String, Meta>> {
    for op in &single.ops {
        let view = OpView::new(op).map_err(|error| error.in_op(op))?;
        let missing = |name: &String| {
            Error::kernel(format!(
                "`{name}` has no value here: nothing writes it before this op, in its block or \
                 around it"
            ))
        };
        let find = |name: &String| known.get(name).cloned().ok_or_else(|| missing(name));
        let inputs = view.flat_inputs().map(find).collect::<Result<Vec<_>>>();
        let outputs = inputs.and_then(|inputs| match view.def.flow {
            Some(flow) => infer(program, op, view.def, flow, &inputs),
            None => Infer::run(&view, &inputs),
        });
        let outputs = outputs.map_err(|error| error.in_op(op))?;
        known.extend(view.flat_outputs().cloned().zip(outputs));
    }
    Ok(known)
}

/// Gradients look like what they are gradients of; which of them are selected rows was found when they were declared.
fn backward(program: &Program, op: &Op, flow: &Flow, reads: &[Meta]) -> Result<Vec<Meta>> {
    let wiring = Wiring::of(op, flow)?;
    let block = &program.blocks[sub_block(program, op)?];
    let grads = op.outputs_of(&format!("{}@GRAD", flow.reads)).iter();
    let like = grads.zip(reads).zip(&wiring.results).map(|((grad, read), result)| {
        let rows = block.var(result).is_some_and(|var| var.kind == VarKind::SelectedRows);
        match rows && grad != EMPTY_VAR {
            true => Meta { kind: VarKind::SelectedRows, ..read.clone() },
            false => read.clone(),
        }
    });
    Ok(like.collect())
}
