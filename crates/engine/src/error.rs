//! Everything that can go wrong while building, loading or running a program.

use std::any::Any;

use bireme_ir::DType;

use crate::tensor::Dims;

/// An error of the engine; names the op, variable or file it is about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program itself is at fault.
    #[error(transparent)]
    Program(#[from] bireme_ir::Error),
    /// A kernel refused its inputs; [`Error::in_op`] adds which op it was.
    #[error("{problem}")]
    Kernel {
        /// What does not fit.
        problem: String,
    },
    /// An op failed while running.
    #[error("op `{op}` ({outputs}){site}: {problem}")]
    Op {
        /// The op's type.
        op: String,
        /// Its outputs, to find it in the printed program.
        outputs: String,
        /// ` created at file:line`, or nothing.
        site: String,
        /// What went wrong.
        problem: String,
    },
    /// A tensor has another element type than its user expects.
    #[error("expected {expected} elements, but the tensor holds {given}")]
    DType {
        /// What was asked for.
        expected: DType,
        /// What is there.
        given: DType,
    },
    /// A number of values does not fill a shape.
    #[error("shape {dims} needs {} values, but {values} are given", .dims.numel())]
    ElementCount {
        /// The shape.
        dims: Dims,
        /// The number of values.
        values: usize,
    },
    /// Sequence offsets do not fit the rows.
    #[error("LoD level {level} must rise from 0 to {end}")]
    BadLod {
        /// The level, from 0.
        level: usize,
        /// What its last offset must be.
        end: usize,
    },
    /// Selected rows stand where only a dense tensor is understood.
    #[error("expected a dense tensor, but the variable holds selected rows")]
    NotDense,
    /// A feed does not fit the variable it is for, or there is none.
    #[error("feed `{var}`: {problem}")]
    Feed {
        /// The variable.
        var: String,
        /// Expected and given.
        problem: String,
    },
    /// A variable that is needed holds nothing yet.
    #[error("variable `{var}` has no value: run the startup program first, or load a saved model")]
    NotInitialized {
        /// The variable.
        var: String,
    },
    /// A variable would change under the hands of a step or a reader.
    #[error(
        "variable `{var}` cannot be changed now: a step runs on its scope, or it is being read"
    )]
    InUse {
        /// The variable.
        var: String,
    },
    /// A value stopped being a number, under `check_finite`.
    #[error("step {step}: op `{op}`{site} produced {what} in `{var}`")]
    NotFinite {
        /// The step of this executor, from 1.
        step: u64,
        /// The first op that produced it.
        op: String,
        /// ` created at file:line`, or nothing.
        site: String,
        /// The output.
        var: String,
        /// `NaN` or `infinity`.
        what: &'static str,
    },
    /// A tensor does not fit into the memory that is left.
    #[error("out of memory{place}: a tensor of {bytes} bytes cannot be allocated")]
    OutOfMemory {
        /// The tensor's size.
        bytes: usize,
        /// ` in op ...`, or nothing.
        place: String,
    },
    /// Another process is lost, late, or refused what a step asked of it.
    #[error("{problem}")]
    Remote {
        /// Who, and what was asked.
        problem: String,
    },
    /// The caller asked a running step to stop; see [`crate::Executor::interrupt`].
    #[error("interrupted")]
    Interrupted,
    /// A device that this machine or build does not have.
    #[error("{problem}")]
    Device {
        /// What is missing, and what to do.
        problem: String,
    },
    /// A card has too little memory left.
    #[error("{problem}")]
    DeviceMemory {
        /// What was asked for, what there is, and what would fit.
        problem: String,
    },
    /// A mistake of the engine itself.
    #[error("internal error of the engine ({problem}): please report it with your script")]
    Internal {
        /// What it panicked with.
        problem: String,
    },
    /// A file cannot be read, written or understood.
    #[error("`{path}`: {problem}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// The result of an engine operation.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of a kernel or shape rule that knows what is wrong but not which op it serves.
    pub fn kernel(problem: impl Into<String>) -> Error {
        Error::Kernel { problem: problem.into() }
    }

    /// Adds the op to an error that one of its functions returned.
    pub fn in_op(self, op: &bireme_ir::Op) -> Error {
        let outputs = || {
            let names: Vec<String> = op.output_vars().map(|var| format!("`{var}`")).collect();
            names.join(", ")
        };
        self.at(&op.kind, outputs, || site_text(op))
    }

    /// Adds the type of an op, what identifies it, and where it was created. Errors that are about
    /// something else than what the op was given stay what they are.
    pub(crate) fn at(
        self,
        kind: &str,
        outputs: impl FnOnce() -> String,
        site: impl FnOnce() -> String,
    ) -> Error {
        match self {
            Error::Program(_)
            | Error::Op { .. }
            | Error::NotFinite { .. }
            | Error::Remote { .. }
            | Error::Device { .. }
            | Error::DeviceMemory { .. }
            | Error::Interrupted => self,
            Error::OutOfMemory { bytes, place } if place.is_empty() => {
                Error::OutOfMemory { bytes, place: format!(" in op `{kind}`{}", site()) }
            }
            Error::OutOfMemory { .. } => self,
            Error::Internal { problem } => {
                Error::Internal { problem: format!("op `{kind}`{}: {problem}", site()) }
            }
            other => Error::Op {
                op: kind.to_owned(),
                outputs: outputs(),
                site: site(),
                problem: other.to_string(),
            },
        }
    }

    /// An error of another process, or of the way to it.
    pub fn remote(problem: impl ToString) -> Error {
        Error::Remote { problem: problem.to_string() }
    }

    /// What was caught as a panic: the error that it carries, or else an account of it.
    pub fn caught(panic: Box<dyn Any + Send>) -> Error {
        let panic = match panic.downcast::<Error>() {
            Ok(error) => return *error,
            Err(panic) => panic,
        };
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown");
        Error::Internal { problem: text.to_owned() }
    }

    /// An error about a file.
    pub fn file(path: impl AsRef<std::path::Path>, problem: impl ToString) -> Error {
        Error::File { path: path.as_ref().display().to_string(), problem: problem.to_string() }
    }
}

/// ` created at file:line` when the op knows it.
pub(crate) fn site_text(op: &bireme_ir::Op) -> String {
    op.site.as_ref().map_or_else(String::new, |site| format!(" created at {site}"))
}
