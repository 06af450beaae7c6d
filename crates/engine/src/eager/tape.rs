//! The tape: one node an op that was run on tensors that want gradients.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bireme_ir::DType;

use super::gradient::Gradient;
use super::held::Held;
use super::tensor::{EagerTensor, Hook, WeakTensor};
use crate::Result;
use crate::tensor::Dims;

/// One op that was run.
pub(super) struct Node {
    /// Its type.
    pub(super) kind: &'static str,
    /// Nodes are numbered in the order they ran, so the reverse is an order for gradients.
    pub(super) number: u64,
    pub(super) backward: Backward,
    /// Where each input's gradient goes; `None` when it wants none.
    pub(super) edges: Vec<Option<Edge>>,
    /// Type and shape of each output, for gradients that nobody gave.
    pub(super) outputs: Vec<(DType, Dims)>,
    /// Who wants to see the gradient of which output.
    watches: Mutex<Vec<(usize, Watch)>>,
    /// Values that the gradient reads; gone after a backward pass that does not retain them.
    saved: Mutex<Option<Saved>>,
}

/// How the gradients of an op's inputs are computed.
pub(super) enum Backward {
    /// By its rule.
    Rule(Arc<Gradient>),
    /// By somebody else.
    Custom(Arc<dyn CustomGradient>),
    /// Not at all: a gradient op that has no gradient itself.
    Missing,
}

/// The gradient of something that is no op: of a function in another language.
pub trait CustomGradient: Send + Sync {
    /// The gradients of the inputs, from those of the outputs; nothing where one has none.
    ///
    /// # Errors
    /// When it cannot be computed; the pass ends.
    fn gradients(&self, outputs: Vec<Option<EagerTensor>>) -> Result<Vec<Option<EagerTensor>>>;
}

/// A value, and how it was computed as far as gradients know.
#[derive(Clone)]
pub(super) struct Traced {
    pub(super) held: Arc<Held>,
    /// Where its gradient goes, if it wants one.
    pub(super) edge: Option<Edge>,
}

impl Traced {
    /// A value without a past.
    pub(super) fn plain(held: Arc<Held>) -> Traced {
        Traced { held, edge: None }
    }

    /// A tensor as it is now; without its past unless that counts.
    pub(super) fn of(tensor: &EagerTensor, differentiable: bool) -> Traced {
        let state = tensor.lock();
        let wants = differentiable && !state.stop_gradient && state.held.shape().0.is_float();
        let edge = wants.then(|| match &state.origin {
            Some((node, output)) => Edge::Output(Arc::clone(node), *output),
            None => Edge::Leaf(tensor.clone()),
        });
        Traced { held: Arc::clone(&state.held), edge }
    }

    /// A tensor with this value and past.
    pub(super) fn tensor(&self) -> EagerTensor {
        match &self.edge {
            None => EagerTensor::from_held(Arc::clone(&self.held)),
            Some(Edge::Leaf(leaf)) => leaf.clone(),
            Some(Edge::Output(node, at)) => {
                let origin = Some((Arc::clone(node), *at));
                EagerTensor::with(Arc::clone(&self.held), false, origin)
            }
        }
    }
}

/// Somebody who wants to see a gradient when it is whole. Kept with the node, not the tensor: the
/// tensor may be gone, or be something else, by then.
#[derive(Clone)]
pub(super) enum Watch {
    /// A hook, with the number to remove it by.
    Hook(u64, Hook),
    /// A tensor that keeps it as its own gradient.
    Keep(WeakTensor),
}

/// Values of the forward op that its gradient reads.
#[derive(Clone)]
pub(super) struct Saved {
    pub(super) inputs: Vec<Option<Arc<Held>>>,
    pub(super) outputs: Vec<Option<Arc<Held>>>,
}

/// Where a gradient goes.
#[derive(Clone)]
pub(super) enum Edge {
    /// To a tensor that nothing computed.
    Leaf(EagerTensor),
    /// To the op that computed it, as its output of this number.
    Output(Arc<Node>, usize),
}

impl Node {
    pub(super) fn new(
        kind: &'static str,
        number: u64,
        backward: Backward,
        edges: Vec<Option<Edge>>,
        outputs: Vec<(DType, Dims)>,
        saved: Saved,
    ) -> Node {
        let (watches, saved) = (Mutex::default(), Mutex::new(Some(saved)));
        Node { kind, number, backward, edges, outputs, watches, saved }
    }

    /// Lets somebody see the gradient of an output.
    pub(super) fn watch(&self, output: usize, watch: Watch) {
        self.watches().push((output, watch));
    }

    /// Takes a hook back; the caller drops it when no lock is held, for it may be anything.
    pub(super) fn unwatch(&self, number: u64) -> Option<Watch> {
        let mut watches = self.watches();
        let is_it = |watch: &Watch| matches!(watch, Watch::Hook(known, _) if *known == number);
        let at = watches.iter().position(|(_, watch)| is_it(watch))?;
        Some(watches.remove(at).1)
    }

    /// Who wants to see the gradient of an output.
    pub(super) fn watching(&self, output: usize) -> Vec<Watch> {
        let watches = self.watches();
        let these = watches.iter().filter(|(at, _)| *at == output);
        these.map(|(_, watch)| watch.clone()).collect()
    }

    fn watches(&self) -> MutexGuard<'_, Vec<(usize, Watch)>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether gradients that arrive at this output go on from here, or are refused.
    pub(super) fn follows(&self, output: usize) -> bool {
        match &self.backward {
            Backward::Rule(gradient) => {
                gradient.reads_output_grad(output) || gradient.unread[output].is_some()
            }
            Backward::Custom(_) | Backward::Missing => self.outputs[output].0.is_float(),
        }
    }

    pub(super) fn saved(&self, retain: bool) -> Option<Saved> {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        if retain { saved.clone() } else { saved.take() }
    }
}

impl Drop for Node {
    /// A long chain of ops must not be dropped by recursion: its depth is the user's.
    fn drop(&mut self) {
        let mut chain = mem::take(&mut self.edges);
        while let Some(edge) = chain.pop() {
            if let Some(Edge::Output(node, _)) = edge
                && let Some(mut node) = Arc::into_inner(node)
            {
                chain.append(&mut node.edges);
            }
        }
    }
}
