//! Everything that can be wrong with a program.
//!
//! Each variant carries the names a user needs to find the place: the op with its position and
//! call site, the slot, attribute or variable, and the nearest names that do exist.

use std::fmt;

use crate::nearest::did_you_mean;
use crate::{AttrKind, Op};

/// An error about a program; names the op, variable or place it is about.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text program does not parse.
    #[error("line {line}, column {column}: {problem}")]
    Text {
        /// Line number, from 1.
        line: usize,
        /// Column number in characters, from 1.
        column: usize,
        /// What is wrong there.
        problem: String,
    },
    /// Bytes are not a program in Paddle's protobuf form.
    #[error("not a readable program: {place}: {problem}")]
    Proto {
        /// The part of the message it is about: `block 0`, `op 3 of block 0`.
        place: String,
        /// What is wrong there.
        problem: String,
    },
    /// A declaration that no variable can have.
    #[error("variable `{var}` {problem}")]
    BadVar {
        /// The variable.
        var: String,
        /// What is wrong with it; continues the sentence.
        problem: String,
    },
    /// An op does not fit its inputs; raised by shape rules.
    #[error("op `{op}`{}: {problem}", created_at(.site))]
    BadOp {
        /// The op's type.
        op: String,
        /// The line of user code that created it.
        site: Option<String>,
        /// What does not fit, with the variables' names.
        problem: String,
    },
    /// No op has this type.
    #[error("{op}: there is no op of this type{}", did_you_mean(.nearest))]
    UnknownOp {
        /// The op.
        op: Box<OpPlace>,
        /// Op types that are spelled alike.
        nearest: Vec<String>,
    },
    /// An op does not have such an attribute.
    #[error("{op}: it has no attribute `{attr}`{}", did_you_mean(.nearest))]
    UnknownAttr {
        /// The op.
        op: Box<OpPlace>,
        /// The attribute's name.
        attr: String,
        /// Attributes of the op that are spelled alike.
        nearest: Vec<String>,
    },
    /// An attribute is missing or its value is of no use.
    #[error("{op}: attribute `{attr}` {problem}")]
    BadAttr {
        /// The op.
        op: Box<OpPlace>,
        /// The attribute's name.
        attr: String,
        /// What is wrong with it.
        problem: AttrProblem,
    },
    /// A slot is missing, unknown or overfull.
    #[error("{op}: {problem}")]
    BadSlot {
        /// The op.
        op: Box<OpPlace>,
        /// What is wrong with which slot.
        problem: SlotProblem,
    },
    /// An op names a variable that neither its block nor a block around it declares.
    #[error("{op}: variable `{var}` is not declared{}", did_you_mean(.nearest))]
    Undeclared {
        /// The op.
        op: Box<OpPlace>,
        /// The variable.
        var: String,
        /// Variables that are spelled alike.
        nearest: Vec<String>,
    },
    /// An op reads a variable that has no value yet.
    #[error("{op}: {}", no_value(.var, .written_at))]
    Undefined {
        /// The op.
        op: Box<OpPlace>,
        /// The variable.
        var: String,
        /// The first op of the block that writes it, when there is one.
        written_at: Option<usize>,
    },
    /// The op's shape rule does not accept its inputs.
    #[error("{op}: {problem}")]
    Infer {
        /// The op.
        op: Box<OpPlace>,
        /// What does not fit, with the variables' names.
        problem: String,
    },
    /// An output is declared otherwise than the op computes it.
    #[error("{op}: variable `{var}` is declared as {declared}, but the op computes {inferred}")]
    Conflict {
        /// The op.
        op: Box<OpPlace>,
        /// The output variable.
        var: String,
        /// The declared element type and shape.
        declared: String,
        /// Those that the op computes.
        inferred: String,
    },
    /// A program cannot be cut to these feeds and targets.
    #[error("variable `{var}` {problem}")]
    Target {
        /// The feed or target.
        var: String,
        /// Why not.
        problem: TargetProblem,
    },
}

/// Where an op stands, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpPlace {
    /// The op's type.
    pub kind: String,
    /// The block it is in.
    pub block: usize,
    /// Its position in the block, from 0.
    pub index: usize,
    /// The line of user code that created it.
    pub site: Option<String>,
}

/// What is wrong with an attribute.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttrProblem {
    /// It has no default, and the op does not give it.
    #[error("must be given (of type {0})")]
    Missing(AttrKind),
    /// Its value is of another type.
    #[error("must be of type {expected}, but is of type {found}")]
    WrongType {
        /// The type the op takes.
        expected: AttrKind,
        /// The type in the program.
        found: AttrKind,
    },
    /// It asks for a fusion, a quantisation or a server that would change the result.
    #[error(
        "is {value}, which this build cannot honour: save the model without the fusion or \
         quantisation it asks for"
    )]
    NotHonoured {
        /// Its value.
        value: String,
    },
    /// It names a block that cannot be the op's sub-block.
    #[error("names block {block}, but sub-blocks here are those after the op's own, of {blocks}")]
    NoSuchBlock {
        /// The block named.
        block: i32,
        /// How many blocks there are.
        blocks: usize,
    },
}

/// What is wrong with a slot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlotProblem {
    /// An input slot that must hold a variable holds none.
    #[error("input slot `{0}` is missing")]
    MissingInput(String),
    /// An output slot that must hold a variable holds none.
    #[error("output slot `{0}` is missing")]
    MissingOutput(String),
    /// A slot for one variable holds more.
    #[error("slot `{slot}` takes one variable, but holds {count}: {}", list(.vars))]
    Several {
        /// The slot.
        slot: String,
        /// How many variables it holds.
        count: usize,
        /// Their names; the first few of many.
        vars: Vec<String>,
    },
    /// The op has no such slot.
    #[error("it has no slot `{slot}`{}", did_you_mean(.nearest))]
    Unknown {
        /// The slot.
        slot: String,
        /// Slots that are spelled alike.
        nearest: Vec<String>,
    },
}

/// Why a program cannot be cut to feeds and targets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetProblem {
    /// The target is not the output of any op.
    #[error("is a target, but no op computes it{}", did_you_mean(.nearest))]
    NotComputed {
        /// Variables that are spelled alike.
        nearest: Vec<String>,
    },
    /// The feed is not declared.
    #[error("is to be fed, but is not declared{}", did_you_mean(.nearest))]
    NotDeclared {
        /// Variables that are spelled alike.
        nearest: Vec<String>,
    },
    /// A target needs it, nothing computes it, and it is not a feed.
    #[error("is needed by op `{op}` to compute the targets: add it to the feeds")]
    NotFed {
        /// The type of the op that reads it.
        op: String,
    },
}

impl OpPlace {
    /// The place of `op`, which is op `index` of block `block`.
    pub fn new(op: &Op, block: usize, index: usize) -> OpPlace {
        OpPlace { kind: op.kind.clone(), block, index, site: op.site.clone() }
    }
}

impl fmt::Display for OpPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "op `{}` (op {} of block {}", self.kind, self.index, self.block)?;
        if let Some(site) = &self.site {
            write!(f, ", created at {site}")?;
        }
        f.write_str(")")
    }
}

fn created_at(site: &Option<String>) -> String {
    site.as_ref().map_or_else(String::new, |site| format!(" (created at {site})"))
}

fn no_value(var: &str, written_at: &Option<usize>) -> String {
    match written_at {
        Some(index) => format!("variable `{var}` is read here, but first written by op {index}"),
        None => format!(
            "variable `{var}` is read, but nothing writes it, and it is neither fed nor persistable"
        ),
    }
}

fn list(vars: &[String]) -> String {
    vars.iter().map(|var| format!("`{var}`")).collect::<Vec<_>>().join(", ")
}

/// The result of an operation on programs.
pub type Result<T> = std::result::Result<T, Error>;
