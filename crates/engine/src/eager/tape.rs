//! The tape: one node an op that was run on tensors that want gradients.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use bireme_ir::DType;

use super::gradient::Gradient;
use super::tensor::{EagerTensor, WeakTensor};
use crate::tensor::Dims;
use crate::value::Value;

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
    /// The outputs themselves, for hooks.
    pub(super) tensors: Mutex<Vec<WeakTensor>>,
    /// Values that the gradient reads; gone after a backward pass that does not retain them.
    pub(super) saved: Mutex<Option<Saved>>,
}

/// Values of the forward op that its gradient reads.
#[derive(Clone)]
pub(super) struct Saved {
    pub(super) inputs: Vec<Option<Arc<Value>>>,
    pub(super) outputs: Vec<Option<Arc<Value>>>,
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
    pub(super) fn saved(&self, retain: bool) -> Option<Saved> {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        if retain { saved.clone() } else { saved.take() }
    }

    pub(super) fn tensor(&self, output: usize) -> Option<EagerTensor> {
        let tensors = self.tensors.lock().unwrap_or_else(PoisonError::into_inner);
        tensors.get(output)?.upgrade()
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
