//! Programs of collective trainers: Paddle's `nccl2` mode, and the ops that reduce gradients or, in
//! local SGD, parameters.
//!
//! Here are the programs of `DistributeTranspiler`, op by op as Paddle writes them; those of fleet's
//! strategies, which reduce in buckets, are in `strategy`.

mod buckets;
mod local_sgd;
mod merge;
mod strategy;

pub(crate) use strategy::reduced;
pub use strategy::{CollectiveStrategy, GradientMerge, LocalSgd};

use bireme_ir::{Attr, Op, OpRole, Program, Var, VarKind};

use crate::analysis::{is_optimizer, is_update};
use crate::edit::Edit;
use crate::names::snapshot;
use crate::sparse::is_keyed;
use crate::{CollectiveMode, Config, Distribution, Error, Result, Transpiler};

impl Transpiler {
    /// The program and the startup program of trainer `rank` of those at `endpoints`, which reduce
    /// among themselves; `current_endpoint` is its own.
    ///
    /// # Errors
    /// When the settings ask for servers, or the trainers make no sense.
    pub fn transpile_collective(
        &self,
        rank: usize,
        program: &Program,
        startup: &Program,
        endpoints: &[String],
        current_endpoint: &str,
    ) -> Result<(Program, Program)> {
        let config = self.config();
        let error = |problem: String| Err(Error::Config(problem));
        if rank >= endpoints.len() {
            return error(format!(
                "`trainer_id` is {rank}, but there are {} trainers, numbered from 0",
                endpoints.len()
            ));
        }
        if endpoints[rank] != current_endpoint {
            return error(format!(
                "`current_endpoint` is `{current_endpoint}`, but trainer {rank} is at `{}`",
                endpoints[rank]
            ));
        }
        match config.mode {
            Distribution::Pserver => {
                error("mode `pserver` has servers: use `transpile`".to_owned())
            }
            Distribution::Nccl2 => {
                check_hierarchy(config, endpoints.len())?;
                let startup = nccl2_startup(config, rank, startup, endpoints);
                Ok((program.clone(), startup))
            }
            Distribution::Collective => {
                let job = Job::new(config, rank, endpoints)?;
                Ok((job.main(program), job.startup(startup)))
            }
        }
    }
}

fn check_hierarchy(config: &Config, trainers: usize) -> Result<()> {
    if !config.use_hierarchical_allreduce {
        return Ok(());
    }
    let inter = config.hierarchical_allreduce_inter_nranks;
    let name = "hierarchical_allreduce_inter_nranks";
    let Some(ranks) = usize::try_from(inter).ok().filter(|ranks| *ranks > 1) else {
        return Err(Error::Config(format!(
            "`{name}` is {inter}, but must be the number of devices in a machine, at least 2"
        )));
    };
    if trainers <= ranks {
        return Err(Error::Config(format!("trainers_num:{trainers} < {name}:{inter}")));
    }
    if !trainers.is_multiple_of(ranks) {
        return Err(Error::Config(format!("trainers_num:{trainers} mod {name}:{inter} != 0")));
    }
    Ok(())
}

fn nccl2_startup(config: &Config, rank: usize, startup: &Program, endpoints: &[String]) -> Program {
    let mut startup = startup.clone();
    let global = startup.global_mut();
    global.add_var(raw("NCCLID".to_owned()));
    for number in 1..config.nccl_comm_num {
        global.add_var(raw(format!("NCCLID_{number}")));
    }
    if config.use_hierarchical_allreduce {
        for number in 0..config.nccl_comm_num {
            global.add_var(raw(format!("Hierarchical_inter_NCCLID_{number}")));
            global.add_var(raw(format!("Hierarchical_exter_NCCLID_{number}")));
        }
    }
    let inter = config.hierarchical_allreduce_inter_nranks;
    let op = Op::new("gen_nccl_id")
        .output("NCCLID", ["NCCLID"])
        .attr("trainers", endpoints.to_vec())
        .attr("trainer_id", rank as i32)
        .attr("nccl_comm_num", config.nccl_comm_num)
        .attr("use_hierarchical_allreduce", config.use_hierarchical_allreduce)
        .attr("hierarchical_allreduce_inter_nranks", inter)
        .role(OpRole::FORWARD);
    global.ops.push(op);
    startup
}

/// A variable that only its op understands.
fn raw(name: String) -> Var {
    let mut var = Var::tensor(name, bireme_ir::DType::F32, []);
    (var.kind, var.persistable) = (VarKind::Raw, true);
    var
}

/// One trainer of a collective job.
struct Job<'a> {
    mode: CollectiveMode,
    rings: i32,
    rank: usize,
    endpoints: &'a [String],
}

impl<'a> Job<'a> {
    fn new(config: &Config, rank: usize, endpoints: &'a [String]) -> Result<Job<'a>> {
        let mode = config.collective_mode.unwrap_or(CollectiveMode::GradAllReduce);
        let alone = mode == CollectiveMode::SingleProcessMultiThread;
        if endpoints.len() == 1 && !alone {
            return Err(Error::Config("the number of endpoints must > 1".to_owned()));
        }
        let rings = if alone { 1 } else { config.nrings };
        Ok(Job { mode, rings, rank, endpoints })
    }

    fn startup(&self, startup: &Program) -> Program {
        let mut startup = startup.clone();
        if self.mode == CollectiveMode::SingleProcessMultiThread {
            let op = Op::new("c_comm_init_all").attr("ring_id", 0).role(OpRole::FORWARD);
            startup.global_mut().ops.push(op);
            return startup;
        }
        self.connect(&mut startup);
        let params: Vec<Var> = startup.global().parameters().cloned().collect();
        let mut ring = Ring::new(self.rings);
        let global = startup.global_mut();
        for param in &params {
            let op = in_place("c_broadcast", &param.name).attr("ring_id", ring.next());
            global.ops.push(op.attr("root", 0).role(OpRole::FORWARD));
        }
        if let Some(last) = params.last() {
            global.ops.extend(self.sync(&last.name, OpRole::FORWARD));
        }
        if self.mode == CollectiveMode::LocalSgd {
            for param in &params {
                let var = snapshot_of(param);
                global.ops.push(copy(&param.name, &var.name, OpRole::FORWARD));
                global.add_var(var);
            }
        }
        startup
    }

    /// Connects all trainers, once for each ring.
    fn connect(&self, startup: &mut Program) {
        let endpoint = &self.endpoints[self.rank];
        let others: Vec<String> =
            self.endpoints.iter().filter(|other| *other != endpoint).cloned().collect();
        for ring in 0..self.rings {
            let id = format!("nccl_id_{ring}");
            let generate = Op::new("c_gen_nccl_id")
                .output("Out", [id.as_str()])
                .attr("rank", self.rank as i32)
                .attr("endpoint", endpoint.as_str())
                .attr("other_endpoints", others.clone())
                .role(OpRole::FORWARD);
            let connect = Op::new("c_comm_init")
                .input("X", [id.as_str()])
                .attr("nranks", self.endpoints.len() as i32)
                .attr("rank", self.rank as i32)
                .attr("ring_id", ring)
                .role(OpRole::FORWARD);
            startup.global_mut().add_var(raw(id));
            startup.global_mut().ops.extend([generate, connect]);
        }
    }

    fn main(&self, program: &Program) -> Program {
        match self.mode {
            CollectiveMode::LocalSgd => self.local_sgd(program),
            _ => self.grad_all_reduce(program),
        }
    }

    /// The mean of all trainers' gradients: the loss's gradient is scaled, the others added up.
    fn grad_all_reduce(&self, program: &Program) -> Program {
        let mut program = program.clone();
        let ops = &program.global().ops;
        let mut edit = Edit::new(ops);
        let mut ring = Ring::new(self.rings);
        let mut last = None;
        for (index, op) in ops.iter().enumerate().rev() {
            let role = op.op_role();
            let of_loss = role.0 == OpRole::BACKWARD.0 | OpRole::LOSS.0;
            if let Some(grad) = op.output_vars().next().filter(|_| of_loss) {
                let op = in_place("scale", grad).attr("scale", 1.0 / self.ranks());
                edit.after(index, op.role(OpRole::BACKWARD));
            }
            if role.base() != OpRole::BACKWARD {
                continue;
            }
            let grads = gradients(op).filter(|(param, _)| !is_keyed_table(ops, param));
            for (number, (_, grad)) in grads.enumerate() {
                if number == 0 {
                    edit.after(index, in_place("c_sync_calc_stream", grad).role(OpRole::BACKWARD));
                }
                let op = in_place("c_allreduce_sum", grad).attr("ring_id", ring.next());
                edit.after(index, op.role(OpRole::BACKWARD));
                last = Some(grad.clone());
            }
        }
        let first = ops.iter().position(is_optimizer);
        if let (Some(grad), Some(first)) = (last, first) {
            self.sync(&grad, OpRole::BACKWARD).for_each(|op| edit.before(first, op));
        }
        program.global_mut().ops = edit.finish();
        program
    }

    /// After each update: `param = snapshot - mean(snapshot - param)`, and that is the new snapshot.
    fn local_sgd(&self, program: &Program) -> Program {
        let mut program = program.clone();
        let ops = &program.global().ops;
        let mut edit = Edit::new(ops);
        let mut ring = Ring::new(self.rings);
        let mut params = Vec::new();
        for (index, op) in ops.iter().enumerate().rev().filter(|(_, op)| is_update(op)) {
            let param = program.global().var(&op.inputs_of("Param")[0]);
            let Some(param) = param.filter(|param| !is_keyed_table(ops, &param.name)) else {
                continue;
            };
            edit.after(index, difference(param));
            let sync = in_place("c_sync_calc_stream", &param.name);
            edit.after(index, sync.role(OpRole::OPTIMIZE));
            let sum = in_place("c_allreduce_sum", &param.name).attr("ring_id", ring.next());
            edit.after(index, sum.role(OpRole::OPTIMIZE));
            params.push(param.clone());
        }
        let mut ops = edit.finish();
        if let Some(param) = params.last() {
            ops.extend(self.sync(&param.name, OpRole::OPTIMIZE));
        }
        for param in params.iter().rev() {
            let mean = in_place("scale", &param.name).attr("scale", 1.0 / self.ranks());
            ops.push(mean.role(OpRole::OPTIMIZE));
            ops.push(difference(param));
            ops.push(copy(&param.name, &snapshot(&param.name), OpRole::OPTIMIZE));
            program.global_mut().add_var(snapshot_of(param));
        }
        program.global_mut().ops = ops;
        program
    }

    /// Waits for all rings; `var` is what the ops name.
    fn sync(&self, var: &str, role: OpRole) -> impl Iterator<Item = Op> {
        let op = in_place("c_sync_comm_stream", var);
        (0..self.rings).map(move |ring| op.clone().attr("ring_id", ring).role(role))
    }

    fn ranks(&self) -> f32 {
        self.endpoints.len() as f32
    }
}

/// Rings in turn.
struct Ring {
    rings: i32,
    next: i32,
}

impl Ring {
    fn new(rings: i32) -> Ring {
        Ring { rings, next: 0 }
    }

    fn next(&mut self) -> i32 {
        let ring = self.next;
        self.next = (self.next + 1) % self.rings;
        ring
    }
}

/// Parameters and gradients that `op` says it makes.
fn gradients(op: &Op) -> impl Iterator<Item = (&String, &String)> {
    let pairs = match op.attrs.get("op_role_var") {
        Some(Attr::Strings(pairs)) => pairs.as_slice(),
        _ => &[],
    };
    pairs.chunks_exact(2).map(|pair| (&pair[0], &pair[1]))
}

/// A table of servers is not the trainers' to reduce.
fn is_keyed_table(ops: &[Op], param: &str) -> bool {
    ops.iter().any(|op| is_keyed(op) && op.inputs_of("W").iter().any(|table| table == param))
}

fn in_place(kind: &str, var: &str) -> Op {
    Op::new(kind).input("X", [var]).output("Out", [var])
}

fn copy(from: &str, to: &str, role: OpRole) -> Op {
    Op::new("assign").input("X", [from]).output("Out", [to]).role(role)
}

/// `param = snapshot - param`.
fn difference(param: &Var) -> Op {
    Op::new("elementwise_sub")
        .input("X", [snapshot(&param.name)])
        .input("Y", [param.name.as_str()])
        .output("Out", [param.name.as_str()])
        .attr("axis", -1)
        .role(OpRole::OPTIMIZE)
}

fn snapshot_of(param: &Var) -> Var {
    let mut var = Var::tensor(snapshot(&param.name), param.dtype, param.shape.clone());
    (var.persistable, var.stop_gradient) = (true, true);
    var
}
