//! A server's program: one `listen_and_serv`, and a block for each thing that it updates.

use std::collections::HashMap;

use bireme_ir::{Attr, Block, Op, OpRole, Program, Var};

use crate::plan::{Piece, Placed, Plan};
use crate::{Result, lr, names, table};

/// Writes the program of the server at place `server` among the endpoints.
///
/// # Errors
/// When its learning rates cannot be computed there, or a table's update has no rule.
pub(crate) fn build(plan: &Plan, server: usize) -> Result<Program> {
    let mut build = Build {
        plan,
        // Rows of tables are drawn as the startup program would draw them.
        program: plan.empty_program(&plan.startup),
        received: Vec::new(),
        blocks: Vec::new(),
        grads: Vec::new(),
        sparse: Vec::new(),
        pieces: Vec::new(),
    };
    let geo = plan.mode.sends_deltas();
    let mut lr_block = None;
    if !geo {
        build.declare_rates();
        lr_block = lr::append_block(plan, &mut build.program)?;
    }
    for placed in &plan.placed {
        for piece in placed.pieces.iter().filter(|piece| piece.server == server) {
            build.pieces.extend(place_in_whole(placed, piece));
            if geo { build.add_difference(placed, piece) } else { build.add_update(placed, piece) }
        }
    }
    let mut tables = Vec::new();
    for (keyed, update) in plan.keyed() {
        let block = table::append_block(plan, &mut build.program, keyed, update)?;
        tables.push(format!("{}:{block}", keyed.name));
    }
    if build.blocks.is_empty() {
        // As Paddle has it: a server with nothing to do still has a block to run.
        let empty = build.program.append_block(0).idx;
        build.blocks.push(empty as i32);
    }
    let op = build.listen(server, lr_block).attr("sparse_tables", tables);
    build.program.global_mut().ops.push(op);
    Ok(build.program)
}

struct Build<'a> {
    plan: &'a Plan,
    program: Program,
    received: Vec<String>,
    blocks: Vec<i32>,
    grads: Vec<String>,
    sparse: Vec<String>,
    /// Where slices lie in their parameters, for checkpoints.
    pieces: Vec<String>,
}

impl Build<'_> {
    /// Learning rates that no op of a server computes.
    fn declare_rates(&mut self) {
        let global = self.plan.program.global();
        let rates = self.plan.analysis.rates.iter().chain(&self.plan.analysis.computed_rates);
        for var in rates.filter_map(|name| global.var(name)) {
            let mut var = var.clone();
            var.persistable = true;
            self.program.global_mut().add_var(var);
        }
    }

    /// The block that updates one piece of a parameter.
    fn add_update(&mut self, placed: &Placed, piece: &Piece) {
        let update = &placed.update;
        let global = self.program.global_mut();
        let mut param = update.param.clone();
        (param.name, param.shape) = (piece.name.clone(), piece.shape.clone());
        global.add_var(param);
        for state in &update.states {
            global.add_var(piece.var(state, &update.param));
        }
        let mut grad = piece.var(&update.grad, &update.param);
        grad.name.clone_from(&piece.grad);
        let index = self.program.append_block(0).idx;
        let mut ops = Vec::new();
        if self.plan.is_summed(placed) {
            let of_trainer = |trainer| names::of_trainer(&piece.grad, trainer);
            let pushers = self.plan.pushers(placed);
            let factor = 1.0 / pushers.len() as f32;
            let received: Vec<String> = pushers.map(of_trainer).collect();
            for name in &received {
                let mut var = grad.clone();
                var.name.clone_from(name);
                self.receive(var);
            }
            let sum = Op::new("sum").input("X", received).output("Out", [piece.grad.as_str()]);
            let mean = Op::new("scale").input("X", [piece.grad.as_str()]);
            let mean = mean.output("Out", [piece.grad.as_str()]);
            ops.push(sum.role(OpRole::OPTIMIZE));
            ops.push(mean.attr("scale", factor).role(OpRole::OPTIMIZE));
            self.program.global_mut().add_var(grad);
        } else {
            self.receive(grad);
        }
        let names = self.cut_names(placed, piece, index);
        ops.extend(update.ops.iter().map(|op| cut_op(op, &names, placed, piece)));
        self.program.blocks[index].ops = ops;
        self.blocks.push(index as i32);
        self.grads.push(format!("{}:{index}", piece.grad));
        if update.is_sparse() {
            self.sparse.push(format!("{}:{}", piece.grad, piece.name));
        }
    }

    /// The block that adds a geo trainer's difference to one piece.
    fn add_difference(&mut self, placed: &Placed, piece: &Piece) {
        let mut param = placed.update.param.clone();
        (param.name, param.shape) = (piece.name.clone(), piece.shape.clone());
        let mut delta = Var::tensor(names::delta(&piece.name), param.dtype, piece.shape.clone());
        delta.stop_gradient = true;
        if placed.update.is_sparse() {
            delta.kind = placed.update.grad.kind;
            self.sparse.push(format!("{}:{}", delta.name, piece.name));
        }
        let sum = Op::new("sum")
            .input("X", [&piece.name, &delta.name])
            .output("Out", [piece.name.as_str()])
            .role(OpRole::OPTIMIZE);
        self.program.global_mut().add_var(param);
        let block = self.program.append_block(0);
        block.ops.push(sum);
        let index = block.idx;
        self.blocks.push(index as i32);
        self.grads.push(format!("{}:{index}", delta.name));
        self.receive(delta);
    }

    /// Declares a variable that trainers fill, like a feed.
    fn receive(&mut self, mut var: Var) {
        var.stop_gradient = true;
        self.received.push(var.name.clone());
        self.program.global_mut().add_var(var);
    }

    /// New names of everything that belongs to one piece; declares temporaries in its block.
    fn cut_names(&mut self, placed: &Placed, piece: &Piece, block: usize) -> Names {
        let update = &placed.update;
        let mut names = Names::from([
            (update.param.name.clone(), piece.name.clone()),
            (update.grad.name.clone(), piece.grad.clone()),
        ]);
        let own = update.states.iter().map(|state| state.name.clone());
        names.extend(own.map(|name| (name.clone(), format!("{name}{}", piece.suffix))));
        for name in update.ops.iter().flat_map(Op::output_vars) {
            if names.contains_key(name) {
                continue;
            }
            if let Some(var) = self.plan.program.global().var(name) {
                let var = piece.var(var, &update.param);
                names.insert(name.clone(), var.name.clone());
                self.program.blocks[block].add_var(var);
            }
        }
        names
    }

    fn listen(&self, server: usize, lr_block: Option<usize>) -> Op {
        let (plan, config) = (self.plan, &self.plan.config);
        let rates: Vec<String> = match plan.mode.sends_deltas() {
            true => Vec::new(),
            false => plan.sent_rates().into_iter().cloned().collect(),
        };
        let mut op = Op::new("listen_and_serv").input("X", &self.received);
        op.attrs.insert("optimize_blocks".to_owned(), Attr::Blocks(self.blocks.clone()));
        if plan.heter_workers() > 0 {
            op = op.attr("heter_workers", plan.heter_workers() as i32);
        }
        op.attr("endpoint", plan.endpoints[server].clone())
            .attr("endpoints", plan.endpoints.clone())
            .attr("pserver_id", server as i32)
            .attr("Fanin", plan.members() as i32)
            .attr("distributed_mode", plan.mode.code())
            .attr("grad_to_block_id", self.grads.clone())
            .attr("sparse_grad_to_param", self.sparse.clone())
            .attr("lr_decay_block_id", lr_block.map_or(-1, |block| block as i32))
            .attr("lr_counters", lr::sent_counters(plan))
            .attr("assigned_vars", rates)
            .attr("rpc_get_thread_num", config.rpc_get_thread_num)
            .attr("rpc_send_thread_num", config.rpc_send_thread_num)
            .attr("rpc_prefetch_thread_num", config.rpc_prefetch_thread_num)
            .attr("dc_asgd", config.enable_dc_asgd)
            .attr("dc_asgd_lambda", config.dc_asgd_lambda)
            .attr("param_pieces", self.pieces.clone())
            .attr("fingerprint", plan.fingerprint())
            .role(OpRole::RPC)
    }
}

/// `piece:parameter:first element:shape`, for a piece that is not the whole parameter.
fn place_in_whole(placed: &Placed, piece: &Piece) -> Option<String> {
    let param = &placed.update.param;
    let shape: Vec<String> = param.shape.iter().map(i64::to_string).collect();
    let place = format!("{}:{}:{}", param.name, piece.slice.offset, shape.join("x"));
    (piece.name != param.name).then(|| format!("{}:{place}", piece.name))
}

type Names = HashMap<String, String>;

/// `op` as it is for one piece.
fn cut_op(op: &Op, names: &Names, placed: &Placed, piece: &Piece) -> Op {
    let mut op = op.clone();
    let renamed = |name: &mut String| {
        if let Some(new) = names.get(name) {
            name.clone_from(new);
        }
    };
    op.inputs.values_mut().chain(op.outputs.values_mut()).flatten().for_each(renamed);
    if let Some(Attr::Strings(vars)) = op.attrs.get_mut("op_role_var") {
        vars.iter_mut().for_each(renamed);
    }
    cut_shape(&mut op, &placed.update.param.shape, &piece.shape);
    op
}

/// Makes an op that writes a tensor of shape `from` write one of shape `to`.
pub(crate) fn cut_shape(op: &mut Op, from: &[i64], to: &[i64]) {
    match op.attrs.get_mut("shape") {
        Some(Attr::Longs(shape)) if shape == from => to.clone_into(shape),
        Some(Attr::Ints(shape))
            if shape.iter().copied().map(i64::from).eq(from.iter().copied()) =>
        {
            *shape = to.iter().map(|dim| *dim as i32).collect();
        }
        _ => {}
    }
}

/// The variables that a server's program keeps; what its startup program gives values to.
pub(crate) fn kept(block: &Block) -> impl Iterator<Item = &Var> {
    block.vars.values().filter(|var| var.persistable)
}
