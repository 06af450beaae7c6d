//! An optimizer on eager tensors: the update ops of a program, run on the parameters at once.
//!
//! The ops are those that [`Optimizer::apply_gradients`] appends to a program, clipping and
//! regularisation included, so both modes make the same step. They are made anew only when other
//! parameters have gradients than before.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bireme_ir::{DType, Param, Program, Var, VarKind, grad_name};

use super::EagerTensor;
use super::card::EagerCard;
use super::held::{Held, shape_of};
use super::routine::Routine;
use super::table::Entry;
use crate::graph::Graph;
use crate::op::run_once;
use crate::optimizer::Optimizer;
use crate::tensor::Tensor;
use crate::value::Value;
use crate::{Error, Place, Result};

/// An optimizer and the state that it keeps for eager tensors.
pub struct EagerOptimizer {
    optimizer: Box<dyn Optimizer + Send>,
    /// Accumulators by name: `linear_0.w_0_moment1_0`. They lie where their parameters do.
    state: BTreeMap<String, Arc<Held>>,
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
    own: Vec<Option<Held>>,
    learning_rate: String,
    /// The learning rate of the last step: a card has it already when it is the same again.
    rate: Option<(f32, Arc<Held>)>,
}

/// Sets of parameters whose steps are kept.
const MAX_STEPS: usize = 8;

impl EagerOptimizer {
    /// With no state yet.
    pub fn new(optimizer: Box<dyn Optimizer + Send>) -> EagerOptimizer {
        EagerOptimizer { optimizer, state: BTreeMap::new(), steps: Vec::new(), count: 0 }
    }

    /// The accumulators by name; the next step leaves what is held elsewhere as it is.
    pub fn accumulators(&self) -> impl Iterator<Item = (&str, &Arc<Held>)> {
        self.state.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Sets an accumulator, as a saved state gives it.
    pub fn set_accumulator(&mut self, name: &str, value: impl Into<Arc<Held>>) {
        self.state.insert(name.to_owned(), value.into());
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
        let home = trained.iter().find_map(|(param, _)| param.held().home().cloned());
        let at = match self.steps.iter().position(|(known, _)| *known == kinds) {
            Some(at) => at,
            None => self.prepare(kinds, &trained, home.as_ref())?,
        };
        self.count += 1;
        let (kinds, update) = &mut self.steps[at];
        update.set_rate(learning_rate as f32, home.as_ref());
        run(update, kinds, &trained, &mut self.state, home.as_ref(), self.count)
    }

    fn prepare(
        &mut self,
        kinds: Vec<Kind>,
        trained: &[(&EagerTensor, EagerTensor)],
        home: Option<&Arc<EagerCard>>,
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
        let params: HashMap<&String, Arc<Held>> = kinds
            .iter()
            .zip(trained)
            .map(|(kind, (param, _))| (&kind.name, param.held()))
            .collect();
        self.start(&graph.startup(), &params, home)?;
        // The rate is the caller's, and no state that is saved.
        self.state.remove(minimized.learning_rate.name());
        let main = graph.main();
        let routine = Routine::new(&main.global().ops, 0)?;
        let mut own: Vec<Option<Held>> = (0..routine.len()).map(|_| None).collect();
        for (name, place) in routine.places() {
            let given = names.contains(name) || name.ends_with(bireme_ir::GRAD_SUFFIX);
            let given = given && pairs_have(&kinds, name);
            if !given && !self.state.contains_key(name) && name != minimized.learning_rate.name() {
                own[place] = Some(Held::unwritten().at_home(home.cloned()));
            }
        }
        let learning_rate = minimized.learning_rate.name().to_owned();
        self.steps.truncate(MAX_STEPS - 1);
        self.steps.insert(0, (kinds, Update { routine, own, learning_rate, rate: None }));
        Ok(0)
    }

    /// Gives accumulators that are not there yet their first values.
    fn start(
        &mut self,
        startup: &Program,
        params: &HashMap<&String, Arc<Held>>,
        home: Option<&Arc<EagerCard>>,
    ) -> Result<()> {
        for op in &startup.global().ops {
            // A master copy starts from its parameter; nothing else reads anything.
            let mut values: HashMap<String, Value> = HashMap::new();
            for name in op.input_vars() {
                if let Some(param) = params.get(name) {
                    values.insert(name.clone(), Value::clone(param.host()?));
                }
            }
            run_once(op, &mut values)?;
            values.retain(|name, _| !params.contains_key(name));
            for (name, value) in values {
                let needs = shape_of(&value);
                let known = self.state.entry(name.clone());
                let known = known.or_insert_with(|| Arc::new(Held::at(value, home.cloned())));
                let has = known.shape();
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
    let (dtype, dims) = param.shape();
    let (sparse, given) = (grad.is_rows(), grad.shape());
    if given != (dtype, dims) {
        return Err(Error::kernel(format!(
            "parameter `{name}` is {dtype} of shape {dims}, but its gradient is {} of shape {}",
            given.0, given.1
        )));
    }
    let shape = dims.iter().map(|dim| *dim as i64).collect();
    Ok(Kind { name, dtype, shape, sparse, param: param.param().unwrap_or_default() })
}

impl Update {
    fn set_rate(&mut self, rate: f32, home: Option<&Arc<EagerCard>>) {
        let is_known = |(known, held): &(f32, Arc<Held>)| {
            known.to_bits() == rate.to_bits() && held.place() == place_of(home)
        };
        if !self.rate.as_ref().is_some_and(is_known) {
            let held = Held::at(Tensor::scalar(rate), home.cloned());
            self.rate = Some((rate, Arc::new(held)));
        }
    }
}

fn place_of(home: Option<&Arc<EagerCard>>) -> Place {
    home.map_or(Place::Cpu, |card| card.place())
}

fn run(
    update: &mut Update,
    kinds: &[Kind],
    trained: &[(&EagerTensor, EagerTensor)],
    state: &mut BTreeMap<String, Arc<Held>>,
    home: Option<&Arc<EagerCard>>,
    step: u64,
) -> Result<()> {
    let routine = &update.routine;
    let mut table: Vec<Entry<'_>> = (0..routine.len()).map(|_| Entry::Empty).collect();
    for (place, value) in update.own.iter_mut().enumerate() {
        if let Some(value) = value {
            table[place] = Entry::Mut(value);
        }
    }
    for (name, value) in state {
        if let Some(place) = routine.find(name) {
            // State that was loaded, or whose parameters have been moved since.
            if value.place() != place_of(home) {
                *value = Arc::new(value.moved(home)?);
            }
            table[place] = Entry::Mut(Held::make_mut(value)?);
        }
    }
    if let (Some(place), Some((_, rate))) = (routine.find(&update.learning_rate), &update.rate) {
        table[place] = Entry::Shared(Arc::clone(rate));
    }
    // All gradients before the first lock: one parameter may be another one's gradient.
    let grads: Vec<Arc<Held>> = trained.iter().map(|(_, grad)| grad.held()).collect();
    let mut locks: Vec<_> = Vec::new();
    // In one order for everybody, so that two optimizers on two threads cannot wait for each other.
    let mut order: Vec<usize> = (0..trained.len()).collect();
    order.sort_by_key(|at| trained[*at].0.id());
    for at in order {
        let name = &kinds[at].name;
        if let Some(place) = routine.find(&grad_name(name)) {
            table[place] = Entry::Shared(Arc::clone(&grads[at]));
        }
        if let Some(place) = routine.find(name) {
            locks.push((place, trained[at].0.lock()));
        }
    }
    for (place, lock) in &mut locks {
        // A value that the tape or an array still shares is left to them.
        table[*place] = Entry::Mut(Held::make_mut(&mut lock.held)?);
    }
    update.routine.run_together(&mut table, home, step)
}
