//! [`Reducer`]: averages the gradients of a model over the ranks while the backward pass goes on.
//!
//! The pass hands over each gradient as soon as it is whole. When all of a bucket are there, and
//! the buckets before it have left, the bucket is given to the group's own thread; the end of the
//! pass waits for all and puts the averages where the gradients were. So every rank sends the same
//! buckets in the same order, whatever the order in which its gradients became known. The last ones
//! have nothing left to travel beside: they go on the thread that waits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bireme_collective::{Group, Pending};
use bireme_engine::eager::{Collector, EagerTensor, Held, Session};
use bireme_engine::tensor::{SelectedRows, Tensor};
use bireme_engine::{Error, Result, Value};

use super::buckets::{Bucket, Limits, Size, buckets};
use super::on_cards::OnCards;
use super::rows;
use super::tensors::{self, Reduction, remote};

/// A parameter whose gradient is averaged.
pub struct Parameter {
    /// The parameter itself.
    pub tensor: EagerTensor,
    /// Whether its gradient is some rows of a table.
    pub is_sparse: bool,
}

/// Averages the gradients of some parameters over the ranks of a group.
pub struct Reducer {
    group: Group,
    parameters: Vec<Parameter>,
    buckets: Vec<Bucket>,
    /// The bucket of each parameter.
    places: Vec<usize>,
    /// Whether a pass may lead to some of the parameters only.
    find_unused: bool,
    /// The cards, where they exchange among themselves.
    cards: Option<OnCards>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether the next passes are averaged.
    is_armed: bool,
    /// Whether the pass that runs is.
    is_active: bool,
    /// Parameters whose gradient is whole, in this pass.
    ready: Vec<bool>,
    /// Parameters that have a gradient of this pass.
    used: Vec<bool>,
    /// How many gradients each bucket waits for.
    missing: Vec<usize>,
    /// The bucket that leaves next.
    next: usize,
    flights: Vec<Flight>,
    /// The memory of buckets with several members, for the next pass.
    flat: Vec<Option<Tensor>>,
}

/// What a bucket carries.
enum Load {
    /// The gradient of its only member.
    Whole(Tensor),
    /// The gradients of its members, one after the other.
    Flat(Tensor),
    /// Rows of its only member.
    Rows(SelectedRows),
}

/// A bucket that has left.
enum Flight {
    /// On the group's own thread.
    Started(Pending<Result<Load>>),
    /// Goes when it is waited for.
    Here(Load),
    /// From card to card: the gradients are averages as soon as the card has come so far.
    OnCards,
}

impl Flight {
    /// What came of it; nothing where the gradients are in their places already.
    fn land(self, group: &Group) -> Result<Option<Load>> {
        match self {
            Flight::Started(pending) => pending.wait().map_err(remote)?.map(Some),
            Flight::Here(load) => travel(group, load).map(Some),
            Flight::OnCards => Ok(None),
        }
    }
}

impl Reducer {
    /// Averages the gradients of `parameters` from now on, in the passes that [`Reducer::arm`]
    /// announces. The parameters are the same, in the same order, on every rank.
    pub fn new(
        session: &Session,
        group: Group,
        parameters: Vec<Parameter>,
        limits: Limits,
        find_unused: bool,
        cards: Option<OnCards>,
    ) -> Arc<Reducer> {
        let sizes: Vec<Size> = parameters
            .iter()
            .map(|parameter| {
                let dtype = parameter.tensor.dtype();
                let bytes = parameter.tensor.dims().numel() * dtype.size();
                Size { dtype, bytes, is_sparse: parameter.is_sparse }
            })
            .collect();
        let buckets = buckets(&sizes, limits);
        let mut places = vec![0; parameters.len()];
        for (at, bucket) in buckets.iter().enumerate() {
            bucket.members.iter().for_each(|member| places[*member] = at);
        }
        let flat = buckets.iter().map(|_| None).collect();
        let state = Mutex::new(State { flat, ..State::default() });
        let reducer = Reducer { group, parameters, buckets, places, find_unused, cards, state };
        let reducer = Arc::new(reducer);
        for (member, parameter) in reducer.parameters.iter().enumerate() {
            let collector = Arc::clone(&reducer) as Arc<dyn Collector>;
            session.collect(&parameter.tensor, collector, member);
        }
        reducer
    }

    /// Says whether backward passes are averaged from now on.
    pub fn arm(&self, armed: bool) {
        self.lock().is_armed = armed;
    }

    /// How many buckets there are.
    pub fn bucket_count(&self) -> usize {
        self.buckets.len()
    }

    /// Lets go of the parameters.
    pub fn release(&self, session: &Session) {
        for parameter in &self.parameters {
            session.stop_collecting(&parameter.tensor);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every pass starts with a fresh state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a gradient is whole, and sends off the buckets that are complete.
    fn note(&self, state: &mut State, member: usize, is_used: bool) -> Result<()> {
        if std::mem::replace(&mut state.ready[member], true) {
            return Ok(());
        }
        state.used[member] = is_used;
        state.missing[self.places[member]] -= 1;
        while state.missing.get(state.next) == Some(&0) {
            if self.goes_by_cards(state.next) {
                self.average_on_cards(state.next)?;
                state.next += 1;
                state.flights.push(Flight::OnCards);
                continue;
            }
            let load = self.load(state, state.next)?;
            state.next += 1;
            // When the last gradient is known nothing is left to compute meanwhile.
            let is_last = state.missing.iter().all(|missing| *missing == 0);
            state.flights.push(if is_last {
                Flight::Here(load)
            } else {
                Flight::Started(self.group.start(move |group| Ok(travel(group, load))))
            });
        }
        Ok(())
    }

    /// Whether a bucket goes from card to card: rows do not, for ranks have different numbers of them.
    fn goes_by_cards(&self, at: usize) -> bool {
        let bucket = &self.buckets[at];
        let takes = |cards: &OnCards| {
            bucket.members.iter().all(|member| cards.takes(&self.parameters[*member].tensor))
        };
        !bucket.is_sparse && self.cards.as_ref().is_some_and(takes)
    }

    /// Has the cards average the gradients of a bucket, each where it lies.
    fn average_on_cards(&self, at: usize) -> Result<()> {
        let Some(cards) = &self.cards else { return Ok(()) };
        for member in &self.buckets[at].members {
            let parameter = &self.parameters[*member];
            if parameter.tensor.grad().is_none() {
                set_grad(parameter, no_gradient(parameter));
            }
            if let Some(grad) = parameter.tensor.grad()
                && !cards.all_reduce(&grad, Reduction::Average)?
            {
                return Err(Error::kernel("a gradient lies elsewhere than its parameter"));
            }
        }
        Ok(())
    }

    /// The gradients of a bucket; those of one member are taken, not copied.
    fn load(&self, state: &mut State, at: usize) -> Result<Load> {
        let bucket = &self.buckets[at];
        if let [member] = bucket.members[..] {
            let parameter = &self.parameters[member];
            let value = match parameter.tensor.grad() {
                Some(grad) => grad.take_value()?,
                None => no_gradient(parameter),
            };
            return match (value, bucket.is_sparse) {
                (Value::Tensor(tensor), false) => Ok(Load::Whole(tensor)),
                (Value::Rows(rows), false) => Ok(Load::Whole(rows.to_dense()?)),
                (Value::Rows(rows), true) => Ok(Load::Rows(rows)),
                (Value::Tensor(tensor), true) => Ok(Load::Rows(all_rows(tensor))),
            };
        }
        let total: usize =
            bucket.members.iter().map(|m| self.parameters[*m].tensor.dims().numel()).sum();
        let dtype = self.parameters[bucket.members[0]].tensor.dtype();
        let mut flat = state.flat[at].take().unwrap_or_else(|| Tensor::zeros(dtype, [total]));
        let mut rest = flat.as_mut_bytes();
        for member in &bucket.members {
            let parameter = &self.parameters[*member];
            let bytes = parameter.tensor.dims().numel() * dtype.size();
            let (here, next) = rest.split_at_mut(bytes);
            match parameter.tensor.grad().map(|grad| grad.value()).transpose()? {
                Some(grad) => match &*grad {
                    Value::Tensor(grad) => here.copy_from_slice(grad.as_bytes()),
                    Value::Rows(rows) => here.copy_from_slice(rows.to_dense()?.as_bytes()),
                },
                None => here.fill(0),
            }
            rest = next;
        }
        Ok(Load::Flat(flat))
    }

    /// Puts averages where the gradients were.
    fn unload(&self, state: &mut State, at: usize, load: Load) -> Result<()> {
        let bucket = &self.buckets[at];
        let flat = match load {
            Load::Whole(tensor) => {
                set_grad(&self.parameters[bucket.members[0]], tensor.into());
                return Ok(());
            }
            Load::Rows(rows) => {
                set_grad(&self.parameters[bucket.members[0]], Value::Rows(rows));
                return Ok(());
            }
            Load::Flat(flat) => flat,
        };
        let mut rest = flat.as_bytes();
        for member in &bucket.members {
            let parameter = &self.parameters[*member];
            let (dtype, dims) = (parameter.tensor.dtype(), parameter.tensor.dims());
            let (here, next) = rest.split_at(dims.numel() * dtype.size());
            rest = next;
            // In the gradient's own memory, unless somebody else looks at it.
            let grad = parameter.tensor.grad();
            let old = grad.map(|grad| grad.take_value()).transpose()?;
            let mut tensor = match old {
                Some(Value::Tensor(tensor)) if tensor.dims() == dims => tensor,
                _ => Tensor::zeros(dtype, dims),
            };
            tensor.as_mut_bytes().copy_from_slice(here);
            set_grad(parameter, tensor.into());
        }
        state.flat[at] = Some(flat);
        Ok(())
    }

    /// Forgets the gradients of parameters that no rank has used.
    fn forget_unused(&self, state: &State, before: &[bool]) -> Result<()> {
        let mut used: Vec<u8> =
            state.used.iter().zip(before).map(|(used, had)| u8::from(*used || *had)).collect();
        let exchanged = self.group.start(move |group| {
            group.all_reduce(&mut used, bireme_collective::Reduce::Max)?;
            Ok(used)
        });
        for (parameter, used) in self.parameters.iter().zip(exchanged.wait().map_err(remote)?) {
            if used == 0 {
                parameter.tensor.set_grad(None);
            }
        }
        Ok(())
    }

    fn unused(&self, members: impl Iterator<Item = usize>) -> Error {
        let names: Vec<String> = members
            .map(|member| match self.parameters[member].tensor.name() {
                Some(name) => format!("`{name}`"),
                None => format!("number {member}"),
            })
            .collect();
        Error::kernel(format!(
            "the loss does not depend on parameter {}: pass `find_unused_parameters=True` to \
             `DataParallel` if that is meant",
            names.join(", ")
        ))
    }
}

impl Collector for Reducer {
    fn begin(&self, members: &[usize]) -> Result<()> {
        let mut state = self.lock();
        state.is_active = state.is_armed;
        if !state.is_active {
            return Ok(());
        }
        let count = self.parameters.len();
        (state.ready, state.used) = (vec![false; count], vec![false; count]);
        state.missing = self.buckets.iter().map(|bucket| bucket.members.len()).collect();
        state.next = 0;
        state.flights.clear();
        if members.len() == count {
            return Ok(());
        }
        let unreached: Vec<usize> =
            (0..count).filter(|member| members.binary_search(member).is_err()).collect();
        if !self.find_unused {
            return Err(self.unused(unreached.into_iter()));
        }
        // At once, so that buckets do not wait for what will not come.
        unreached.into_iter().try_for_each(|member| self.note(&mut state, member, false))
    }

    fn ready(&self, member: usize) -> Result<()> {
        let mut state = self.lock();
        if !state.is_active { Ok(()) } else { self.note(&mut state, member, true) }
    }

    fn end(&self, whole: bool) -> Result<()> {
        let mut state = self.lock();
        if !std::mem::take(&mut state.is_active) {
            return Ok(());
        }
        if !whole {
            self.abandon(&mut state);
            return Ok(());
        }
        let ended = self.finish(&mut state);
        if ended.is_err() {
            self.abandon(&mut state);
        }
        ended
    }
}

impl Reducer {
    /// Forgets the gradients that are on their way.
    fn abandon(&self, state: &mut State) {
        state.flights.clear();
        for bucket in &self.buckets[..state.next] {
            if let [member] = bucket.members[..] {
                self.parameters[member].tensor.set_grad(None);
            }
        }
    }

    /// Waits for the averages.
    fn finish(&self, state: &mut State) -> Result<()> {
        let late: Vec<usize> = (0..state.ready.len()).filter(|at| !state.ready[*at]).collect();
        if !late.is_empty() && !self.find_unused {
            return Err(self.unused(late.into_iter()));
        }
        // A gradient of earlier passes is averaged with the rest, and stays.
        let had = |parameter: &Parameter| parameter.tensor.grad().is_some();
        let before: Vec<bool> = self.parameters.iter().map(had).collect();
        late.into_iter().try_for_each(|member| self.note(state, member, false))?;
        for (at, flight) in std::mem::take(&mut state.flights).into_iter().enumerate() {
            if let Some(load) = flight.land(&self.group)? {
                self.unload(state, at, load)?;
            }
        }
        if self.find_unused { self.forget_unused(state, &before) } else { Ok(()) }
    }
}

/// What a bucket does on the group's thread.
fn travel(group: &Group, load: Load) -> Result<Load> {
    Ok(match load {
        Load::Whole(mut tensor) => {
            tensors::all_reduce(group, &mut tensor, Reduction::Average)?;
            Load::Whole(tensor)
        }
        Load::Flat(mut tensor) => {
            tensors::all_reduce(group, &mut tensor, Reduction::Average)?;
            Load::Flat(tensor)
        }
        Load::Rows(rows) => Load::Rows(rows::average(group, &rows)?),
    })
}

fn set_grad(parameter: &Parameter, value: Value) {
    match parameter.tensor.grad() {
        Some(grad) => drop(grad.replace_on_host(value)),
        None => {
            let home = parameter.tensor.held().home().cloned();
            parameter.tensor.set_grad(Some(EagerTensor::from_held(Held::at(value, home))));
        }
    }
}

/// The gradient of a parameter that the loss does not depend on.
fn no_gradient(parameter: &Parameter) -> Value {
    let (dtype, dims) = (parameter.tensor.dtype(), parameter.tensor.dims());
    if parameter.is_sparse {
        let value = Tensor::zeros(dtype, dims.with_rows(0));
        return Value::Rows(SelectedRows { rows: Vec::new(), value, height: dims[0] });
    }
    Tensor::zeros(dtype, dims).into()
}

/// A dense gradient of a table as rows: all of them.
fn all_rows(value: Tensor) -> SelectedRows {
    let height = value.rows();
    SelectedRows { rows: (0..height as i64).collect(), value, height }
}

#[cfg(test)]
mod tests;
