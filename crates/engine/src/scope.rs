//! Variables that outlive a run: parameters, optimizer state, metrics.
//!
//! A [`Scope`] is a handle; clones see the same variables. Plans bind to a variable's cell once and
//! then read and write it without looking it up; training threads that share a scope update its
//! parameters without locks, as Hogwild does.

#![expect(unsafe_code, reason = "cells are shared by training threads on purpose")]

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::tensor::Tensor;
use crate::value::Value;
use crate::{Draws, Error, Result};

/// Variables by name.
#[derive(Clone, Default)]
pub struct Scope {
    vars: Arc<Mutex<BTreeMap<String, Arc<Cell>>>>,
    /// Steps and readers at work; while there are any, no variable may be set or removed.
    users: Arc<AtomicUsize>,
    /// Steps of each random sequence, by its number and the training thread.
    draws: Arc<Mutex<Counts>>,
}

/// Steps by random sequence and training thread.
type Counts = BTreeMap<(u64, usize), Arc<AtomicU64>>;

/// Keeps a scope's variables from being set while a step runs or a reader looks.
pub(crate) struct InUse(Arc<AtomicUsize>);

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// One variable; empty until something writes it.
pub(crate) struct Cell(UnsafeCell<Option<Value>>);

// SAFETY: plans of one process read and write cells from several threads. Concurrent updates of
// single floats are the documented behaviour of shared training threads. Values are replaced or
// resized only by `set` and `remove`, which refuse while a step or a reader is at work, and while a
// layout is made, which takes the scope's lock.
unsafe impl Send for Cell {}
// SAFETY: as above.
unsafe impl Sync for Cell {}

impl Cell {
    /// The value, if there is one; the pointer is good while the cell lives.
    pub(crate) fn get(&self) -> Option<NonNull<Value>> {
        // SAFETY: only the discriminant is read here; see the rule above.
        unsafe { (*self.0.get()).as_ref() }.map(NonNull::from)
    }

    /// The value, made by `init` if there is none.
    pub(crate) fn get_or_init(&self, init: impl FnOnce() -> Value) -> NonNull<Value> {
        // SAFETY: plans are bound, one at a time, before they run.
        NonNull::from(unsafe { (*self.0.get()).get_or_insert_with(init) })
    }
}

impl Scope {
    /// An empty scope.
    pub fn new() -> Scope {
        Scope::default()
    }

    /// A copy of what `name` holds.
    ///
    /// # Errors
    /// When it holds nothing, or selected rows.
    pub fn get(&self, name: &str) -> Result<Tensor> {
        self.read(name, |value| value.tensor().cloned())?
    }

    /// Sets what `name` holds, in the memory it has when that suffices.
    ///
    /// # Panics
    /// When a step runs on this scope, or one of its variables is being read: that would change
    /// memory under their hands.
    pub fn set(&self, name: &str, tensor: &Tensor) {
        self.try_set(name, tensor).unwrap_or_else(|error| panic!("{error}"));
    }

    /// [`Scope::set`] for callers that cannot know whether a step runs.
    ///
    /// # Errors
    /// When one does, or a variable is being read.
    pub fn try_set(&self, name: &str, tensor: &Tensor) -> Result<()> {
        let cell = self.cell(name);
        let vars = self.lock();
        self.check_unused(name)?;
        let mut value = cell.get_or_init(|| Value::Tensor(Tensor::empty(tensor.dtype())));
        // SAFETY: by the rule above, no plan runs while a variable is set.
        match unsafe { value.as_mut() } {
            Value::Tensor(mine) => mine.copy_from(tensor),
            other => *other = Value::Tensor(tensor.clone()),
        }
        drop(vars);
        Ok(())
    }

    /// Looks at what `name` holds without copying it.
    ///
    /// # Errors
    /// When it holds nothing.
    pub fn read<T>(&self, name: &str, look: impl FnOnce(&Value) -> T) -> Result<T> {
        let _in_use = self.in_use();
        let cell = self.lock().get(name).cloned();
        let value = cell.as_ref().and_then(|cell| cell.get());
        let value = value.ok_or_else(|| Error::NotInitialized { var: name.to_owned() })?;
        // SAFETY: the cell is kept alive by `cell`; see the rule above.
        Ok(look(unsafe { value.as_ref() }))
    }

    /// Whether `name` holds a value.
    pub fn contains(&self, name: &str) -> bool {
        self.lock().get(name).is_some_and(|cell| cell.get().is_some())
    }

    /// Names of the variables that hold a value, sorted.
    pub fn names(&self) -> Vec<String> {
        let vars = self.lock();
        vars.iter().filter(|(_, cell)| cell.get().is_some()).map(|(name, _)| name.clone()).collect()
    }

    /// Forgets what `name` holds.
    ///
    /// # Panics
    /// As [`Scope::set`].
    pub fn remove(&self, name: &str) {
        self.try_remove(name).unwrap_or_else(|error| panic!("{error}"));
    }

    /// [`Scope::remove`] for callers that cannot know whether a step runs.
    ///
    /// # Errors
    /// As [`Scope::try_set`].
    pub fn try_remove(&self, name: &str) -> Result<()> {
        let vars = self.lock();
        self.check_unused(name)?;
        if let Some(cell) = vars.get(name) {
            // SAFETY: by the rule above, nobody looks at the cell now. It stays in its place, so
            // that plans which are bound to it see that it is empty.
            unsafe { *cell.0.get() = None };
        }
        Ok(())
    }

    /// The count of steps of a random sequence ([`crate::graph::ProgramHandle::sequence`]) on this
    /// scope, for one training thread: who asks again goes on with it.
    pub fn draws(&self, sequence: u64, thread: usize) -> Draws {
        let mut all = self.draws.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Draws::counting(Arc::clone(all.entry((sequence, thread)).or_default()), thread)
    }

    /// Whether both are handles to the same variables.
    pub fn is_same(&self, other: &Scope) -> bool {
        Arc::ptr_eq(&self.vars, &other.vars)
    }

    /// Marks the scope as in use until the mark is dropped.
    pub(crate) fn in_use(&self) -> InUse {
        // Under the lock, so that nobody who has just found the scope unused is still changing it.
        let _vars = self.lock();
        self.users.fetch_add(1, Ordering::Acquire);
        InUse(Arc::clone(&self.users))
    }

    /// Runs `work` while no other thread makes, sets or removes variables.
    pub(crate) fn exclusively<T>(&self, work: impl FnOnce() -> T) -> T {
        let _vars = self.lock();
        work()
    }

    fn check_unused(&self, name: &str) -> Result<()> {
        match self.users.load(Ordering::Acquire) {
            0 => Ok(()),
            _ => Err(Error::InUse { var: name.to_owned() }),
        }
    }

    /// The cell of `name`, made empty if there is none.
    pub(crate) fn cell(&self, name: &str) -> Arc<Cell> {
        let mut vars = self.lock();
        let cell =
            vars.entry(name.to_owned()).or_insert_with(|| Arc::new(Cell(UnsafeCell::new(None))));
        Arc::clone(cell)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Cell>>> {
        // A panic leaves the map as it was: nothing panics between two changes of it.
        self.vars.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_variables() {
        let scope = Scope::new();
        let other = scope.clone();
        assert!(matches!(scope.get("w"), Err(Error::NotInitialized { .. })));
        other.set("w", &Tensor::scalar(2.0f32));
        assert_eq!(scope.get("w").unwrap(), Tensor::scalar(2.0f32));
        assert_eq!(scope.names(), ["w"]);
        scope.remove("w");
        assert!(!other.contains("w"));
    }

    #[test]
    fn a_variable_is_not_changed_under_a_reader() {
        let scope = Scope::new();
        scope.set("w", &Tensor::scalar(2.0f32));
        let inside = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            scope.read("w", |_| scope.set("w", &Tensor::scalar(3.0f32)))
        }));
        assert!(inside.is_err());
        scope.set("w", &Tensor::scalar(4.0f32));
        assert_eq!(scope.get("w").unwrap(), Tensor::scalar(4.0f32));
    }
}
