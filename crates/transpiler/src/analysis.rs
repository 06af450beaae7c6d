//! Finds what a training program does to its parameters: the update of each, the ops around it,
//! the learning rates, and the ops that leave the trainer.
//!
//! Ops are told apart by role and by what they read, not by name scopes: an op of the optimizer
//! that reads a parameter, its state or a learning rate belongs to the server (regularisation,
//! updates); one that reads gradients alone (clipping) stays with the trainer.

use std::collections::{BTreeSet, HashMap, HashSet};

use bireme_ir::{Op, OpRole, Program, Var, VarKind};

use crate::slice::elements;
use crate::{Error, Result};

/// Update ops whose rule can be applied to a slice of a parameter.
const BY_ELEMENT: [&str; 10] = [
    "sgd",
    "momentum",
    "adam",
    "adamw",
    "adamax",
    "adagrad",
    "decayed_adagrad",
    "adadelta",
    "rmsprop",
    "ftrl",
];

/// Update ops that need norms of a whole parameter. Paddle slices it all the same, and so steps by
/// other norms than a single process; here such a parameter stays in one piece.
const BY_NORM: [&str; 2] = ["lamb", "lars_momentum"];

/// How one parameter is updated.
#[derive(Clone, Debug)]
pub(crate) struct Update {
    pub(crate) param: Var,
    /// The gradient that servers are sent: clipped, not regularised.
    pub(crate) grad: Var,
    /// What servers do with it, in order: regularisation, the update, what follows.
    pub(crate) ops: Vec<Op>,
    /// The place of the update itself in `ops`.
    pub(crate) at: usize,
    /// Accumulators.
    pub(crate) states: Vec<Var>,
    /// Whether the rule needs the whole parameter.
    pub(crate) whole: bool,
}

impl Update {
    /// Whether its gradient is rows.
    pub(crate) fn is_sparse(&self) -> bool {
        self.grad.kind == VarKind::SelectedRows
    }

    /// The update op itself.
    pub(crate) fn op(&self) -> &Op {
        &self.ops[self.at]
    }
}

/// What is known of a training program.
#[derive(Clone, Debug)]
pub(crate) struct Analysis {
    /// In the order of the update ops.
    pub(crate) updates: Vec<Update>,
    /// Ops that compute learning rates, by position in the global block.
    pub(crate) lr_ops: Vec<usize>,
    /// Learning rates that are read from the scope: constant ones, and those that others set.
    pub(crate) rates: BTreeSet<String>,
    /// Learning rates that the trainer's own ops compute.
    pub(crate) computed_rates: BTreeSet<String>,
    /// Ops of the optimizer that belong to the servers, by position.
    pub(crate) on_server: BTreeSet<usize>,
    /// Ops of the optimizer that stay with the trainer: clipping.
    pub(crate) clip_ops: BTreeSet<usize>,
}

/// Analyses `program`.
///
/// # Errors
/// When it has no updates, or ones that cannot be distributed.
pub(crate) fn analyse(program: &Program) -> Result<Analysis> {
    let search = Search::new(program)?;
    let (on_server, clip_ops) = search.sides();
    let mut analysis = Analysis {
        updates: Vec::new(),
        lr_ops: search.lr_ops.clone(),
        rates: BTreeSet::new(),
        computed_rates: BTreeSet::new(),
        on_server,
        clip_ops,
    };
    let shares = search.shares(&analysis.on_server)?;
    for (update, share) in search.updates.iter().zip(shares) {
        let update = search.update(*update, &share, &mut analysis)?;
        analysis.updates.push(update);
    }
    check_states(&analysis.updates)?;
    Ok(analysis)
}

/// Whether `op` computes a learning rate for all parameters. The factor of a single parameter has
/// the optimizer's bit too; it is part of that parameter's update.
pub(crate) fn is_lr(op: &Op) -> bool {
    let role = op.op_role().0;
    role & OpRole::LR_SCHED.0 != 0 && role & OpRole::OPTIMIZE.0 == 0
}

/// Whether `op` belongs to the optimizer: clipping, regularisation, updates.
pub(crate) fn is_optimizer(op: &Op) -> bool {
    let role = op.op_role().0 & !OpRole::LR_SCHED.0;
    OpRole(role).base() == OpRole::OPTIMIZE
}

fn is_rate_factor(op: &Op) -> bool {
    is_optimizer(op) && op.op_role().0 & OpRole::LR_SCHED.0 != 0
}

/// Whether `op` updates a parameter.
pub(crate) fn is_update(op: &Op) -> bool {
    let filled = |vars: &[String]| !vars.is_empty();
    is_optimizer(op)
        && filled(op.inputs_of("Param"))
        && filled(op.inputs_of("Grad"))
        && filled(op.outputs_of("ParamOut"))
}

/// The ops of the global block, sorted by what they are for.
struct Search<'a> {
    program: &'a Program,
    ops: &'a [Op],
    updates: Vec<usize>,
    lr_ops: Vec<usize>,
    /// What the learning-rate ops write.
    lr_outputs: HashSet<&'a str>,
}

impl<'a> Search<'a> {
    fn new(program: &'a Program) -> Result<Search<'a>> {
        let ops = program.global().ops.as_slice();
        let positions = |want: fn(&Op) -> bool| -> Vec<usize> {
            ops.iter().enumerate().filter(|(_, op)| want(op)).map(|(index, _)| index).collect()
        };
        let (updates, lr_ops) = (positions(is_update), positions(is_lr));
        if updates.is_empty() {
            return Err(Error::Program(
                "the program updates no parameter, so there is nothing for servers to do: call \
                 `minimize` before `transpile`"
                    .to_owned(),
            ));
        }
        for index in &updates {
            let kind = ops[*index].kind.as_str();
            if !BY_ELEMENT.contains(&kind) && !BY_NORM.contains(&kind) {
                return Err(unsupported(kind));
            }
            if let params @ [_, _, ..] = ops[*index].inputs_of("Param") {
                return Err(Error::Program(format!(
                    "one `{kind}` updates {params:?}, but they may live on different servers: give \
                     each parameter an op of its own"
                )));
            }
        }
        let lr_outputs =
            lr_ops.iter().flat_map(|index| ops[*index].output_vars()).map(String::as_str);
        let lr_outputs = lr_outputs.collect();
        Ok(Search { program, ops, updates, lr_ops, lr_outputs })
    }

    /// The optimizer's ops that belong to servers, and those that belong to trainers.
    fn sides(&self) -> (BTreeSet<usize>, BTreeSet<usize>) {
        let mut held: HashSet<&str> = self.lr_outputs.clone();
        for index in &self.updates {
            let slots = self.ops[*index].inputs.iter().filter(|(slot, _)| *slot != "Grad");
            held.extend(slots.flat_map(|(_, vars)| vars).map(String::as_str));
        }
        let (mut server, mut trainer, mut constants) =
            (BTreeSet::new(), BTreeSet::new(), Vec::new());
        for (index, op) in self.ops.iter().enumerate().filter(|(_, op)| is_optimizer(op)) {
            if op.input_vars().next().is_none() {
                constants.push(index);
            } else if is_rate_factor(op) || op.input_vars().any(|var| held.contains(var.as_str())) {
                held.extend(op.output_vars().map(String::as_str));
                server.insert(index);
            } else {
                trainer.insert(index);
            }
        }
        // A constant goes where it is read, to both sides if need be.
        for index in constants {
            let reads = |reader: &usize| {
                let outputs = || self.ops[index].output_vars();
                self.ops[*reader].input_vars().any(|var| outputs().any(|out| out == var))
            };
            if server.iter().any(reads) {
                server.insert(index);
            }
            let trainers = (0..self.ops.len()).filter(|reader| !server.contains(reader));
            if trainers.into_iter().any(|reader| reads(&reader)) {
                trainer.insert(index);
            }
        }
        (server, trainer)
    }

    /// The server's ops that belong to each update, in order.
    fn shares(&self, on_server: &BTreeSet<usize>) -> Result<Vec<BTreeSet<usize>>> {
        let mut shares = Vec::new();
        let mut taken = HashSet::new();
        for update in &self.updates {
            let share = self.before(*update, on_server);
            taken.extend(share.iter().copied());
            shares.push(share);
        }
        // What is left comes after an update and touches its state.
        let mut owners: HashMap<&str, usize> = HashMap::new();
        for (number, update) in self.updates.iter().enumerate() {
            let op = &self.ops[*update];
            let own = op.inputs.iter().filter(|(slot, _)| !is_shared_slot(slot));
            owners.extend(own.flat_map(|(_, vars)| vars).map(|var| (var.as_str(), number)));
        }
        for index in on_server.iter().filter(|index| !taken.contains(*index)) {
            let op = &self.ops[*index];
            let vars = || op.input_vars().chain(op.output_vars());
            let found: BTreeSet<usize> =
                vars().filter_map(|var| owners.get(var.as_str()).copied()).collect();
            let (Some(owner), 1) = (found.first().copied(), found.len()) else {
                return Err(unsupported(&op.kind));
            };
            owners.extend(op.output_vars().map(|var| (var.as_str(), owner)));
            shares[owner].insert(*index);
        }
        Ok(shares)
    }

    /// The op at `update` and the server's ops before it that it depends on.
    fn before(&self, update: usize, on_server: &BTreeSet<usize>) -> BTreeSet<usize> {
        let mut share = BTreeSet::from([update]);
        let mut open = vec![update];
        while let Some(reader) = open.pop() {
            for var in self.ops[reader].input_vars() {
                let writes = |index: &&usize| self.ops[**index].output_vars().any(|out| out == var);
                // A state that an earlier update writes is no reason to repeat that update.
                let writer = on_server.range(..reader).rev().find(writes);
                let writer = writer.filter(|index| !is_update(&self.ops[**index]));
                open.extend(writer.filter(|index| share.insert(**index)));
            }
        }
        share
    }

    /// Describes the update at `index`, whose ops on the server are `share`.
    fn update(
        &self,
        index: usize,
        share: &BTreeSet<usize>,
        analysis: &mut Analysis,
    ) -> Result<Update> {
        let op = &self.ops[index];
        let param = self.declared(&op.inputs_of("Param")[0])?;
        if param.shape.iter().any(|dim| *dim < 0) {
            return Err(Error::Program(format!(
                "parameter `{}` has the shape {:?}, so nobody knows how to cut it",
                param.name, param.shape
            )));
        }
        let written: HashSet<&String> =
            share.iter().flat_map(|index| self.ops[*index].output_vars()).collect();
        let (mut grads, mut states) = (BTreeSet::new(), BTreeSet::new());
        for index in share {
            let op = &self.ops[*index];
            for (slot, var) in
                op.inputs.iter().flat_map(|(s, vars)| vars.iter().map(move |v| (s, v)))
            {
                let declared = self.declared(var)?;
                let rate = slot == "LearningRate" || is_rate_factor(op);
                if *var == param.name || self.lr_outputs.contains(var.as_str()) {
                    continue;
                }
                match (declared.persistable, rate) {
                    (true, true) => drop(analysis.rates.insert(var.clone())),
                    (true, false) => drop(states.insert(var.clone())),
                    (false, _) if written.contains(var) => {}
                    (false, true) => drop(analysis.computed_rates.insert(var.clone())),
                    (false, false) => drop(grads.insert(var.clone())),
                }
            }
        }
        let (Some(grad), 1) = (grads.first(), grads.len()) else {
            return Err(Error::Program(format!(
                "the update of `{}` reads {grads:?} from the trainer, but a server is sent one \
                 gradient for each parameter",
                param.name
            )));
        };
        let states =
            states.iter().map(|name| self.declared(name).cloned()).collect::<Result<Vec<_>>>()?;
        Ok(Update {
            param: param.clone(),
            grad: self.declared(grad)?.clone(),
            ops: share.iter().map(|index| self.ops[*index].clone()).collect(),
            at: share.iter().position(|other| *other == index).unwrap_or(0),
            whole: BY_NORM.contains(&op.kind.as_str()) || has_odd_state(&states, param),
            states,
        })
    }

    fn declared(&self, name: &str) -> Result<&'a Var> {
        let var = self.program.global().var(name);
        var.ok_or_else(|| Error::Program(format!("the program has no variable `{name}`")))
    }
}

/// Slots whose variables belong to no single parameter.
fn is_shared_slot(slot: &str) -> bool {
    slot == "LearningRate" || slot == "Grad"
}

/// State that is neither one number nor of the parameter's shape cannot be cut with it.
fn has_odd_state(states: &[Var], param: &Var) -> bool {
    let single = |var: &Var| elements(&var.shape) == 1;
    states.iter().any(|state| !single(state) && state.shape != param.shape)
}

/// A state lives where its parameter does, so it belongs to one.
fn check_states(updates: &[Update]) -> Result<()> {
    let mut owners: HashMap<&str, &str> = HashMap::new();
    for update in updates {
        for state in &update.states {
            if let Some(other) = owners.insert(&state.name, &update.param.name) {
                return Err(Error::Program(format!(
                    "`{other}` and `{}` share the optimizer state `{}`, but may live on different \
                     servers: give each its own",
                    update.param.name, state.name
                )));
            }
        }
    }
    Ok(())
}

fn unsupported(kind: &str) -> Error {
    Error::Program(format!("Not supported optimizer for distributed training: {kind}"))
}
