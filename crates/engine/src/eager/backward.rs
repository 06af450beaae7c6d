//! The backward pass: from some tensors along the tape to the leaves.

use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bireme_ir::DType;
use half::{bf16, f16};

use super::collector::Collection;
use super::gradient::{Gradient, Source};
use super::held::Held;
use super::table::Entry;
use super::tape::{Backward, CustomGradient, Edge, Node, Saved, Traced, Watch};
use super::{EagerCard, EagerTensor, Form, Session};
use crate::tensor::{Dims, Element, Tensor};
use crate::{Error, Result, autodiff};

/// The gradients of a node's outputs, as far as they have come.
type Grads = Vec<Option<Traced>>;

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
    /// Whether the pass itself is put on the tape, for gradients of gradients.
    creates: bool,
    /// Where gradients are wanted, when not everywhere.
    way: Option<&'a Way>,
    /// Nodes that have received a gradient, by their number: the last one first.
    waiting: BinaryHeap<u64>,
    nodes: HashMap<u64, (Arc<Node>, Grads)>,
    /// Leaves by identity, in the order they were reached; `None` once a gradient is kept.
    leaves: Vec<(EagerTensor, Option<Traced>)>,
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
        let mut pass = Pass::start(self, roots, None, false)?;
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
    fn keep(&self, leaf: &EagerTensor, grad: Traced) -> Result<()> {
        let grad = hooked(leaf, grad, false)?.held;
        match leaf.known_grad() {
            Some(before) => {
                let total = self.add(&Traced::plain(before.held()), &Traced::plain(grad))?;
                leaf.set_grad(Some(total.tensor()));
            }
            None => leaf.set_grad(Some(EagerTensor::from_held(grad))),
        }
        Ok(())
    }

    /// The gradients of `roots` with respect to `inputs`, which may be leaves or not; no tensor's
    /// own gradient changes. `None` for an input that the roots do not depend on.
    ///
    /// With `create_graph` they can be differentiated themselves, as often as is wanted; the tape is then retained in
    /// any case.
    ///
    /// # Errors
    /// As [`Session::backward`].
    pub fn gradients(
        &self,
        roots: &[(EagerTensor, Option<EagerTensor>)],
        inputs: &[EagerTensor],
        retain_graph: bool,
        create_graph: bool,
    ) -> Result<Vec<Option<EagerTensor>>> {
        let way = Way::to(inputs, roots);
        let mut found: Vec<Option<EagerTensor>> = vec![None; inputs.len()];
        let mut pass = Pass::start(self, roots, Some(&way), create_graph)?;
        pass.run(retain_graph || create_graph, &mut |node, at, grad| {
            for place in way.outputs.get(&(node, at)).into_iter().flatten() {
                found[*place] = Some(grad.tensor());
            }
        })?;
        for (leaf, grad) in std::mem::take(&mut pass.leaves) {
            let Some(grad) = grad else { continue };
            let grad = hooked(&leaf, grad, create_graph)?;
            let same = inputs.iter().enumerate().filter(|(_, input)| input.id() == leaf.id());
            for (place, _) in same {
                found[place] = Some(grad.tensor());
            }
        }
        Ok(found)
    }

    /// The sum of two gradients, dense or of selected rows; on the tape, where they have a past.
    fn add(&self, a: &Traced, b: &Traced) -> Result<Traced> {
        let form = Form { attrs: &[], inputs: &[2], outputs: &[1] };
        let ready = self.sum.get(form, self.seed())?;
        let parts = vec![a.clone(), b.clone()];
        let sum = self.execute(self.sum.def(), &ready, parts)?.swap_remove(0);
        Ok(Traced::of(&sum, true))
    }
}

impl<'a> Pass<'a> {
    fn start(
        session: &'a Session,
        roots: &[(EagerTensor, Option<EagerTensor>)],
        way: Option<&'a Way>,
        creates: bool,
    ) -> Result<Pass<'a>> {
        let mut pass = Pass {
            session,
            creates,
            way,
            waiting: BinaryHeap::new(),
            nodes: HashMap::new(),
            leaves: Vec::new(),
            leaf_places: HashMap::new(),
            collection: None,
        };
        for (root, weight) in roots {
            let weight = match weight {
                Some(weight) => given_weight(root, weight, creates)?,
                None => Traced::plain(session.ones(one(root)?, root.held().home())),
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
    fn run(&mut self, retain: bool, see: &mut dyn FnMut(u64, usize, &Traced)) -> Result<()> {
        while let Some(number) = self.waiting.pop() {
            let Some((node, mut grads)) = self.nodes.remove(&number) else { continue };
            for (at, grad) in grads.iter_mut().enumerate() {
                let Some(value) = grad else { continue };
                show(&node, at, value, self.creates)?;
                see(number, at, value);
            }
            if self.way.is_some_and(|way| !way.nodes.contains(&number)) {
                continue;
            }
            let step = self.session.next_step();
            for (input, value) in self.pass_through(&node, retain, grads, step)? {
                let grad_of = || format!("the gradient of input {input}");
                self.session.check_finite(node.kind, &value.held, step, grad_of)?;
                if let Some(edge) = &node.edges[input] {
                    self.send(edge, value)?;
                }
            }
            self.collect(&node)?;
        }
        Ok(())
    }

    /// The gradients of a node's inputs, from those of its outputs.
    fn pass_through(
        &self,
        node: &Arc<Node>,
        retain: bool,
        grads: Grads,
        step: u64,
    ) -> Result<Vec<(usize, Traced)>> {
        let saved = node.saved(retain).ok_or_else(|| {
            Error::kernel(format!(
                "the tape of op `{}` has been used up: a second backward pass needs \
                 `retain_graph=True` in the first",
                node.kind
            ))
        })?;
        let gradient = match &node.backward {
            Backward::Rule(gradient) => gradient,
            Backward::Custom(custom) => return self.ask(&**custom, &grads),
            Backward::Missing => return Err(autodiff::no_gradient_of(node.kind)),
        };
        let given = || grads.iter().enumerate().filter(|(_, grad)| grad.is_some());
        let mut parts: Vec<&Gradient> = Vec::new();
        if given().any(|(at, _)| gradient.unread[at].is_none()) {
            parts.push(gradient);
        }
        for (at, slot) in given().filter_map(|(at, _)| Some((at, gradient.unread[at]?))) {
            let side = gradient.side(at);
            parts.push(side.ok_or_else(|| autodiff::no_gradient_through(node.kind, slot, ""))?);
        }
        let mut found = Vec::new();
        for part in parts {
            found.extend(match self.creates {
                true => differentiate_traced(self.session, node, part, &saved, &grads)?,
                false => differentiate(node, part, &saved, &grads, step)?,
            });
        }
        Ok(found)
    }

    /// The gradients that somebody else computes.
    fn ask(&self, custom: &dyn CustomGradient, grads: &Grads) -> Result<Vec<(usize, Traced)>> {
        let given = grads.iter().map(|grad| grad.as_ref().map(Traced::tensor)).collect();
        let before = self.session.set_grad_enabled(self.creates);
        let found = custom.gradients(given);
        self.session.set_grad_enabled(before);
        let found = found?.into_iter().enumerate();
        Ok(found.filter_map(|(at, grad)| Some((at, Traced::of(&grad?, self.creates)))).collect())
    }

    fn send(&mut self, edge: &Edge, value: Traced) -> Result<()> {
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
    gradient: &Gradient,
    saved: &Saved,
    grads: &Grads,
    step: u64,
) -> Result<Vec<(usize, Traced)>> {
    let home = home_of(saved, grads);
    let mut table: Vec<Entry<'_>> = (0..gradient.routine.len()).map(|_| Entry::Empty).collect();
    for (place, source) in &gradient.sources {
        table[*place] = Entry::Shared(match source {
            Source::Input(at) => saved_value(&saved.inputs, *at)?,
            Source::Output(at) => saved_value(&saved.outputs, *at)?,
            Source::OutputGrad(at) => match &grads[*at] {
                Some(grad) => Arc::clone(&grad.held),
                None => zeros(node.outputs[*at], home.as_ref())?,
            },
        });
    }
    gradient.routine.run_held(&mut table, home.as_ref(), step)?;
    let mut result = |(input, place): &(usize, usize)| {
        let Entry::Shared(held) = &table[*place] else { return None };
        Some((*input, Traced::plain(Arc::clone(held))))
    };
    Ok(gradient.results.iter().filter_map(&mut result).collect())
}

/// As [`differentiate`], by ops that are put on the tape themselves.
fn differentiate_traced(
    session: &Session,
    node: &Arc<Node>,
    gradient: &Gradient,
    saved: &Saved,
    grads: &Grads,
) -> Result<Vec<(usize, Traced)>> {
    let home = home_of(saved, grads);
    let mut table: Vec<Option<Traced>> = vec![None; gradient.routine.len()];
    for (place, source) in &gradient.sources {
        table[*place] = Some(match source {
            Source::Input(at) => {
                Traced { held: saved_value(&saved.inputs, *at)?, edge: node.edges[*at].clone() }
            }
            Source::Output(at) => Traced {
                held: saved_value(&saved.outputs, *at)?,
                edge: node.follows(*at).then(|| Edge::Output(Arc::clone(node), *at)),
            },
            Source::OutputGrad(at) => match &grads[*at] {
                Some(grad) => grad.clone(),
                None => Traced::plain(zeros(node.outputs[*at], home.as_ref())?),
            },
        });
    }
    for step in gradient.steps()? {
        let read = step.inputs.iter().map(|place| table[*place].clone());
        let inputs = read.collect::<Option<Vec<Traced>>>();
        let inputs =
            inputs.ok_or_else(|| Error::kernel("a gradient op reads what nobody wrote"))?;
        let made = session.execute(step.def, &step.ready, inputs)?;
        for (place, tensor) in step.outputs.iter().zip(made) {
            table[*place] = Some(Traced::of(&tensor, true));
        }
    }
    let result = |(input, place): &(usize, usize)| Some((*input, table[*place].clone()?));
    Ok(gradient.results.iter().filter_map(result).collect())
}

fn home_of(saved: &Saved, grads: &Grads) -> Option<Arc<EagerCard>> {
    let given = grads.iter().flatten().map(|grad| &grad.held);
    let mut known = saved.inputs.iter().chain(&saved.outputs).flatten().chain(given);
    known.find_map(|held| held.home().cloned())
}

fn saved_value(values: &[Option<Arc<Held>>], at: usize) -> Result<Arc<Held>> {
    let found = values.get(at).and_then(Option::as_ref).map(Arc::clone);
    found.ok_or_else(|| Error::kernel("a gradient reads a value that was not kept"))
}

fn zeros((dtype, dims): (DType, Dims), home: Option<&Arc<EagerCard>>) -> Result<Arc<Held>> {
    Ok(Arc::new(match home {
        Some(card) => card.zeros(dtype, dims)?,
        None => Held::new(Tensor::zeros(dtype, dims)),
    }))
}

/// Lets the hooks of a leaf see its gradient.
fn hooked(leaf: &EagerTensor, mut grad: Traced, creates: bool) -> Result<Traced> {
    for hook in leaf.hooks() {
        if let Some(other) = hook(grad.tensor())? {
            check_weight(leaf.shape(), &other)?;
            grad = Traced::of(&other, creates);
        }
    }
    Ok(grad)
}

/// Lets those who watch an output see its gradient.
fn show(node: &Node, output: usize, grad: &mut Traced, creates: bool) -> Result<()> {
    for watch in node.watching(output) {
        let shown = grad.tensor();
        match watch {
            Watch::Hook(_, hook) => {
                if let Some(other) = hook(shown)? {
                    check_weight(node.outputs[output], &other)?;
                    *grad = Traced::of(&other, creates);
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

fn given_weight(root: &EagerTensor, weight: &EagerTensor, creates: bool) -> Result<Traced> {
    check_weight(root.shape(), weight)?;
    Ok(Traced::of(weight, creates))
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
