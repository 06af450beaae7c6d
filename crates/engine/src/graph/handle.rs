//! A program that several hands build and run: a shared handle with a version.
//!
//! The version rises with every edit, so that whoever compiled the program can tell in a moment
//! whether it is still the one it knows, without comparing or copying it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bireme_ir::Program;

/// A program shared by its clones.
#[derive(Clone, Debug)]
pub struct ProgramHandle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    id: u64,
    /// The number of its random sequence; see [`ProgramHandle::sequence`].
    sequence: AtomicU64,
    version: AtomicU64,
    program: RwLock<Program>,
}

impl ProgramHandle {
    /// A handle to `program`.
    pub fn new(program: Program) -> ProgramHandle {
        let (id, sequence) = (next_number(), AtomicU64::new(next_number()));
        let (version, program) = (AtomicU64::new(0), RwLock::new(program));
        let shared = Shared { id, sequence, version, program };
        ProgramHandle { shared: Arc::new(shared) }
    }

    /// A number that no other program of this process has.
    pub fn id(&self) -> u64 {
        self.shared.id
    }

    /// The number of its random sequence: steps of one sequence never draw the same numbers, however
    /// often the program is edited or compiled ([`crate::Scope::draws`]).
    pub fn sequence(&self) -> u64 {
        self.shared.sequence.load(Ordering::Acquire)
    }

    /// Sets the program's seed; its random numbers start anew.
    pub fn reseed(&self, seed: u64) {
        self.edit(|program| program.random_seed = seed);
        self.shared.sequence.store(next_number(), Ordering::Release);
    }

    /// How often the program has been edited.
    pub fn version(&self) -> u64 {
        self.shared.version.load(Ordering::Acquire)
    }

    /// Looks at the program; `look` must not edit it.
    pub fn read<T>(&self, look: impl FnOnce(&Program) -> T) -> T {
        // An edit that panicked left a program, if perhaps not the one that was meant.
        look(&self.shared.program.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the program, whose version rises.
    pub fn edit<T>(&self, edit: impl FnOnce(&mut Program) -> T) -> T {
        let mut program = self.shared.program.write().unwrap_or_else(PoisonError::into_inner);
        self.shared.version.fetch_add(1, Ordering::Release);
        edit(&mut program)
    }

    /// A copy of the program as it is now.
    pub fn program(&self) -> Program {
        self.read(Program::clone)
    }
}

/// Numbers, unlike addresses, are never given out twice.
fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Default for ProgramHandle {
    fn default() -> ProgramHandle {
        ProgramHandle::new(Program::new())
    }
}

impl PartialEq for ProgramHandle {
    /// Whether both are handles to one program.
    fn eq(&self, other: &ProgramHandle) -> bool {
        self.id() == other.id()
    }
}

impl Eq for ProgramHandle {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_raise_the_version() {
        let handle = ProgramHandle::default();
        let (same, other) = (handle.clone(), ProgramHandle::default());
        same.edit(|program| program.random_seed = 3);
        assert_eq!((handle.version(), handle.read(|program| program.random_seed)), (1, 3));
        assert!(handle == same && handle != other);
    }
}
