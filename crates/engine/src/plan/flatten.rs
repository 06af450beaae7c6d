//! Prepares the reductions of a plan for a card: the tensors of a bucket become one.
//!
//! On the host a bucket's ops copy its tensors to and from the buffer that is reduced. Of a card each tensor would come
//! by a copy of its own; so there the gathering and the spreading are ops that the card runs, and what is between them
//! is about one tensor. Rows that are gathered from one rank alone are what they were.

use std::collections::HashMap;

use bireme_ir::{Attr, Op, VarKind};

use crate::collective::Collective;
use crate::plan::select::{SelectedOp, Selection, VarId};

/// Rewrites the buckets of a plan, and drops what a single rank does for nothing.
pub(super) fn for_card(selection: &mut Selection, collective: Option<&dyn Collective>) {
    if !selection.ops.iter().any(|op| op.op.kind.starts_with("c_")) {
        return;
    }
    // Without a start, a rank on the host reduces large tensors where they lie, one after the other.
    let everywhere = collective.is_none_or(|ranks| ranks.all_on_cards());
    // By the ticket of its start: the tensor that a bucket became.
    let mut started: HashMap<VarId, VarId> = HashMap::new();
    let mut renamed: HashMap<VarId, VarId> = HashMap::new();
    for mut op in std::mem::take(&mut selection.ops) {
        for var in &mut op.inputs {
            *var = renamed.get(var).copied().unwrap_or(*var);
        }
        match op.op.kind.as_str() {
            "c_bucket_start" if is_several(&op) => start(selection, &op, &mut started),
            "c_bucket_wait" if is_several(&op) && (op.input("Ticket").is_some() || everywhere) => {
                wait(selection, &op, &started);
            }
            "c_allreduce_sum" if is_for_nothing(selection, &op, collective) => {
                renamed.insert(op.outputs[0], op.inputs[0]);
            }
            _ => selection.ops.push(op),
        }
    }
    for fetch in &mut selection.fetches {
        *fetch = renamed.get(fetch).copied().unwrap_or(*fetch);
    }
}

/// Whether the reduction is not that of one tensor as it is. One that a condition guards runs on the host.
fn is_several(op: &SelectedOp) -> bool {
    // The start of a bucket does not say whether its end scales; a start of one tensor needs nothing anyway.
    !op.guarded && (op.inputs_of("X").len() > 1 || scale(op) != 1.0)
}

fn scale(op: &SelectedOp) -> f32 {
    match op.op.attrs.get("scale") {
        Some(Attr::Float(scale)) => *scale,
        _ => 1.0,
    }
}

/// The op without slots, of another kind or scale.
fn like(op: &SelectedOp, kind: &str) -> Op {
    let mut made = Op::new(kind).role(op.op.op_role());
    for name in ["ring_id", "reduce"] {
        made.attrs.extend(op.op.attrs.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    made
}

fn gather(selection: &mut Selection, op: &SelectedOp) -> VarId {
    let xs = op.inputs_of("X").to_vec();
    let flat = selection.another(xs[0]);
    let made = Op::new("c_bucket_gather").role(op.op.op_role());
    let made = selection.op(made, op, &[("X", &xs)], &[("Out", &[flat])]);
    selection.ops.push(made);
    flat
}

fn start(selection: &mut Selection, op: &SelectedOp, started: &mut HashMap<VarId, VarId>) {
    let (flat, ticket) = (gather(selection, op), op.outputs_of("Ticket").to_vec());
    let (x, made) = ([("X", &[flat][..])], [("Ticket", &ticket[..])]);
    let made = selection.op(like(op, "c_bucket_start"), op, &x, &made);
    selection.ops.push(made);
    started.insert(ticket[0], flat);
}

fn wait(selection: &mut Selection, op: &SelectedOp, started: &HashMap<VarId, VarId>) {
    let ticket = op.input("Ticket");
    let before = ticket.and_then(|ticket| started.get(&ticket).copied());
    let (flat, tickets) = match (ticket, before) {
        // A start of one tensor, whose end scales it.
        (Some(ticket), None) => (op.inputs_of("X")[0], vec![ticket]),
        (ticket, Some(flat)) => (flat, ticket.into_iter().collect()),
        (None, None) => (gather(selection, op), Vec::new()),
    };
    // It is written where it was read: the tensor is the plan's own, unless it is a start's only one.
    let sum = if before.is_some() || tickets.is_empty() { flat } else { selection.another(flat) };
    let (x, out) = ([("X", &[flat][..]), ("Ticket", &tickets[..])], [("Out", &[sum][..])]);
    let waits = selection.op(like(op, "c_bucket_wait"), op, &x, &out);
    selection.ops.push(waits);
    let (likes, outs) = (op.inputs_of("X").to_vec(), op.outputs_of("Out").to_vec());
    let made = Op::new("c_bucket_spread").attr("scale", scale(op)).role(op.op.op_role());
    let x = [("X", &[sum][..]), ("Like", &likes[..])];
    let spreads = selection.op(made, op, &x, &[("Out", &outs)]);
    selection.ops.push(spreads);
}

/// Whether an op gathers the rows of one rank, which is alone, and nobody looks at the variable from outside.
fn is_for_nothing(
    selection: &Selection,
    op: &SelectedOp,
    collective: Option<&dyn Collective>,
) -> bool {
    let ring = match op.op.attrs.get("ring_id") {
        Some(Attr::Int(ring)) => *ring,
        _ => 0,
    };
    let is_alone = collective.is_some_and(|ranks| ranks.size(ring).is_ok_and(|size| size == 1));
    let (x, out) = (&selection.vars[op.inputs[0]], &selection.vars[op.outputs[0]]);
    let is_rows = [x, out].iter().any(|var| {
        var.declared.as_ref().is_some_and(|declared| declared.kind == VarKind::SelectedRows)
    });
    is_alone && is_rows && !op.guarded && !x.persists() && !out.persists()
}

#[cfg(test)]
mod tests {
    use bireme_ir::{DType, Program, Var};

    use super::*;

    fn kinds(ops: Vec<Op>) -> Vec<String> {
        let mut program = Program::new();
        for name in ["a", "b", "t"] {
            program.global_mut().add_var(Var::tensor(name, DType::F32, [2]));
        }
        program.global_mut().ops = ops;
        let mut selection = Selection::new(&program, &["a", "b"], &["a"]).unwrap();
        crate::plan::versions::separate(&mut selection);
        for_card(&mut selection, None);
        selection.finish().unwrap();
        let show = |op: &SelectedOp| format!("{} {:?}>{:?}", op.op.kind, op.inputs, op.outputs);
        selection.ops.iter().map(show).collect()
    }

    fn start_of(vars: &[&str]) -> Op {
        Op::new("c_bucket_start").input("X", vars.iter().copied()).output("Ticket", ["t"])
    }

    fn wait_of(vars: &[&str]) -> Op {
        let op = Op::new("c_bucket_wait").input("X", vars.iter().copied());
        op.output("Out", vars.iter().copied())
    }

    #[test]
    fn a_bucket_becomes_one_tensor() {
        let wait = wait_of(&["a", "b"]).input("Ticket", ["t"]);
        assert_eq!(
            kinds(vec![start_of(&["a", "b"]), wait]),
            [
                "c_bucket_gather [0, 1]>[2]",
                "c_bucket_start [2]>[3]",
                "c_bucket_wait [2, 3]>[2]",
                "c_bucket_spread [2, 0, 1]>[4, 5]"
            ]
        );
        assert_eq!(
            kinds(vec![wait_of(&["a", "b"]).attr("scale", 0.5f32)]),
            [
                "c_bucket_gather [0, 1]>[2]",
                "c_bucket_wait [2]>[2]",
                "c_bucket_spread [2, 0, 1]>[3, 4]"
            ]
        );
    }

    #[test]
    fn one_tensor_stays_as_it_is_unless_it_is_scaled() {
        let wait = wait_of(&["a"]).input("Ticket", ["t"]);
        assert_eq!(
            kinds(vec![start_of(&["a"]), wait.clone()]),
            ["c_bucket_start [0]>[2]", "c_bucket_wait [0, 2]>[3]"]
        );
        assert_eq!(
            kinds(vec![start_of(&["a"]), wait.attr("scale", 0.5f32)]),
            ["c_bucket_start [0]>[2]", "c_bucket_wait [0, 2]>[3]", "c_bucket_spread [3, 0]>[4]"]
        );
    }
}
