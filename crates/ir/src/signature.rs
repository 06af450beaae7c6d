//! What an op type accepts: its slots and attributes, as static data.
//!
//! The engine's op definitions carry one signature each; `verify` checks programs against them
//! through the [`Catalog`] trait, so this crate knows no op by name.

use crate::{Attr, AttrKind, Op, Result, Var};

/// One input or output slot of an op type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    /// Paddle's slot name: `X`, `Out`, `ParamOut`.
    pub name: &'static str,
    /// Whether an op without it is an error.
    pub required: bool,
    /// Whether it may hold more than one variable.
    pub many: bool,
}

impl Slot {
    /// A slot that holds exactly one variable.
    pub const fn one(name: &'static str) -> Slot {
        Slot { name, required: true, many: false }
    }

    /// A slot that holds one variable or none.
    pub const fn maybe(name: &'static str) -> Slot {
        Slot { name, required: false, many: false }
    }

    /// A slot that holds one variable or more.
    pub const fn many(name: &'static str) -> Slot {
        Slot { name, required: true, many: true }
    }

    /// A slot that holds any number of variables.
    pub const fn any(name: &'static str) -> Slot {
        Slot { name, required: false, many: true }
    }
}

/// One attribute of an op type, with the value it has when a program does not give it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttrSpec {
    /// Paddle's attribute name.
    pub name: &'static str,
    /// Its default; fixes the type too.
    pub default: AttrDefault,
}

/// A default value, in a form that static tables can hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttrDefault {
    /// There is none: a program must give a value of this type.
    Required(AttrKind),
    /// There is none, and a program need not give one.
    Absent(AttrKind),
    /// An `INT`.
    Int(i32),
    /// A `LONG`.
    Long(i64),
    /// A `FLOAT`.
    Float(f32),
    /// A `FLOAT64`.
    Float64(f64),
    /// A `BOOLEAN`.
    Bool(bool),
    /// A `STRING`.
    Str(&'static str),
    /// `INTS`.
    Ints(&'static [i32]),
    /// `LONGS`.
    Longs(&'static [i64]),
    /// `FLOATS`.
    Floats(&'static [f32]),
    /// `STRINGS`.
    Strings(&'static [&'static str]),
}

impl AttrDefault {
    /// The type of the attribute.
    pub const fn kind(self) -> AttrKind {
        match self {
            AttrDefault::Required(kind) | AttrDefault::Absent(kind) => kind,
            AttrDefault::Int(_) => AttrKind::Int,
            AttrDefault::Long(_) => AttrKind::Long,
            AttrDefault::Float(_) => AttrKind::Float,
            AttrDefault::Float64(_) => AttrKind::Float64,
            AttrDefault::Bool(_) => AttrKind::Bool,
            AttrDefault::Str(_) => AttrKind::String,
            AttrDefault::Ints(_) => AttrKind::Ints,
            AttrDefault::Longs(_) => AttrKind::Longs,
            AttrDefault::Floats(_) => AttrKind::Floats,
            AttrDefault::Strings(_) => AttrKind::Strings,
        }
    }

    /// The default as a value, if there is one.
    pub fn value(self) -> Option<Attr> {
        Some(match self {
            AttrDefault::Required(_) | AttrDefault::Absent(_) => return None,
            AttrDefault::Int(v) => Attr::Int(v),
            AttrDefault::Long(v) => Attr::Long(v),
            AttrDefault::Float(v) => Attr::Float(v),
            AttrDefault::Float64(v) => Attr::Float64(v),
            AttrDefault::Bool(v) => Attr::Bool(v),
            AttrDefault::Str(v) => Attr::String(v.to_owned()),
            AttrDefault::Ints(v) => Attr::Ints(v.to_vec()),
            AttrDefault::Longs(v) => Attr::Longs(v.to_vec()),
            AttrDefault::Floats(v) => Attr::Floats(v.to_vec()),
            AttrDefault::Strings(v) => Attr::Strings(v.iter().map(|s| (*s).to_owned()).collect()),
        })
    }
}

/// Slots and attributes of one op type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Signature {
    /// Input slots.
    pub inputs: &'static [Slot],
    /// Output slots.
    pub outputs: &'static [Slot],
    /// Attributes; those that every op has (`op_role` and the like) are not listed.
    pub attrs: &'static [AttrSpec],
}

/// The op types that exist, as far as checking programs needs to know them.
pub trait Catalog {
    /// The signature of op type `kind`, if it exists.
    fn signature(&self, kind: &str) -> Option<Signature>;

    /// Every op type, for "did you mean" in messages.
    fn kinds(&self) -> Vec<&'static str>;

    /// The declarations that the op's shape rule gives its outputs (kind, dtype, shape and LoD
    /// level are meaningful), or why its inputs do not fit. `find` looks variables up.
    fn infer<'v>(&self, op: &Op, find: &dyn Fn(&str) -> Option<&'v Var>) -> Result<Vec<Var>>;
}
