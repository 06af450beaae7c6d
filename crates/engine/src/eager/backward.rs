//! The backward pass: from some tensors along the tape to the leaves.

use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bireme_ir::DType;
use half::{bf16, f16};

use super::collector::Collection;
use super::gradient::Source;
use super::held::Held;
use super::table::Entry;
use super::tape::{Edge, Node, Saved, Watch};
use super::{EagerTensor, Form, Session};
use crate::tensor::{Dims, Element, Tensor};
use crate::{Error, Result, autodiff};

/// The gradients of a node's outputs, as far as they have come.
type Grads = Vec<Option<Arc<Held>>>;

/// The part of the tape that leads from some roots to some inputs.
struct Way {
    /// Inputs that an op computed, as its output, with their places in the list of inputs.
    outputs: HashMap<(u64, usize), Vec<usize>>,
    /// Inputs that nothing computed.
    leaves: HashSet<usize>,
    /// Nodes on the way, by number.
    nodes: HashSet<u64>,
}

/// Gradients on their way.
struct Pass<'a> {
    session: &'a Session,
    /// Where gradients are wanted, when not everywhere.
    way: Option<&'a Way>,
    /// Nodes that have received a gradient, by their number: the last one first.
    waiting: BinaryHeap<u64>,
    nodes: HashMap<u64, (Arc<Node>, Grads)>,
    /// Leaves by identity, in the order they were reached; `None` once a gradient is kept.
    leaves: Vec<(EagerTensor, Option<Arc<Held>>)>,
    leaf_places: HashMap<usize, usize>,
    /// The collectors of leaves, where there are any.
    collection: Option<Collection>,
}

impl Session {
    /// Adds the gradients of `roots` to the leaves they depend on. A root without a weight counts
    /// with 1 in every element.
    ///
    /// # Errors
    /// When a root does not depend on anything that wants a gradient, or its tape has been used up.
    pub fn backward(
        &self,
        roots: &[(EagerTensor, Option<EagerTensor>)],
        retain_graph: bool,
    ) -> Result<()> {
        let mut pass = Pass::start(self, roots, None)?;
        if self.collects.load(Ordering::Relaxed) {
            pass.collection = Collection::of(roots);
        }
        let Some(collection) = &pass.collection else { return pass.finish(retain_graph) };
        let collectors = collection.collectors().to_vec();
        let outcome = collection.begin().and_then(|()| pass.finish(retain_graph));
        // Each is told, also when another one fails: it waits for other processes.
        let ends: Vec<Result<()>> =
            collectors.iter().map(|collector| collector.end(outcome.is_ok())).collect();
        outcome?;
        ends.into_iter().collect()
    }

    /// Adds a whole gradient to what a leaf has.
    fn keep(&self, leaf: &EagerTensor, grad: Arc<Held>) -> Result<()> {
        let grad = hooked(leaf, grad)?;
        match leaf.known_grad() {
            Some(before) => {
                let total = self.add(&before.held(), &grad)?;
                leaf.set_grad(Some(EagerTensor::from_held(total)));
            }
            None => leaf.set_grad(Some(EagerTensor::from_held(grad))),
        }
        Ok(())
    }

    /// The gradients of `roots` with respect to `inputs`, which may be leaves or not; no tensor's
    /// own gradient changes. `None` for an input that the roots do not depend on.
    ///
    /// # Errors
    /// As [`Session::backward`].
    pub fn gradients(
        &self,
        roots: &[(EagerTensor, Option<EagerTensor>)],
        inputs: &[EagerTensor],
        retain_graph: bool,
    ) -> Result<Vec<Option<EagerTensor>>> {
        let way = Way::to(inputs, roots);
        let mut found: Vec<Option<EagerTensor>> = vec![None; inputs.len()];
        let mut pass = Pass::start(self, roots, Some(&way))?;
        pass.run(retain_graph, &mut |node, at, grad| {
            for place in way.outputs.get(&(node, at)).into_iter().flatten() {
                found[*place] = Some(EagerTensor::from_held(Arc::clone(grad)));
            }
        })?;
        for (leaf, grad) in std::mem::take(&mut pass.leaves) {
            let Some(grad) = grad else { continue };
            let grad = hooked(&leaf, grad)?;
            let same = inputs.iter().enumerate().filter(|(_, input)| input.id() == leaf.id());
            for (place, _) in same {
                found[place] = Some(EagerTensor::from_held(Arc::clone(&grad)));
            }
        }
        Ok(found)
    }

    /// The sum of two gradients, dense or of selected rows.
    fn add(&self, a: &Arc<Held>, b: &Arc<Held>) -> Result<Arc<Held>> {
        let form = Form { attrs: &[], inputs: &[2], outputs: &[1] };
        let parts = [EagerTensor::from_held(Arc::clone(a)), EagerTensor::from_held(Arc::clone(b))];
        Ok(self.apply(&self.sum, form, &parts)?.swap_remove(0).held())
    }
}

impl<'a> Pass<'a> {
    fn start(
        session: &'a Session,
        roots: &[(EagerTensor, Option<EagerTensor>)],
        way: Option<&'a Way>,
    ) -> Result<Pass<'a>> {
        let mut pass = Pass {
            session,
            way,
            waiting: BinaryHeap::new(),
            nodes: HashMap::new(),
            leaves: Vec::new(),
            leaf_places: HashMap::new(),
            collection: None,
        };
        for (root, weight) in roots {
            let weight = match weight {
                Some(weight) => given_weight(root, weight)?,
                None => session.ones(one(root)?, root.held().home()),
            };
            let origin = root.lock().origin.clone();
            if root.stop_gradient() {
                return Err(Error::kernel(
                    "a tensor with `stop_gradient` has no gradient: it depends on no tensor that \
                     wants one, or was computed without a tape (`no_grad`)",
                ));
            }
            pass.send(
                &match origin {
                    Some((node, at)) => Edge::Output(node, at),
                    None => Edge::Leaf(root.clone()),
                },
                weight,
            )?;
        }
        Ok(pass)
    }

    /// Runs the whole pass, and keeps the gradients of the leaves.
    fn finish(&mut self, retain_graph: bool) -> Result<()> {
        self.run(retain_graph, &mut |_, _, _| {})?;
        for place in 0..self.leaves.len() {
            self.keep(place)?;
        }
        Ok(())
    }

    /// Keeps the gradient of a leaf, which is whole, unless that has been done.
    fn keep(&mut self, place: usize) -> Result<()> {
        let (leaf, grad) = &mut self.leaves[place];
        let Some(grad) = grad.take() else { return Ok(()) };
        self.session.keep(leaf, grad)?;
        match &self.collection {
            Some(collection) => collection.ready(leaf),
            None => Ok(()),
        }
    }

    /// Keeps the gradients of those leaves that no node is left to add to, now that `node` has run.
    fn collect(&mut self, node: &Node) -> Result<()> {
        let Some(collection) = &mut self.collection else { return Ok(()) };
        for leaf in collection.passed(node) {
            if let Some(place) = self.leaf_places.get(&leaf) {
                self.keep(*place)?;
            }
        }
        Ok(())
    }

    /// Runs the gradients of all nodes, last first, and shows each output's gradient to `see`.
    fn run(&mut self, retain: bool, see: &mut dyn FnMut(u64, usize, &Arc<Held>)) -> Result<()> {
        while let Some(number) = self.waiting.pop() {
            let Some((node, mut grads)) = self.nodes.remove(&number) else { continue };
            for (at, grad) in grads.iter_mut().enumerate() {
                let Some(value) = grad else { continue };
                show(&node, at, value)?;
                see(number, at, value);
            }
            if self.way.is_some_and(|way| !way.nodes.contains(&number)) {
                continue;
            }
            let mut outputs = node.gradient.unread.iter().zip(&grads);
            let refused = outputs.find_map(|(slot, grad)| slot.filter(|_| grad.is_some()));
            if let Some(slot) = refused {
                return Err(autodiff::no_gradient_through(node.kind, slot, ""));
            }
            let saved = node.saved(retain).ok_or_else(|| {
                Error::kernel(format!(
                    "the tape of op `{}` has been used up: a second backward pass needs \
                     `retain_graph=True` in the first",
                    node.kind
                ))
            })?;
            let step = self.session.next_step();
            for (input, value) in differentiate(&node, &saved, &grads, step)? {
                let grad_of = || format!("the gradient of input {input}");
                self.session.check_finite(node.kind, &value, step, grad_of)?;
                if let Some(edge) = &node.edges[input] {
                    self.send(edge, value)?;
                }
            }
            self.collect(&node)?;
        }
        Ok(())
    }

    fn send(&mut self, edge: &Edge, value: Arc<Held>) -> Result<()> {
        if self.way.is_some_and(|way| !way.wants(edge)) {
            return Ok(());
        }
        match edge {
            Edge::Leaf(leaf) => {
                let next = self.leaves.len();
                let place = *self.leaf_places.entry(leaf.id()).or_insert(next);
                if place == next {
                    self.leaves.push((leaf.clone(), Some(value)));
                } else {
                    let grad = &mut self.leaves[place].1;
                    *grad = Some(match grad.take() {
                        Some(before) => self.session.add(&before, &value)?,
                        None => value,
                    });
                }
            }
            Edge::Output(node, at) => {
                let (_, grads) = self.nodes.entry(node.number).or_insert_with(|| {
                    self.waiting.push(node.number);
                    (Arc::clone(node), vec![None; node.outputs.len()])
                });
                grads[*at] = Some(match &grads[*at] {
                    Some(before) => self.session.add(before, &value)?,
                    None => value,
                });
            }
        }
        Ok(())
    }
}

impl Way {
    fn to(inputs: &[EagerTensor], roots: &[(EagerTensor, Option<EagerTensor>)]) -> Way {
        let mut way =
            Way { outputs: HashMap::new(), leaves: HashSet::new(), nodes: HashSet::new() };
        for (place, input) in inputs.iter().enumerate() {
            match &input.lock().origin {
                Some((node, at)) => way.outputs.entry((node.number, *at)).or_default().push(place),
                None => drop(way.leaves.insert(input.id())),
            }
        }
        // In the order they ran: what a node depends on comes before it.
        for (number, node) in reachable(roots) {
            if node.edges.iter().flatten().any(|edge| way.wants(edge)) {
                way.nodes.insert(number);
            }
        }
        way
    }

    fn wants(&self, edge: &Edge) -> bool {
        match edge {
            Edge::Leaf(leaf) => self.leaves.contains(&leaf.id()),
            Edge::Output(node, at) => {
                self.nodes.contains(&node.number) || self.outputs.contains_key(&(node.number, *at))
            }
        }
    }
}

/// The nodes that some tensors depend on, by number.
pub(super) fn reachable(roots: &[(EagerTensor, Option<EagerTensor>)]) -> BTreeMap<u64, Arc<Node>> {
    let mut reached: BTreeMap<u64, Arc<Node>> = BTreeMap::new();
    let origins = roots.iter().filter_map(|(root, _)| root.lock().origin.clone());
    let mut next: Vec<Arc<Node>> = origins.map(|(node, _)| node).collect();
    while let Some(node) = next.pop() {
        if reached.insert(node.number, Arc::clone(&node)).is_none() {
            next.extend(node.edges.iter().flatten().filter_map(|edge| match edge {
                Edge::Output(node, _) => Some(Arc::clone(node)),
                Edge::Leaf(_) => None,
            }));
        }
    }
    reached
}

/// The gradients of a node's inputs.
fn differentiate(
    node: &Node,
    saved: &Saved,
    grads: &[Option<Arc<Held>>],
    step: u64,
) -> Result<Vec<(usize, Arc<Held>)>> {
    let gradient = &node.gradient;
    let known = saved.inputs.iter().chain(&saved.outputs).chain(grads).flatten();
    let home = known.into_iter().find_map(|held| held.home().cloned());
    let mut table: Vec<Entry<'_>> = (0..gradient.routine.len()).map(|_| Entry::Empty).collect();
    for (place, source) in &gradient.sources {
        table[*place] = Entry::Shared(match source {
            Source::Input(at) => Arc::clone(saved.inputs[*at].as_ref().expect("saved when it ran")),
            Source::Output(at) => {
                Arc::clone(saved.outputs[*at].as_ref().expect("saved when it ran"))
            }
            Source::OutputGrad(at) => match &grads[*at] {
                Some(grad) => Arc::clone(grad),
                None => {
                    let (dtype, dims) = node.outputs[*at];
                    Arc::new(match &home {
                        Some(card) => card.zeros(dtype, dims)?,
                        None => Held::new(Tensor::zeros(dtype, dims)),
                    })
                }
            },
        });
    }
    gradient.routine.run_held(&mut table, home.as_ref(), step)?;
    let mut result = |(input, place): &(usize, usize)| {
        let Entry::Shared(held) = &table[*place] else { return None };
        Some((*input, Arc::clone(held)))
    };
    Ok(gradient.results.iter().filter_map(&mut result).collect())
}

/// Lets the hooks of a leaf see its gradient.
fn hooked(leaf: &EagerTensor, mut grad: Arc<Held>) -> Result<Arc<Held>> {
    for hook in leaf.hooks() {
        if let Some(other) = hook(EagerTensor::from_held(Arc::clone(&grad)))? {
            check_weight(leaf.shape(), &other)?;
            grad = other.held();
        }
    }
    Ok(grad)
}

/// Lets those who watch an output see its gradient.
fn show(node: &Node, output: usize, grad: &mut Arc<Held>) -> Result<()> {
    for watch in node.watching(output) {
        let shown = EagerTensor::from_held(Arc::clone(grad));
        match watch {
            Watch::Hook(_, hook) => {
                if let Some(other) = hook(shown)? {
                    check_weight(node.outputs[output], &other)?;
                    *grad = other.held();
                }
            }
            Watch::Keep(tensor) => {
                if let Some(tensor) = tensor.upgrade() {
                    tensor.set_grad(Some(shown));
                }
            }
        }
    }
    Ok(())
}

fn given_weight(root: &EagerTensor, weight: &EagerTensor) -> Result<Arc<Held>> {
    check_weight(root.shape(), weight)?;
    Ok(weight.held())
}

fn check_weight(mine: (DType, Dims), weight: &EagerTensor) -> Result<()> {
    let theirs = weight.shape();
    if mine == theirs {
        return Ok(());
    }
    Err(Error::kernel(format!(
        "the gradient of a {} tensor of shape {} cannot be {} of shape {}",
        mine.0, mine.1, theirs.0, theirs.1
    )))
}

/// The weight of a root that has none: 1, as Paddle gives every element of it.
fn one(root: &EagerTensor) -> Result<Tensor> {
    let (dtype, dims) = root.shape();
    let mut ones = Tensor::zeros(dtype, dims);
    crate::dispatch!(dtype, T in [f32, f64, f16, bf16] => {
        ones.as_mut_slice::<T>()?.fill(T::from_f64(1.0));
        Ok(ones)
    }, else => Err(Error::kernel(format!("gradients are floats, not {dtype}"))))
}
