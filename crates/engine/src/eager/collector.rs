//! Collectors: who wants the gradients of some leaves as soon as each is whole, while the backward
//! pass goes on. Data parallel training sends them to other processes meanwhile.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::backward::reachable;
use super::tape::{Edge, Node};
use super::{EagerTensor, Session};
use crate::Result;

/// Somebody who collects the gradients of certain leaves, its members.
pub trait Collector: Send + Sync {
    /// A backward pass begins; it leads to these members.
    ///
    /// # Errors
    /// When the pass must not run.
    fn begin(&self, members: &[usize]) -> Result<()>;

    /// The gradient of a member is whole, and kept with it.
    ///
    /// # Errors
    /// When it cannot be collected; the pass ends.
    fn ready(&self, member: usize) -> Result<()>;

    /// The pass is over; `whole` unless it failed.
    ///
    /// # Errors
    /// When what was collected is of no use.
    fn end(&self, whole: bool) -> Result<()>;
}

/// A leaf's place with its collector.
#[derive(Clone)]
pub(super) struct Collected {
    collector: Arc<dyn Collector>,
    member: usize,
}

impl Session {
    /// Lets `collector` have the gradients of `leaf`, as its member of this number.
    pub fn collect(&self, leaf: &EagerTensor, collector: Arc<dyn Collector>, member: usize) {
        self.collects.store(true, Ordering::Relaxed);
        leaf.set_collected(Some(Collected { collector, member }));
    }

    /// Nobody collects the gradients of `leaf` any more.
    pub fn stop_collecting(&self, leaf: &EagerTensor) {
        leaf.set_collected(None);
    }
}

/// The collected leaves of one backward pass.
pub(super) struct Collection {
    /// By identity: who collects it, and how many edges of nodes that have not run lead to it.
    leaves: HashMap<usize, (Collected, usize)>,
    /// Each once, in the order of the tape: the same in every process that runs the same ops.
    collectors: Vec<Arc<dyn Collector>>,
}

impl Collection {
    /// The collected leaves that the roots depend on, if there are any.
    pub(super) fn of(roots: &[(EagerTensor, Option<EagerTensor>)]) -> Option<Collection> {
        let mut leaves: HashMap<usize, (Collected, usize)> = HashMap::new();
        let mut collectors: Vec<Arc<dyn Collector>> = Vec::new();
        for node in reachable(roots).values() {
            for edge in node.edges.iter().flatten() {
                let Edge::Leaf(leaf) = edge else { continue };
                if let Some((_, edges)) = leaves.get_mut(&leaf.id()) {
                    *edges += 1;
                } else if let Some(collected) = leaf.collected() {
                    if !collectors.iter().any(|known| same(known, &collected.collector)) {
                        collectors.push(Arc::clone(&collected.collector));
                    }
                    leaves.insert(leaf.id(), (collected, 1));
                }
            }
        }
        (!leaves.is_empty()).then_some(Collection { leaves, collectors })
    }

    /// All collectors.
    pub(super) fn collectors(&self) -> &[Arc<dyn Collector>] {
        &self.collectors
    }

    /// Tells every collector which of its members the pass leads to.
    pub(super) fn begin(&self) -> Result<()> {
        for collector in &self.collectors {
            let of_it = self.leaves.values().filter(|(c, _)| same(&c.collector, collector));
            let mut members: Vec<usize> = of_it.map(|(collected, _)| collected.member).collect();
            members.sort_unstable();
            collector.begin(&members)?;
        }
        Ok(())
    }

    /// The leaves whose gradients are whole now that `node` has run.
    pub(super) fn passed(&mut self, node: &Node) -> Vec<usize> {
        let mut whole = Vec::new();
        for edge in node.edges.iter().flatten() {
            let Edge::Leaf(leaf) = edge else { continue };
            if let Some((_, edges)) = self.leaves.get_mut(&leaf.id()) {
                *edges -= 1;
                if *edges == 0 {
                    whole.push(leaf.id());
                }
            }
        }
        whole
    }

    /// Hands the gradient of a leaf over, if somebody collects it.
    pub(super) fn ready(&self, leaf: &EagerTensor) -> Result<()> {
        match self.leaves.get(&leaf.id()) {
            Some((collected, _)) => collected.collector.ready(collected.member),
            None => Ok(()),
        }
    }
}

impl EagerTensor {
    fn collected(&self) -> Option<Collected> {
        self.lock().rare.as_ref().and_then(|rare| rare.collected.clone())
    }

    fn set_collected(&self, collected: Option<Collected>) {
        let mut state = self.lock();
        let rare = state.rare.get_or_insert_default();
        let before = std::mem::replace(&mut rare.collected, collected);
        // A collector may hold this tensor: it is dropped when the lock is not held.
        drop(state);
        drop(before);
    }
}

fn same(a: &Arc<dyn Collector>, b: &Arc<dyn Collector>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))
}
