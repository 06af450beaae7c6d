//! The tape: one node an op that was run on tensors that want gradients.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bireme_ir::DType;

use super::gradient::Gradient;
use super::held::Held;
use super::tensor::{EagerTensor, Hook, WeakTensor};
use crate::tensor::Dims;

/// One op that was run.
pub(super) struct Node {
    /// Its type.
    pub(super) kind: &'static str,
    /// Nodes are numbered in the order they ran, so the reverse is an order for gradients.
    pub(super) number: u64,
    pub(super) gradient: Arc<Gradient>,
    /// Where each input's gradient goes; `None` when it wants none.
    pub(super) edges: Vec<Option<Edge>>,
    /// Type and shape of each output, for gradients that nobody gave.
    pub(super) outputs: Vec<(DType, Dims)>,
    /// Who wants to see the gradient of which output.
    watches: Mutex<Vec<(usize, Watch)>>,
    /// Values that the gradient reads; gone after a backward pass that does not retain them.
    saved: Mutex<Option<Saved>>,
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
        gradient: Arc<Gradient>,
        edges: Vec<Option<Edge>>,
        outputs: Vec<(DType, Dims)>,
        saved: Saved,
    ) -> Node {
        let (watches, saved) = (Mutex::default(), Mutex::new(Some(saved)));
        Node { kind, number, gradient, edges, outputs, watches, saved }
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
