//! Values that several blocks read: learning rates. Blocks keep copies and look at the version to
//! see whether theirs are of today.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use bireme_engine::tensor::Tensor;

/// Tensors by name, and how often any of them has changed.
#[derive(Default)]
pub struct Shared {
    values: RwLock<BTreeMap<String, Tensor>>,
    version: AtomicU64,
}

impl Shared {
    /// Nothing yet.
    pub fn new() -> Shared {
        Shared::default()
    }

    /// A copy of a value.
    pub fn get(&self, name: &str) -> Option<Tensor> {
        self.values.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The first number of a value.
    pub fn number(&self, name: &str) -> Option<f32> {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        values.get(name).and_then(|tensor| tensor.to_f64_vec().first().map(|rate| *rate as f32))
    }

    /// Sets a value.
    pub fn set(&self, name: &str, tensor: &Tensor) {
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        match values.get_mut(name) {
            Some(known) => known.copy_from(tensor),
            None => drop(values.insert(name.to_owned(), tensor.clone())),
        }
        // Under the lock: whoever sees the version finds the value.
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Whether there is such a value.
    pub fn contains(&self, name: &str) -> bool {
        self.values.read().unwrap_or_else(PoisonError::into_inner).contains_key(name)
    }

    /// Names, sorted.
    pub fn names(&self) -> Vec<String> {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        values.keys().cloned().collect()
    }

    /// Changes so far.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }
}
