//! Variables that outlive a run: parameters, optimizer state, metrics.
//!
//! A [`Scope`] is a handle; clones see the same variables. Plans bind to a variable's cell once and
//! then read and write it without looking it up. Steps on one scope take turns, except for those
//! of training threads that share its parameters without locks, as Hogwild does
//! ([`crate::Executor::hogwild`]): see `scope/turns.rs`.

#![expect(unsafe_code, reason = "cells are shared by plans, which take turns")]

mod cell;
mod turns;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

pub(crate) use cell::{Cell, Seat};
pub(crate) use turns::Turn;
use turns::{Reading, Turns};

use crate::tensor::Tensor;
use crate::value::Value;
use crate::{Draws, Error, Result};

/// Variables by name.
#[derive(Clone, Default)]
pub struct Scope(Arc<Inner>);

#[derive(Default)]
struct Inner {
    vars: Mutex<BTreeMap<String, Arc<Cell>>>,
    turns: Turns,
    /// Steps of each random sequence, by its number and the training thread.
    draws: Mutex<BTreeMap<(u64, usize), Arc<AtomicU64>>>,
}

impl Scope {
    /// An empty scope.
    pub fn new() -> Scope {
        Scope::default()
    }

    /// A copy of what `name` holds; as [`Scope::read`].
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
        self.if_unused(name, || {
            // SAFETY: nobody has a turn, or can take one meanwhile.
            let value = unsafe {
                cell.get_or_init(|| Value::Tensor(Tensor::empty(tensor.dtype()))).as_mut()
            };
            match value {
                Value::Tensor(mine) => mine.copy_from(tensor),
                other => *other = Value::Tensor(tensor.clone()),
            }
            cell.host_writes();
        })
    }

    /// Takes over all of `tensors`, or, when a step runs or a variable is being read, none.
    ///
    /// # Errors
    /// When one does, or is.
    pub fn take_over<'n>(
        &self,
        tensors: impl IntoIterator<Item = (&'n str, Tensor)>,
    ) -> Result<()> {
        let with_cell = |(name, tensor)| (name, self.cell(name), Value::Tensor(tensor));
        let all: Vec<_> = tensors.into_iter().map(with_cell).collect();
        let Some((first, ..)) = all.first() else { return Ok(()) };
        self.if_unused(first, || {
            for (_, cell, value) in all {
                // SAFETY: nobody has a turn, or can take one meanwhile. Nothing here can fail.
                unsafe {
                    cell.clear();
                    cell.get_or_init(|| value);
                }
            }
        })
    }

    /// Looks at what `name` holds, without copying it unless training threads are at work on it.
    /// Waits for the end of a step that is alone on this scope.
    ///
    /// # Errors
    /// When it holds nothing, or a step of this very thread waits for the answer.
    pub fn read<T>(&self, name: &str, look: impl FnOnce(&Value) -> T) -> Result<T> {
        let reading = self.0.turns.read()?;
        let cell = self.lock().get(name).cloned();
        let value = cell.as_ref().and_then(|cell| cell.get());
        let value = value.ok_or_else(|| Error::NotInitialized { var: name.to_owned() })?;
        if let Some(cell) = &cell {
            // SAFETY: this is a reader.
            unsafe { cell.bring_home()? };
        }
        // SAFETY: the cell is kept alive by `cell`; see the rule above.
        let value = unsafe { value.as_ref() };
        match reading {
            Reading::InPlace(_reader) => Ok(look(value)),
            Reading::Beside(turn) => {
                let copy = match value {
                    Value::Tensor(tensor) => {
                        // SAFETY: nothing moves while the turn is held, which the window does not
                        // outlive; those beside use such windows, too.
                        let mut copy = unsafe { tensor.shared_window() }.clone();
                        copy.set_lod(tensor.lod());
                        Value::Tensor(copy)
                    }
                    // Selected rows move as they grow, so steps that have any are alone.
                    Value::Rows(_) => value.clone(),
                };
                drop(turn);
                Ok(look(&copy))
            }
        }
    }

    /// Whether `name` holds a value.
    pub fn contains(&self, name: &str) -> bool {
        self.lock().get(name).is_some_and(|cell| cell.is_set())
    }

    /// Names of the variables that hold a value, sorted.
    pub fn names(&self) -> Vec<String> {
        let vars = self.lock();
        vars.iter().filter(|(_, cell)| cell.is_set()).map(|(name, _)| name.clone()).collect()
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
        let cell = self.lock().get(name).cloned();
        self.if_unused(name, || {
            if let Some(cell) = cell {
                // SAFETY: nobody has a turn, or can take one meanwhile. The cell stays in its
                // place, so that plans which are bound to it see that it is empty.
                unsafe { cell.clear() };
            }
        })
    }

    /// The count of steps of a random sequence ([`crate::graph::ProgramHandle::sequence`]) on this
    /// scope, for one training thread: who asks again goes on with it.
    pub fn draws(&self, sequence: u64, thread: usize) -> Draws {
        let mut all = self.0.draws.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Draws::counting(Arc::clone(all.entry((sequence, thread)).or_default()), thread)
    }

    /// Whether both are handles to the same variables.
    pub fn is_same(&self, other: &Scope) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Waits until nobody else is at work on the scope, or `is_asked` to stop.
    ///
    /// # Errors
    /// When this thread itself is at work there. [`Error::Interrupted`].
    pub(crate) fn alone(&self, is_asked: &dyn Fn() -> bool) -> Result<Turn<'_>> {
        self.0.turns.alone(is_asked)
    }

    /// Waits until only steps that run beside each other are at work on the scope.
    ///
    /// # Errors
    /// As [`Scope::alone`].
    pub(crate) fn beside(&self, is_asked: &dyn Fn() -> bool) -> Result<Turn<'_>> {
        self.0.turns.beside(is_asked)
    }

    fn if_unused<T>(&self, name: &str, work: impl FnOnce() -> T) -> Result<T> {
        self.0.turns.if_unused(work).ok_or_else(|| Error::InUse { var: name.to_owned() })
    }

    /// The cell of `name`, made empty if there is none.
    pub(crate) fn cell(&self, name: &str) -> Arc<Cell> {
        let mut vars = self.lock();
        let cell = vars.entry(name.to_owned()).or_insert_with(|| Arc::new(Cell::empty()));
        Arc::clone(cell)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Cell>>> {
        // A panic leaves the map as it was: nothing panics between two changes of it.
        self.0.vars.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
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

    #[test]
    fn a_step_inside_a_reader_is_refused() {
        let scope = Scope::new();
        scope.set("w", &Tensor::scalar(2.0f32));
        let refused = scope.read("w", |_| scope.alone(&|| false).map(drop)).unwrap().unwrap_err();
        assert!(refused.to_string().contains("would wait for itself"), "{refused}");
        let turn = scope.alone(&|| false).unwrap();
        assert!(scope.get("w").is_err());
        drop(turn);
        scope.get("w").unwrap();
    }

    #[test]
    fn all_or_nothing_is_taken_over() {
        let scope = Scope::new();
        scope.set("w", &Tensor::scalar(2.0f32));
        let new = || [("v", Tensor::scalar(1.0f32)), ("w", Tensor::scalar(3i64))];
        scope.read("w", |_| assert!(scope.take_over(new()).is_err())).unwrap();
        assert_eq!((scope.contains("v"), scope.get("w").unwrap()), (false, Tensor::scalar(2.0f32)));
        scope.take_over(new()).unwrap();
        assert_eq!(scope.get("w").unwrap(), Tensor::scalar(3i64));
    }
}
