//! The trainer's program: the model and its gradients, which go to the servers, and the parameters
//! that come back.

use std::collections::{BTreeSet, HashSet};

use bireme_ir::{Attr, DType, Op, OpRole, Program, Var};

use crate::edit::Edit;
use crate::names::{self, Dummies};
use crate::plan::{Piece, Placed, Plan};
use crate::slice::width;
use crate::sparse::{self, Spread, Table, TableAttrs};
use crate::{Mode, lr};

/// Writes the trainer's program.
pub(crate) fn build(plan: &Plan) -> Program {
    let mut program = plan.program.clone();
    let mut build = Build {
        plan,
        edit: Edit::new(&program.global().ops),
        vars: Vec::new(),
        dummies: Dummies::default(),
        sends: Vec::new(),
        renames: Vec::new(),
    };
    let leaving = plan.leaving();
    leaving.iter().for_each(|index| build.edit.remove(*index));
    for index in &plan.analysis.clip_ops {
        // Clipping is now the last part of the backward pass, as in Paddle.
        let op = build.edit.op_mut(*index);
        op.attrs.insert("op_role".to_owned(), Attr::Int(OpRole::BACKWARD.0));
    }
    for table in &plan.tables {
        let attrs = table_attrs(plan, table);
        let common = |op| plan.remote(op);
        sparse::rewrite(&mut build.edit, &plan.program, table, &attrs, common);
    }
    build.send_rates();
    plan.placed.iter().for_each(|placed| build.send(placed));
    let (mut ops, tail) = build.finish();
    ops.1.extend(tail);
    let (vars, ops, renames) = (ops.0, ops.1, ops.2);
    let global = program.global_mut();
    global.ops = ops;
    for var in vars {
        global.add_var(var);
    }
    for (from, to) in renames {
        rename(&mut program, &from, &to);
    }
    drop_unused(&mut program, plan, &leaving);
    program
}

/// The columns of a table's ops.
pub(crate) fn table_attrs(plan: &Plan, table: &Table) -> TableAttrs {
    let placed = plan.placed.iter().find(|placed| placed.update.param.name == table.name);
    match (table.spread, placed) {
        (Spread::Rows, Some(placed)) => TableAttrs {
            endpoints: placed.pieces.iter().map(|piece| plan.endpoint(piece)).collect(),
            names: placed.pieces.iter().map(|piece| piece.name.clone()).collect(),
            sections: sections(placed),
            shard_num: plan.config.shard_num,
        },
        _ => TableAttrs {
            endpoints: plan.endpoints.clone(),
            names: vec![table.name.clone(); plan.endpoints.len()],
            sections: Vec::new(),
            shard_num: plan.config.shard_num,
        },
    }
}

/// Rows of each piece; elements where the parameter has one dimension.
pub(crate) fn sections(placed: &Placed) -> Vec<i64> {
    let width = width(&placed.update.param.shape);
    placed.pieces.iter().map(|piece| piece.slice.size / width).collect()
}

/// The ops that fetch `placed` whole, and the variables they need: one `recv` after `after`, which
/// is done when `dummy` is, and the op that joins the pieces.
pub(crate) struct Fetch {
    pub(crate) recv: Op,
    pub(crate) join: Option<Op>,
    pub(crate) vars: Vec<Var>,
}

/// Fetches all of a parameter.
pub(crate) fn fetch(plan: &Plan, placed: &Placed, after: &[String], dummy: &str) -> Fetch {
    let param = &placed.update.param;
    let names: Vec<String> = placed.pieces.iter().map(|piece| piece.name.clone()).collect();
    let recv = match after {
        [] => Op::new("recv"),
        after => Op::new("recv").input("X", after),
    };
    let recv = plan
        .remote(recv)
        .output("Out", &names)
        .output("Dummy", [dummy])
        .attr("recv_varnames", names.clone())
        .attr("varnames", vec![param.name.clone()])
        // Nothing else in the program tells how large a piece is.
        .attr("ranks", vec![param.shape.len() as i32; names.len()])
        .attr("shapes", placed.pieces.iter().flat_map(|p| p.shape.clone()).collect::<Vec<_>>())
        .attr("dtype", param.dtype.code())
        .attr("endpoints", plan.endpoints.clone())
        .attr("epmap", endpoints(plan, placed));
    let mut vars = vec![control(dummy)];
    let mut join = None;
    if let [_, _, ..] = placed.pieces.as_slice() {
        for piece in &placed.pieces {
            let mut var = Var::tensor(piece.name.as_str(), param.dtype, piece.shape.clone());
            var.stop_gradient = true;
            vars.push(var);
        }
        let op = Op::new("concat").input("X", &names).output("Out", [param.name.as_str()]);
        join = Some(op.attr("axis", 0).role(OpRole::DIST));
    }
    Fetch { recv, join, vars }
}

/// Ops that wait until this trainer has all it asked for.
pub(crate) fn fetch_barrier(plan: &Plan, after: &[String], dummy: &str) -> Op {
    plan.remote(Op::new("fetch_barrier"))
        .input("X", after)
        .output("Out", [dummy])
        .attr("endpoints", plan.endpoints.clone())
}

/// A variable without a value.
pub(crate) fn control(name: &str) -> Var {
    let mut var = Var::tensor(name, DType::F32, [0]);
    var.stop_gradient = true;
    var
}

fn endpoints(plan: &Plan, placed: &Placed) -> Vec<String> {
    placed.pieces.iter().map(|piece| plan.endpoint(piece)).collect()
}

type Finished = ((Vec<Var>, Vec<Op>, Vec<(String, String)>), Vec<Op>);

struct Build<'a> {
    plan: &'a Plan,
    edit: Edit,
    vars: Vec<Var>,
    dummies: Dummies,
    /// What each parameter's send is followed by.
    sends: Vec<String>,
    renames: Vec<(String, String)>,
}

impl Build<'_> {
    fn dummy(&mut self) -> String {
        let name = self.dummies.next();
        self.vars.push(control(&name));
        name
    }

    /// Sends the gradient of `placed` as soon as it is there.
    fn send(&mut self, placed: &Placed) {
        let plan = self.plan;
        let update = &placed.update;
        let ops = &plan.program.global().ops;
        let leaving = |index: &usize| plan.analysis.on_server.contains(index);
        let writer = (0..ops.len()).rev().find(|index| {
            !leaving(index) && ops[*index].output_vars().any(|var| *var == update.grad.name)
        });
        let at = writer.unwrap_or(ops.len().saturating_sub(1));
        let sent = |piece: &Piece| match plan.is_summed(placed) {
            true => names::of_trainer(&piece.grad, plan.trainer_id),
            false => piece.grad.clone(),
        };
        let names: Vec<String> = placed.pieces.iter().map(sent).collect();
        if placed.pieces.len() > 1 {
            self.edit.after(at, split(placed, &names));
            for (piece, name) in placed.pieces.iter().zip(&names) {
                let mut var = piece.var(&update.grad, &update.param);
                var.name.clone_from(name);
                self.vars.push(var);
            }
        } else if names[0] != update.grad.name {
            self.renames.push((update.grad.name.clone(), names[0].clone()));
        }
        let dummy = self.dummy();
        let pair = vec![update.param.name.clone(), update.grad.name.clone()];
        let op = plan
            .remote(Op::new("send"))
            // Renamed with all its readers at the end.
            .input("X", if placed.pieces.len() > 1 { names.clone() } else { vec![pair[1].clone()] })
            .output("Out", [dummy.as_str()])
            .attr("send_varnames", names)
            .attr("epmap", endpoints(plan, placed))
            .attr("merge_add", false)
            .attr("use_send_handler", true)
            .attr("op_role_var", pair);
        self.edit.after(at, op);
        self.sends.push(dummy);
    }

    /// Sends step counters and learning rates to all servers, before any gradient.
    fn send_rates(&mut self) {
        let plan = self.plan;
        let ops = &plan.program.global().ops;
        let mut sent: Vec<(String, String, bool)> = Vec::new();
        if plan.counts_steps() {
            for counter in lr::counters(plan) {
                let var = lr::steps_var(plan, &counter);
                sent.push((var.name.clone(), var.name.clone(), true));
                self.vars.push(var);
            }
        }
        // Trainers are given the same rates; the first speaks for all.
        if plan.trainer_id == 0 {
            sent.extend(plan.sent_rates().into_iter().map(|r| (r.clone(), r.clone(), false)));
        }
        let is_backward = |op: &Op| op.op_role().base() == OpRole::BACKWARD;
        for (var, name, merge_add) in sent {
            let computed = ops.iter().rposition(|op| {
                op.output_vars().any(|out| *out == var) && !crate::analysis::is_lr(op)
            });
            let backward = ops.iter().position(is_backward).unwrap_or(ops.len());
            let at = backward.max(computed.map_or(0, |writer| writer + 1));
            let dummy = self.dummy();
            let servers = plan.endpoints.len();
            let op = plan
                .remote(Op::new("send"))
                .input("X", vec![var.clone(); servers])
                .output("Out", [dummy.as_str()])
                .attr("send_varnames", vec![name; servers])
                .attr("epmap", plan.endpoints.clone())
                .attr("merge_add", merge_add)
                .attr("use_send_handler", false)
                .attr("op_role_var", vec![var.clone(), var]);
            self.edit.before(at, op);
        }
    }

    /// Appends barriers and the fetch of all parameters.
    fn finish(mut self) -> Finished {
        let plan = self.plan;
        let mut tail = Vec::new();
        let half_async = plan.mode == Mode::HalfAsync;
        let mut barrier = None;
        if plan.has_barriers() || half_async {
            let dummy = self.dummy();
            let op = plan
                .remote(Op::new("send_barrier"))
                .input("X", &self.sends)
                .output("Out", [dummy.as_str()])
                .attr("endpoints", plan.endpoints.clone())
                .attr("half_async", half_async);
            let hybrid = plan.mode == Mode::Hybrid;
            tail.push(if hybrid { op.attr("staleness", plan.config.staleness) } else { op });
            barrier = Some(dummy);
        }
        let (mut received, mut joins) = (Vec::new(), Vec::new());
        for (placed, sent) in plan.placed.iter().zip(self.sends.clone()) {
            if placed.is_table {
                continue;
            }
            let dummy = self.dummies.next();
            let after = [barrier.clone().unwrap_or(sent)];
            let fetch = fetch(plan, placed, &after, &dummy);
            tail.push(fetch.recv);
            joins.extend(fetch.join);
            self.vars.extend(fetch.vars);
            received.push(dummy);
        }
        if plan.has_barriers() {
            let after = if received.is_empty() { Vec::from_iter(barrier) } else { received };
            let dummy = self.dummy();
            tail.push(fetch_barrier(plan, &after, &dummy));
        }
        tail.extend(joins);
        ((self.vars, self.edit.finish(), self.renames), tail)
    }
}

fn split(placed: &Placed, names: &[String]) -> Op {
    let (kind, attr) = match placed.update.is_sparse() {
        true => ("split_selected_rows", "height_sections"),
        false => ("split_byref", "sections"),
    };
    Op::new(kind)
        .input("X", [placed.update.grad.name.as_str()])
        .output("Out", names)
        .attr(attr, sections(placed))
        .role(OpRole::DIST)
}

fn rename(program: &mut Program, from: &str, to: &str) {
    for block in &mut program.blocks {
        for op in &mut block.ops {
            op.rename_input(from, to);
            op.rename_output(from, to);
        }
        if let Some((index, _, mut var)) = block.vars.shift_remove_full(from) {
            to.clone_into(&mut var.name);
            block.vars.shift_insert(index, to.to_owned(), var);
        }
    }
}

/// Drops declarations that only ops which left needed, and empties blocks that only they ran.
fn drop_unused(program: &mut Program, plan: &Plan, leaving: &BTreeSet<usize>) {
    let old = &plan.program.global().ops;
    let sub_blocks = |op: &Op| lr::sub_blocks(op).collect::<Vec<_>>();
    let kept: HashSet<usize> = program.global().ops.iter().flat_map(sub_blocks).collect();
    for block in leaving.iter().flat_map(|index| sub_blocks(&old[*index])) {
        if !kept.contains(&block) && block < program.blocks.len() {
            program.blocks[block].ops.clear();
            program.blocks[block].vars.clear();
        }
    }
    let used: HashSet<String> = program
        .blocks
        .iter()
        .flat_map(|block| &block.ops)
        .flat_map(|op| op.input_vars().chain(op.output_vars()))
        .cloned()
        .collect();
    let gone = old.iter().flat_map(|op| op.input_vars().chain(op.output_vars()));
    let gone: HashSet<&String> = gone.filter(|var| !used.contains(*var)).collect();
    program
        .global_mut()
        .vars
        .retain(|name, var| !gone.contains(name) || var.need_check_feed || var.is_parameter());
}
