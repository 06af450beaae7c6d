//! Lets all-reduces run beside the ops that follow them.
//!
//! In a program of Paddle's an all-reduce runs on a stream of its own until `c_sync_comm_stream`
//! waits for that stream, whatever variable it names. Here each becomes a start and a wait: the wait
//! stands at that place, or before the first op that touches the variable, or at the end. Who
//! depends on whom is then in the variables, for everything that plans by them: memory, stages,
//! selection.

use bireme_ir::{Attr, Op, VarKind};

use crate::plan::select::{SelectedOp, Selection, VarId};

/// A reduction that was started.
struct Pending {
    ring: i64,
    var: VarId,
    wait: SelectedOp,
}

/// Starts all-reduces and waits for them, and drops the ops that order streams.
pub(super) fn start_and_wait(selection: &mut Selection) {
    if !selection.ops.iter().any(|op| op.op.kind.starts_with("c_")) {
        return;
    }
    let mut pending: Vec<Pending> = Vec::new();
    for op in std::mem::take(&mut selection.ops) {
        if op.op.kind == "c_sync_comm_stream" {
            let ring = ring(&op.op);
            release(&mut pending, &mut selection.ops, |waiting| waiting.ring == ring);
        }
        if is_stream_order(&op.op) && op.inputs_of("X") == op.outputs_of("Out") {
            continue;
        }
        release(&mut pending, &mut selection.ops, |waiting| {
            op.inputs.contains(&waiting.var) || op.outputs.contains(&waiting.var)
        });
        let Some((var, how)) = starts(&op, selection) else {
            selection.ops.push(op);
            continue;
        };
        let ticket = selection.another(var);
        let (ring, x, made) = (ring(&op.op), ("X", &[var][..]), ("Ticket", &[ticket][..]));
        let like = |kind: &str| {
            let made = Op::new(kind).attr("reduce", how);
            made.attr("ring_id", ring as i32).role(op.op.op_role())
        };
        let start = selection.op(like("c_bucket_start"), &op, &[x], &[made]);
        let wait = selection.op(like("c_bucket_wait"), &op, &[x, made], &[("Out", &[var])]);
        selection.ops.push(start);
        pending.push(Pending { ring, var, wait });
    }
    release(&mut pending, &mut selection.ops, |_| true);
}

/// Waits for those that `which` accepts, in the order in which they were started.
fn release(
    pending: &mut Vec<Pending>,
    ops: &mut Vec<SelectedOp>,
    which: impl Fn(&Pending) -> bool,
) {
    let (released, kept) = std::mem::take(pending).into_iter().partition(which);
    *pending = kept;
    ops.extend(Vec::into_iter(released).map(|waiting: Pending| waiting.wait));
}

fn is_stream_order(op: &Op) -> bool {
    matches!(
        op.kind.as_str(),
        "c_sync_calc_stream" | "c_sync_comm_stream" | "c_wait_comm" | "c_wait_compute"
    )
}

fn ring(op: &Op) -> i64 {
    match op.attrs.get("ring_id") {
        Some(Attr::Int(ring)) => i64::from(*ring),
        Some(Attr::Long(ring)) => *ring,
        _ => 0,
    }
}

/// The variable and the reduction of an op that may run beside others.
fn starts(op: &SelectedOp, selection: &Selection) -> Option<(VarId, &'static str)> {
    let how = match op.op.kind.as_str() {
        "c_allreduce_sum" => "sum",
        "c_allreduce_prod" => "prod",
        "c_allreduce_min" => "min",
        "c_allreduce_max" => "max",
        _ => return None,
    };
    let at_once = matches!(op.op.attrs.get("use_calc_stream"), Some(Attr::Bool(true)));
    let (x, out) = (op.input("X")?, op.output("Out")?);
    let var = selection.vars[x].declared.as_ref()?;
    // Persistable variables are seen from outside; selected rows are gathered, not reduced.
    let plain = var.kind == VarKind::LodTensor && !var.persistable;
    (x == out && plain && !at_once && !op.guarded).then_some((x, how))
}

#[cfg(test)]
mod tests {
    use bireme_ir::{DType, Program, Var};

    use super::*;

    fn kinds(ops: &[Op]) -> Vec<String> {
        let mut program = Program::new();
        for name in ["a", "b"] {
            program.global_mut().add_var(Var::tensor(name, DType::F32, [2]));
        }
        program.global_mut().ops = ops.to_vec();
        let mut selection = Selection::new(&program, &[], &[]).unwrap();
        start_and_wait(&mut selection);
        // Each wait is for the ticket of the start of its variable.
        for wait in selection.ops.iter().filter(|op| op.op.kind == "c_bucket_wait") {
            let is_start = |op: &&SelectedOp| op.output("Ticket") == wait.input("Ticket");
            let start =
                selection.ops.iter().find(|op| op.op.kind == "c_bucket_start" && is_start(op));
            assert_eq!(start.unwrap().input("X"), wait.output("Out"));
            assert_ne!(wait.input("Ticket"), wait.input("X"));
        }
        let name =
            |op: &SelectedOp| format!("{} {}", op.op.kind, selection.vars[op.outputs[0]].name);
        selection.ops.iter().map(name).collect()
    }

    fn op(kind: &str, var: &str, ring: i32) -> Op {
        Op::new(kind).input("X", [var]).output("Out", [var]).attr("ring_id", ring)
    }

    #[test]
    fn a_ring_is_waited_for_where_it_is_synced() {
        let ops = [
            op("c_sync_calc_stream", "a", 0),
            op("c_allreduce_sum", "a", 0),
            op("c_allreduce_sum", "b", 1),
            op("c_sync_comm_stream", "b", 0),
            op("relu", "a", 0),
            op("c_sync_comm_stream", "b", 1),
            op("relu", "b", 0),
        ];
        assert_eq!(
            kinds(&ops),
            [
                "c_bucket_start a",
                "c_bucket_start b",
                "c_bucket_wait a",
                "relu a",
                "c_bucket_wait b",
                "relu b"
            ]
        );
    }

    #[test]
    fn who_touches_the_variable_waits_for_it() {
        let ops = [op("c_allreduce_max", "a", 0), op("relu", "b", 0), op("relu", "a", 0)];
        assert_eq!(kinds(&ops), ["c_bucket_start a", "relu b", "c_bucket_wait a", "relu a"]);
        let at_once = op("c_allreduce_sum", "a", 0).attr("use_calc_stream", true);
        assert_eq!(kinds(&[at_once]), ["c_allreduce_sum a"]);
        assert_eq!(
            kinds(&[op("c_allreduce_sum", "a", 0)]),
            ["c_bucket_start a", "c_bucket_wait a"]
        );
    }
}
