//! Lets all-reduces run beside the ops that follow them.
//!
//! In a program of Paddle's an all-reduce runs on a stream of its own until `c_sync_comm_stream`
//! waits for that stream, whatever variable it names. Here each becomes a start and a wait: the wait
//! stands at that place, or before the first op that touches the variable, or at the end. Who
//! depends on whom is then in the variables, for everything that plans by them: memory, stages,
//! selection.

use bireme_ir::{Attr, Op, Program, VarKind};

use crate::plan::inline::guard;

/// A reduction that was started.
struct Pending {
    ring: i64,
    var: String,
    wait: Op,
}

/// The ops with all-reduces started and waited for, and without the ops that order streams.
pub(super) fn start_and_wait(ops: Vec<Op>, program: &Program) -> Vec<Op> {
    if !ops.iter().any(|op| op.kind.starts_with("c_")) {
        return ops;
    }
    let mut pending: Vec<Pending> = Vec::new();
    let mut all = Vec::with_capacity(ops.len());
    let mut tickets = 0;
    for op in ops {
        if op.kind == "c_sync_comm_stream" {
            let ring = ring(&op);
            release(&mut pending, &mut all, |waiting| waiting.ring == ring);
        }
        let touched =
            |waiting: &Pending| op.input_vars().chain(op.output_vars()).any(|v| *v == waiting.var);
        if is_stream_order(&op) && op.inputs_of("X") == op.outputs_of("Out") {
            continue;
        }
        release(&mut pending, &mut all, touched);
        let Some((var, how)) = starts(&op, program) else {
            all.push(op);
            continue;
        };
        tickets += 1;
        let ticket = format!("{var}@TICKET@{tickets}");
        let like = |kind: &str| {
            let made = Op::new(kind).input("X", [var.as_str()]).attr("reduce", how);
            let mut made = made.attr("ring_id", ring(&op) as i32).role(op.op_role());
            made.site.clone_from(&op.site);
            made
        };
        let wait = like("c_bucket_wait").input("Ticket", [ticket.as_str()]);
        let wait = wait.output("Out", [var.as_str()]);
        all.push(like("c_bucket_start").output("Ticket", [ticket]));
        pending.push(Pending { ring: ring(&op), var, wait });
    }
    release(&mut pending, &mut all, |_| true);
    all
}

/// Waits for those that `which` accepts, in the order in which they were started.
fn release(pending: &mut Vec<Pending>, ops: &mut Vec<Op>, which: impl Fn(&Pending) -> bool) {
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
fn starts(op: &Op, program: &Program) -> Option<(String, &'static str)> {
    let how = match op.kind.as_str() {
        "c_allreduce_sum" => "sum",
        "c_allreduce_prod" => "prod",
        "c_allreduce_min" => "min",
        "c_allreduce_max" => "max",
        _ => return None,
    };
    let at_once = matches!(op.attrs.get("use_calc_stream"), Some(Attr::Bool(true)));
    let ([x], [out]) = (op.inputs_of("X"), op.outputs_of("Out")) else { return None };
    let var = program.global().var(x)?;
    // Persistable variables are seen from outside; selected rows are gathered, not reduced.
    let plain = var.kind == VarKind::LodTensor && !var.persistable;
    (x == out && plain && !at_once && guard(op).is_none()).then(|| (x.clone(), how))
}

#[cfg(test)]
mod tests {
    use bireme_ir::{DType, Var};

    use super::*;

    fn kinds(ops: &[Op]) -> Vec<String> {
        let name = |op: &Op| format!("{} {}", op.kind, op.output_vars().next().map_or("", |v| v));
        start_and_wait(ops.to_vec(), &program()).iter().map(name).collect()
    }

    fn program() -> Program {
        let mut program = Program::new();
        for name in ["a", "b"] {
            program.global_mut().add_var(Var::tensor(name, DType::F32, [2]));
        }
        program
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
                "c_bucket_start a@TICKET@1",
                "c_bucket_start b@TICKET@2",
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
        assert_eq!(
            kinds(&ops),
            ["c_bucket_start a@TICKET@1", "relu b", "c_bucket_wait a", "relu a"]
        );
        let at_once = op("c_allreduce_sum", "a", 0).attr("use_calc_stream", true);
        assert_eq!(kinds(&[at_once]), ["c_allreduce_sum a"]);
        assert_eq!(
            kinds(&[op("c_allreduce_sum", "a", 0)]),
            ["c_bucket_start a@TICKET@1", "c_bucket_wait a"]
        );
    }
}
