//! Operator attributes: Paddle's closed set of value types.

use std::fmt;

/// The value of one operator attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attr {
    /// `INT`: a 32-bit integer.
    Int(i32),
    /// `FLOAT`: single precision.
    Float(f32),
    /// `STRING`.
    String(String),
    /// `INTS`.
    Ints(Vec<i32>),
    /// `FLOATS`.
    Floats(Vec<f32>),
    /// `STRINGS`.
    Strings(Vec<String>),
    /// `BOOLEAN`.
    Bool(bool),
    /// `BOOLEANS`.
    Bools(Vec<bool>),
    /// `BLOCK`: the index of a sub-block.
    Block(i32),
    /// `LONG`: a 64-bit integer.
    Long(i64),
    /// `BLOCKS`.
    Blocks(Vec<i32>),
    /// `LONGS`.
    Longs(Vec<i64>),
    /// `FLOAT64S`.
    Float64s(Vec<f64>),
    /// `VAR`: the name of a variable.
    Var(String),
    /// `VARS`.
    Vars(Vec<String>),
    /// `FLOAT64`.
    Float64(f64),
    /// `SCALAR`: a number that carries its own type.
    Scalar(Scalar),
    /// `SCALARS`.
    Scalars(Vec<Scalar>),
}

/// A number that carries its own type (Paddle's `Scalar` message).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// An integer.
    Long(i64),
    /// A real number.
    Float64(f64),
    /// A complex number: real and imaginary part.
    Complex(f64, f64),
}

/// The type of an attribute, without its value. The discriminants are Paddle's `AttrType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the type of the `Attr` variant of the same name")]
pub enum AttrKind {
    Int = 0,
    Float = 1,
    String = 2,
    Ints = 3,
    Floats = 4,
    Strings = 5,
    Bool = 6,
    Bools = 7,
    Block = 8,
    Long = 9,
    Blocks = 10,
    Longs = 11,
    Float64s = 12,
    Var = 13,
    Vars = 14,
    Float64 = 15,
    Scalar = 16,
    Scalars = 17,
}

impl AttrKind {
    /// Every type, in the order of Paddle's numbers.
    pub const ALL: [AttrKind; 18] = [
        AttrKind::Int,
        AttrKind::Float,
        AttrKind::String,
        AttrKind::Ints,
        AttrKind::Floats,
        AttrKind::Strings,
        AttrKind::Bool,
        AttrKind::Bools,
        AttrKind::Block,
        AttrKind::Long,
        AttrKind::Blocks,
        AttrKind::Longs,
        AttrKind::Float64s,
        AttrKind::Var,
        AttrKind::Vars,
        AttrKind::Float64,
        AttrKind::Scalar,
        AttrKind::Scalars,
    ];

    /// The type's name in messages and in front of lists: `int`, `floats`.
    pub const fn name(self) -> &'static str {
        match self {
            AttrKind::Int => "int",
            AttrKind::Float => "float",
            AttrKind::String => "string",
            AttrKind::Ints => "ints",
            AttrKind::Floats => "floats",
            AttrKind::Strings => "strings",
            AttrKind::Bool => "bool",
            AttrKind::Bools => "bools",
            AttrKind::Block => "block",
            AttrKind::Long => "long",
            AttrKind::Blocks => "blocks",
            AttrKind::Longs => "longs",
            AttrKind::Float64s => "float64s",
            AttrKind::Var => "var",
            AttrKind::Vars => "vars",
            AttrKind::Float64 => "float64",
            AttrKind::Scalar => "scalar",
            AttrKind::Scalars => "scalars",
        }
    }

    /// The number in `AttrType`, as program files carry it.
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// The type with this number in `AttrType`, if there is one.
    pub fn from_code(code: i32) -> Option<AttrKind> {
        AttrKind::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

impl fmt::Display for AttrKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Attr {
    /// The type of this value.
    pub fn kind(&self) -> AttrKind {
        match self {
            Attr::Int(_) => AttrKind::Int,
            Attr::Float(_) => AttrKind::Float,
            Attr::String(_) => AttrKind::String,
            Attr::Ints(_) => AttrKind::Ints,
            Attr::Floats(_) => AttrKind::Floats,
            Attr::Strings(_) => AttrKind::Strings,
            Attr::Bool(_) => AttrKind::Bool,
            Attr::Bools(_) => AttrKind::Bools,
            Attr::Block(_) => AttrKind::Block,
            Attr::Long(_) => AttrKind::Long,
            Attr::Blocks(_) => AttrKind::Blocks,
            Attr::Longs(_) => AttrKind::Longs,
            Attr::Float64s(_) => AttrKind::Float64s,
            Attr::Var(_) => AttrKind::Var,
            Attr::Vars(_) => AttrKind::Vars,
            Attr::Float64(_) => AttrKind::Float64,
            Attr::Scalar(_) => AttrKind::Scalar,
            Attr::Scalars(_) => AttrKind::Scalars,
        }
    }
}

macro_rules! attr_from {
    ($($from:ty => $variant:ident),* $(,)?) => {$(
        impl From<$from> for Attr {
            fn from(value: $from) -> Attr {
                Attr::$variant(value.into())
            }
        }
    )*};
}

attr_from! {
    i32 => Int, f32 => Float, &str => String, String => String, Vec<i32> => Ints, Vec<f32> => Floats,
    Vec<String> => Strings, bool => Bool, Vec<bool> => Bools, i64 => Long, Vec<i64> => Longs,
    f64 => Float64, Vec<f64> => Float64s,
}
