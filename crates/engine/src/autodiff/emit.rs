//! Writes the gradient ops of a path, last op first, and adds up contributions to one gradient.

use std::collections::{HashMap, HashSet};

use bireme_ir::{Block, Op, OpRole, Program, grad_name};

use super::flat::Flat;
use super::formula;
use super::path::Path;
use crate::op::{GradRule, OpView};
use crate::{Error, Result, ops};

/// The gradient ops of one backward pass, under construction.
pub(super) struct Emitter<'a> {
    pub(super) program: &'a Program,
    /// The block of it that is differentiated, each variable written once.
    pub(super) block: &'a Block,
    /// Which op of the program each op of it is.
    pub(super) places: &'a [usize],
    pub(super) path: &'a Path,
    /// Variables at which gradients stop.
    pub(super) no_grad: HashSet<String>,
    /// Blocks of gradients, to follow those of the program.
    pub(super) made: Vec<Block>,
    ops: Vec<Op>,
    /// By Paddle's name of the gradient, `x@GRAD`.
    grads: HashMap<String, Grad>,
    /// Keys of `grads` in order of creation, so that equal programs give equal programs.
    order: Vec<String>,
    /// Gradient names that this pass has given away.
    taken: HashSet<String>,
}

/// The gradients that an op's rule can compute, and whether each is wanted.
pub(super) type Targets = HashMap<String, bool>;

/// What has been computed of one gradient.
#[derive(Default)]
struct Grad {
    /// Its contributions.
    parts: Vec<Part>,
    /// How many contributions have been renamed.
    renamed: usize,
}

/// One contribution to a gradient.
struct Part {
    name: String,
    /// The op (by position) and the place in an output slot that writes it; `None` when it is the
    /// user's own variable.
    at: Option<(usize, String, usize)>,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(
        program: &'a Program,
        flat: &'a Flat,
        path: &'a Path,
        no_grad: HashSet<String>,
    ) -> Emitter<'a> {
        Emitter {
            program,
            block: &flat.block,
            places: &flat.single.places,
            path,
            no_grad,
            made: Vec::new(),
            ops: Vec::new(),
            grads: HashMap::new(),
            order: Vec::new(),
            taken: HashSet::new(),
        }
    }

    /// Starts the pass at `target`, whose gradient `fill` computes.
    pub(super) fn start(&mut self, target: &str, mut fill: Op) {
        let writes = |op: &&Op| op.output_vars().any(|out| out == target);
        let writer = self.block.ops.iter().rev().find(writes);
        fill.site = writer.and_then(|op| op.site.clone());
        if let Some(writer) = writer {
            fill = on_device_of(fill, writer);
        }
        self.push(fill, &HashMap::from([(grad_name(target), true)]));
    }

    /// Starts the pass at `target`, whose gradient is the user's variable `weight`.
    pub(super) fn start_with(&mut self, target: &str, weight: &str) {
        let part = Part { name: weight.to_owned(), at: None };
        self.contributions(grad_name(target)).parts.push(part);
    }

    /// Emits the gradients of every op on the path.
    ///
    /// # Errors
    /// When a gradient rule refuses its op.
    pub(super) fn run(&mut self) -> Result<()> {
        for index in &self.path.ops {
            let forward = &self.block.ops[*index];
            let view = OpView::new(forward).map_err(|error| error.in_op(forward))?;
            if let Some(flow) = view.def.flow {
                self.push_block(*index, flow).map_err(|error| error.in_op(forward))?;
                continue;
            }
            let ops = self.rule(&view).map_err(|error| error.in_op(forward))?;
            let ops = self.with_side_gradients(&view, ops)?;
            let targets: Targets = forward
                .input_vars()
                .map(|var| (grad_name(var), self.path.wanted.contains(var)))
                .collect();
            for mut op in keep_live(ops, &targets) {
                drop_foreign_attrs(&mut op, &view);
                op.site.clone_from(&forward.site);
                self.read_inputs(&mut op, forward);
                let op = on_device_of(op, forward);
                self.push(op.role(OpRole::BACKWARD), &targets);
            }
        }
        Ok(())
    }

    /// The gradient ops of an op.
    fn rule(&self, view: &OpView<'_>) -> Result<Vec<Op>> {
        match view.def.grad {
            GradRule::Formula(written) => formula::gradient_ops(self.block, view, written),
            rule => rule.ops(view),
        }
    }

    /// The gradient ops with those of outputs that the rule does not read but the loss depends on. Where the op has
    /// none for them it is refused: a part of the gradient would vanish.
    fn with_side_gradients(&self, view: &OpView<'_>, mut rule: Vec<Op>) -> Result<Vec<Op>> {
        let forward = view.op;
        let known = |var: &String| self.grads.contains_key(&grad_name(var));
        let unread = forward.outputs.iter().find_map(|(slot, vars)| {
            let wanted = vars.iter().filter(|var| self.path.wanted.contains(*var));
            let mut lost = wanted.filter(|var| known(var) && is_unread(&rule, &grad_name(var)));
            lost.next().map(|var| (slot, var))
        });
        let Some((slot, var)) = unread else { return Ok(rule) };
        let refused = || no_gradient_through(&forward.kind, slot, var).in_op(forward);
        let side = view.def.side_grad.ok_or_else(refused)?(view).map_err(|e| e.in_op(forward))?;
        if is_unread(&side, &grad_name(var)) {
            return Err(refused());
        }
        // What is linear in gradients that nobody computed is zero.
        let counts = |op: &Op| forward.output_vars().any(|out| known(out) && reads(op, out));
        rule.retain(counts);
        rule.extend(side);
        Ok(rule)
    }

    /// Keeps gradients from taking the name `name`.
    pub(super) fn reserve(&mut self, name: &str) {
        self.taken.insert(name.to_owned());
    }

    /// Sums what is still in pieces. Returns the ops, for each gradient the name it ended with, and the
    /// blocks that the ops run.
    pub(super) fn finish(mut self) -> (Vec<Op>, HashMap<String, String>, Vec<Block>) {
        let order = std::mem::take(&mut self.order);
        let finals = order.into_iter().filter_map(|key| Some((key.clone(), self.whole(&key)?)));
        let finals: HashMap<String, String> = finals.collect();
        (self.ops, finals, self.made)
    }

    /// Lets `op` read each output gradient of `forward` under its final name; one that nobody
    /// computed is zero, or left out where the op allows that.
    fn read_inputs(&mut self, op: &mut Op, forward: &Op) {
        let grads: HashMap<String, &String> =
            forward.output_vars().map(|out| (grad_name(out), out)).collect();
        let slots: Vec<String> = op.inputs.keys().cloned().collect();
        for slot in slots {
            let mut vars = op.inputs_of(&slot).to_vec();
            let is_grad = |var: &String| grads.contains_key(var);
            let known = |var: &String| self.grads.contains_key(var);
            if vars.iter().all(|var| is_grad(var) && !known(var)) && !is_required(op, &slot) {
                op.inputs.remove(&slot);
                continue;
            }
            for var in &mut vars {
                match grads.get(var) {
                    None => {}
                    Some(_) if self.grads.contains_key(var) => {
                        *var = self.whole(var).expect("a known gradient has a contribution");
                    }
                    Some(out) => *var = self.zeros(out, var, forward),
                }
            }
            op.inputs.insert(slot, vars);
        }
    }

    fn zeros(&mut self, like: &str, grad: &str, forward: &Op) -> String {
        let mut op = Op::new("fill_zeros_like").input("X", [like]).output("Out", [grad]);
        op.site.clone_from(&forward.site);
        let op = on_device_of(op, forward);
        self.push(op.role(OpRole::BACKWARD), &HashMap::from([(grad.to_owned(), true)]));
        self.whole(grad).expect("just made")
    }

    /// Appends `op`; its outputs in `targets` become contributions.
    pub(super) fn push(&mut self, op: Op, targets: &Targets) {
        let index = self.ops.len();
        let places: Vec<(String, usize)> = op
            .outputs
            .iter()
            .flat_map(|(slot, vars)| (0..vars.len()).map(|place| (slot.clone(), place)))
            .collect();
        // Known to `rename_first` from here on: one op may contribute twice to one gradient.
        self.ops.push(op);
        for (slot, place) in places {
            let key = self.ops[index].outputs_of(&slot)[place].clone();
            let name = match targets.get(&key) {
                Some(true) => self.add(&key, index, &slot, place),
                // A slot holds the gradients of all its variables or of none, so one that nobody
                // wants may be computed beside others; it must not pass for a contribution.
                Some(false) => self.take_name(&format!("{key}@UNUSED")),
                None => continue,
            };
            set_output(&mut self.ops[index], &slot, place, name);
        }
    }

    /// Adds a contribution to gradient `key` and returns its name.
    fn add(&mut self, key: &str, op: usize, slot: &str, place: usize) -> String {
        let first = self.contributions(key.to_owned()).parts.is_empty();
        let name = if first {
            self.take_name(key)
        } else {
            self.rename_first(key);
            self.next_part_name(key)
        };
        let part = Part { name: name.clone(), at: Some((op, slot.to_owned(), place)) };
        self.contributions(key.to_owned()).parts.push(part);
        name
    }

    /// Gives the only contribution so far a name that says it is one of several.
    fn rename_first(&mut self, key: &str) {
        let grad = self.contributions(key.to_owned());
        let [Part { name, at: Some((op, slot, place)) }] = grad.parts.as_slice() else { return };
        let (old, op, slot, place) = (name.clone(), *op, slot.clone(), *place);
        let name = self.next_part_name(key);
        self.taken.remove(&old);
        set_output(&mut self.ops[op], &slot, place, name.clone());
        self.contributions(key.to_owned()).parts[0].name = name;
    }

    fn next_part_name(&mut self, key: &str) -> String {
        let grad = self.contributions(key.to_owned());
        let name = format!("{key}@RENAME@block0@{}", grad.renamed);
        grad.renamed += 1;
        self.take_name(&name)
    }

    /// The gradient `key` in one piece: sums its contributions when there are several.
    pub(super) fn whole(&mut self, key: &str) -> Option<String> {
        let grad = self.grads.get(key)?;
        if let [only] = grad.parts.as_slice() {
            return Some(only.name.clone());
        }
        let parts: Vec<String> = grad.parts.iter().map(|part| part.name.clone()).collect();
        let last = grad.parts.last().and_then(|part| part.at.as_ref());
        let last = last.map(|(op, ..)| self.ops[*op].clone());
        let name = self.take_name(key);
        let mut sum = Op::new("sum").input("X", parts).output("Out", [name.as_str()]);
        if let Some(last) = last {
            sum = on_device_of(sum, &last);
            sum.site = last.site;
        }
        let at = Some((self.ops.len(), "Out".to_owned(), 0));
        self.ops.push(sum.role(OpRole::BACKWARD));
        self.grads.get_mut(key)?.parts = vec![Part { name: name.clone(), at }];
        Some(name)
    }

    fn contributions(&mut self, key: String) -> &mut Grad {
        if !self.grads.contains_key(&key) {
            self.order.push(key.clone());
        }
        self.grads.entry(key).or_default()
    }

    /// `name`, or with a number when an earlier backward pass has taken it.
    fn take_name(&mut self, name: &str) -> String {
        let free = |name: &String| self.block.var(name).is_none() && !self.taken.contains(name);
        let numbered = (0..).map(|number| format!("{name}_{number}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        let name = names.find(free).expect("numbers do not end");
        self.taken.insert(name.clone());
        name
    }
}

/// Whether a gradient rule, which may be empty where an op is constant, leaves out the gradient of
/// an output.
pub(crate) fn is_unread(rule: &[Op], grad: &str) -> bool {
    !rule.is_empty() && !rule.iter().any(|op| op.input_vars().any(|var| var == grad))
}

fn reads(op: &Op, output: &str) -> bool {
    let grad = grad_name(output);
    op.input_vars().any(|var| *var == grad)
}

/// The error of a gradient that arrives at an output which has none.
pub(crate) fn no_gradient_through(kind: &str, slot: &str, var: &str) -> Error {
    let named = if var.is_empty() { String::new() } else { format!(" (`{var}`)") };
    Error::kernel(format!(
        "the gradient of output `{slot}`{named} of `{kind}` is not defined, but the loss depends on \
         it: compute the same value by an op of its own, or set `stop_gradient` on it if its \
         gradient is not meant to count"
    ))
}

/// Gradients are computed where the forward op runs.
pub(super) fn on_device_of(op: Op, forward: &Op) -> Op {
    match forward.attrs.get("op_device") {
        Some(device) => op.attr("op_device", device.clone()),
        None => op,
    }
}

fn set_output(op: &mut Op, slot: &str, place: usize, name: String) {
    op.outputs.get_mut(slot).expect("the slot was read from this op")[place] = name;
}

fn is_required(op: &Op, slot: &str) -> bool {
    let def = ops::find(&op.kind);
    def.is_ok_and(|def| def.signature.inputs.iter().any(|s| s.name == slot && s.required))
}

/// Drops ops, and gradient slots of ops, that compute nothing wanted.
fn keep_live(ops: Vec<Op>, targets: &Targets) -> Vec<Op> {
    let mut read: HashSet<String> = HashSet::new();
    let mut kept = Vec::new();
    for mut op in ops.into_iter().rev() {
        let live = |var: &String| targets.get(var) == Some(&true) || read.contains(var);
        if !op.output_vars().any(live) {
            continue;
        }
        op.outputs.retain(|_, vars| {
            vars.iter().any(live) || !vars.iter().all(|var| targets.contains_key(var))
        });
        read.extend(op.input_vars().cloned());
        kept.push(op);
    }
    kept.reverse();
    kept
}

/// A default gradient op repeats the forward op's attributes; those it does not know are left out.
fn drop_foreign_attrs(op: &mut Op, forward: &OpView<'_>) {
    let Ok(def) = ops::find(&op.kind) else { return };
    let lists = |attrs: &[bireme_ir::AttrSpec], name: &str| attrs.iter().any(|a| a.name == name);
    op.attrs.retain(|name, _| {
        lists(def.signature.attrs, name) || !lists(forward.def.signature.attrs, name)
    });
}
