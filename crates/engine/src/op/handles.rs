//! The handles by which a kernel reaches the variables of its op.
//!
//! A kernel that is being made is given one handle for each output, and a handle cannot be copied. [`Run`](super::Run)
//! lends an output for as long as its handle is borrowed, so the compiler refuses a kernel that would hold a value
//! twice, or read what it is writing. An input that an output may share its variable with comes as one handle with that
//! output, [`InOut`]. Handles that are not given to a kernel, but to a shape rule, say, reach nothing.

use std::cell::RefCell;
use std::collections::HashSet;

use crate::{Error, Result};

/// The most inputs, or outputs, of one op.
pub(super) const MAX_VARS: usize = u16::MAX as usize;

/// The position of a handle that reaches nothing: no op has so many variables.
const NOWHERE: u16 = u16::MAX;

/// An input variable of an op, which no output shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct In(u16);

impl In {
    pub(super) fn at(self) -> usize {
        usize::from(self.0)
    }
}

/// An output variable of an op: the one handle to it.
#[derive(Debug)]
pub struct Out(u16);

impl Out {
    pub(super) fn at(&self) -> usize {
        usize::from(self.0)
    }
}

/// An input variable and the output that continues it, which may be one variable: the one handle to both.
#[derive(Debug)]
pub struct InOut {
    /// Borrowed with the handle only, so that nobody holds the input while the output is written.
    input: In,
    /// The output alone, for a kernel that writes it from scratch.
    pub out: Out,
}

impl InOut {
    pub(super) fn new(input: In, out: Out) -> InOut {
        InOut { input, out }
    }

    pub(super) fn input(&self) -> In {
        self.input
    }
}

/// Gives handles to one kernel while it is made, no output twice. Only `OpView::kernel` makes one.
pub(crate) struct Handles {
    given: RefCell<HashSet<usize>>,
    problem: RefCell<Option<String>>,
}

impl Handles {
    /// What has given nothing yet.
    pub(super) fn new() -> Handles {
        Handles { given: RefCell::default(), problem: RefCell::default() }
    }

    /// A handle to the input at `at`.
    pub(super) fn input(handles: Option<&Handles>, at: usize) -> In {
        In(handles.map_or(NOWHERE, |_| position(at)))
    }

    /// The handle to the output at `at`, which is in slot `slot`.
    pub(super) fn output(handles: Option<&Handles>, slot: &str, at: usize) -> Out {
        let Some(handles) = handles else { return Out(NOWHERE) };
        if handles.given.borrow_mut().insert(at) {
            return Out(position(at));
        }
        handles.refuse(format!("asks twice for output slot `{slot}`"));
        Out(NOWHERE)
    }

    /// Notes what the kernel does against the rule.
    pub(super) fn refuse(&self, problem: String) {
        self.problem.borrow_mut().get_or_insert(problem);
    }

    /// That the kernel kept the rule.
    ///
    /// # Errors
    /// When it did not, which is an error of the engine.
    pub(super) fn check(self) -> Result<()> {
        match self.problem.into_inner() {
            None => Ok(()),
            Some(problem) => {
                Err(Error::kernel(format!("an error of the engine: its kernel {problem}")))
            }
        }
    }
}

fn position(at: usize) -> u16 {
    u16::try_from(at).expect("`OpView::new` counted the variables")
}
