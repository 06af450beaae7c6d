//! An optimizer on eager tensors: the update ops of a program, run on the parameters at once.
//!
//! The ops are those that [`Optimizer::apply_gradients`] appends to a program, clipping and
//! regularisation included, so both modes make the same step. They are made anew only when other
//! parameters have gradients than before.

#![expect(unsafe_code, reason = "kernels reach values by pointer; see `op::Run`")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ptr::NonNull;
use std::sync::Arc;

use bireme_ir::{DType, Param, Program, Var, VarKind, grad_name};

use super::EagerTensor;
use super::prepared::unwritten;
use super::routine::Routine;
use super::session::shape_of;
use crate::graph::Graph;
use crate::op::run_once;
use crate::optimizer::Optimizer;
use crate::tensor::Tensor;
use crate::value::Value;
use crate::{Error, Result};

/// An optimizer and the state that it keeps for eager tensors.
pub struct EagerOptimizer {
    optimizer: Box<dyn Optimizer + Send>,
    /// Accumulators by name: `linear_0.w_0_moment1_0`.
    state: BTreeMap<String, Box<Value>>,
    steps: Vec<(Vec<Kind>, Update)>,
    count: u64,
}

/// What a step depends on, of each parameter.
#[derive(Clone, PartialEq)]
struct Kind {
    name: String,
    dtype: DType,
    shape: Vec<i64>,
    sparse: bool,
    param: Param,
}

/// A step for certain parameters.
struct Update {
    routine: Routine,
    /// Values that only the routine uses, by place.
    own: Vec<Option<Box<Value>>>,
    learning_rate: String,
}

/// Sets of parameters whose steps are kept.
const MAX_STEPS: usize = 8;

impl EagerOptimizer {
    /// With no state yet.
    pub fn new(optimizer: Box<dyn Optimizer + Send>) -> EagerOptimizer {
        EagerOptimizer { optimizer, state: BTreeMap::new(), steps: Vec::new(), count: 0 }
    }

    /// The accumulators by name.
    pub fn accumulators(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.state.iter().map(|(name, value)| (name.as_str(), &**value))
    }

    /// Sets an accumulator, as a saved state gives it.
    pub fn set_accumulator(&mut self, name: &str, value: Value) {
        self.state.insert(name.to_owned(), Box::new(value));
    }

    /// Makes one step on those of `params` that have a gradient and are trainable.
    ///
    /// # Errors
    /// When a parameter has no name, two share one, or an update refuses its gradient.
    pub fn step(&mut self, params: &[EagerTensor], learning_rate: f64) -> Result<()> {
        let mut seen = HashSet::new();
        let trained: Vec<(&EagerTensor, EagerTensor)> = params
            .iter()
            .filter(|param| !param.stop_gradient() && seen.insert(param.id()))
            .filter_map(|param| Some((param, param.grad()?)))
            .collect();
        if trained.is_empty() {
            return Ok(());
        }
        let kinds = trained.iter().map(|(param, grad)| kind(param, grad));
        let kinds = kinds.collect::<Result<Vec<Kind>>>()?;
        let at = match self.steps.iter().position(|(known, _)| *known == kinds) {
            Some(at) => at,
            None => self.prepare(kinds, &trained)?,
        };
        self.count += 1;
        let (kinds, update) = &mut self.steps[at];
        let rate = Tensor::scalar(learning_rate as f32);
        self.state.insert(update.learning_rate.clone(), Box::new(rate.into()));
        let done = run(update, kinds, &trained, &mut self.state, self.count);
        self.state.remove(&update.learning_rate);
        done
    }

    fn prepare(
        &mut self,
        kinds: Vec<Kind>,
        trained: &[(&EagerTensor, EagerTensor)],
    ) -> Result<usize> {
        let graph = Graph::new();
        let mut pairs = Vec::new();
        let mut names = HashSet::new();
        for kind in &kinds {
            if !names.insert(&kind.name) {
                return Err(Error::kernel(format!(
                    "two parameters are called `{}`: rename one",
                    kind.name
                )));
            }
            let mut var = Var::parameter(&kind.name, kind.dtype, kind.shape.clone());
            var.param = Some(kind.param.clone());
            let mut grad = Var::tensor(grad_name(&kind.name), kind.dtype, kind.shape.clone());
            if kind.sparse {
                grad.kind = VarKind::SelectedRows;
            }
            pairs.push((graph.declare(var), graph.declare(grad)));
        }
        let minimized = self.optimizer.apply_gradients(pairs)?;
        let params: HashMap<&String, Arc<Value>> = kinds
            .iter()
            .zip(trained)
            .map(|(kind, (param, _))| (&kind.name, param.value()))
            .collect();
        self.start(&graph.startup(), &params)?;
        let main = graph.main();
        let routine = Routine::new(&main.global().ops, 0)?;
        let mut own: Vec<Option<Box<Value>>> = (0..routine.len()).map(|_| None).collect();
        for (name, place) in routine.places() {
            let given = names.contains(name) || name.ends_with(bireme_ir::GRAD_SUFFIX);
            let given = given && pairs_have(&kinds, name);
            if !given && !self.state.contains_key(name) && name != minimized.learning_rate.name() {
                own[place] = Some(Box::new(unwritten()));
            }
        }
        let learning_rate = minimized.learning_rate.name().to_owned();
        self.steps.truncate(MAX_STEPS - 1);
        self.steps.insert(0, (kinds, Update { routine, own, learning_rate }));
        Ok(0)
    }

    /// Gives accumulators that are not there yet their first values.
    fn start(&mut self, startup: &Program, params: &HashMap<&String, Arc<Value>>) -> Result<()> {
        for op in &startup.global().ops {
            // A master copy starts from its parameter; nothing else reads anything.
            let given = op
                .input_vars()
                .filter_map(|name| Some((name.clone(), Value::clone(params.get(name)?))));
            let mut values: HashMap<String, Value> = given.collect();
            run_once(op, &mut values)?;
            values.retain(|name, _| !params.contains_key(name));
            for (name, value) in values {
                let known =
                    self.state.entry(name.clone()).or_insert_with(|| Box::new(value.clone()));
                let (has, needs) = (shape_of(known), shape_of(&value));
                if has != needs {
                    return Err(Error::kernel(format!(
                        "accumulator `{name}` is {} of shape {}, but its parameter needs {} of \
                         shape {}: was the state saved by another model?",
                        has.0, has.1, needs.0, needs.1
                    )));
                }
            }
        }
        Ok(())
    }
}

fn pairs_have(kinds: &[Kind], name: &str) -> bool {
    kinds.iter().any(|kind| kind.name == name || grad_name(&kind.name) == name)
}

fn kind(param: &EagerTensor, grad: &EagerTensor) -> Result<Kind> {
    let name = param.name().ok_or_else(|| Error::kernel("a parameter must have a name"))?;
    let (dtype, dims) = param.look(shape_of);
    let sparse = grad.look(|value| value.rows().is_some());
    let given = grad.look(shape_of);
    if given != (dtype, dims) {
        return Err(Error::kernel(format!(
            "parameter `{name}` is {dtype} of shape {dims}, but its gradient is {} of shape {}",
            given.0, given.1
        )));
    }
    let shape = dims.iter().map(|dim| *dim as i64).collect();
    Ok(Kind { name, dtype, shape, sparse, param: param.param().unwrap_or_default() })
}

fn run(
    update: &mut Update,
    kinds: &[Kind],
    trained: &[(&EagerTensor, EagerTensor)],
    state: &mut BTreeMap<String, Box<Value>>,
    step: u64,
) -> Result<()> {
    let mut table: Vec<Option<NonNull<Value>>> = vec![None; update.routine.len()];
    for (name, place) in update.routine.places() {
        if let Some(value) = state.get_mut(name) {
            table[place] = Some(NonNull::from(&mut **value));
        } else if let Some(value) = &mut update.own[place] {
            table[place] = Some(NonNull::from(&mut **value));
        }
    }
    // All gradients before the first lock: one parameter may be another one's gradient.
    let grads: Vec<Arc<Value>> = trained.iter().map(|(_, grad)| grad.value()).collect();
    let mut locks = Vec::new();
    // In one order for everybody, so that two optimizers on two threads cannot wait for each other.
    let mut order: Vec<usize> = (0..trained.len()).collect();
    order.sort_by_key(|at| trained[*at].0.id());
    for at in order {
        let name = &kinds[at].name;
        if let Some(place) = update.routine.find(&grad_name(name)) {
            table[place] = Some(NonNull::from(&*grads[at]));
        }
        if let Some(place) = update.routine.find(name) {
            let mut lock = trained[at].0.lock();
            // A value that the tape or an array still shares is left to them.
            table[place] = Some(NonNull::from(Arc::make_mut(&mut lock.value)));
            locks.push(lock);
        }
    }
    let table: Vec<NonNull<Value>> =
        table.into_iter().map(|value| value.expect("every variable has a value")).collect();
    // SAFETY: parameters are locked and unshared, gradients are held and no update writes them,
    // accumulators and temporaries are this optimizer's own; all are different values.
    unsafe { update.routine.run(&table, step) }
}
