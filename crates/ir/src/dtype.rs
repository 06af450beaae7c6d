//! Element types, with the names and numbers that Paddle's `VarType.Type` gives them.

use std::fmt;

/// The type of one tensor element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// One byte, 0 or 1.
    Bool,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer; the type of sparse ids and labels.
    I64,
    /// IEEE half precision.
    F16,
    /// The upper half of a single-precision float.
    BF16,
    /// Single precision; the type of parameters.
    F32,
    /// Double precision.
    F64,
}

impl DType {
    /// Every element type, in the order of Paddle's numbers.
    pub const ALL: [DType; 10] = [
        DType::Bool,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::F32,
        DType::F64,
        DType::U8,
        DType::I8,
        DType::BF16,
    ];

    /// Paddle's name, as users write it: `float32`, `int64`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I8 => "int8",
            DType::U8 => "uint8",
            DType::I16 => "int16",
            DType::I32 => "int32",
            DType::I64 => "int64",
            DType::F16 => "float16",
            DType::BF16 => "bfloat16",
            DType::F32 => "float32",
            DType::F64 => "float64",
        }
    }

    /// The type that Paddle calls `name`, if there is one.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// The number in `VarType.Type`, as program files and `dtype` attributes carry it.
    pub const fn code(self) -> i32 {
        match self {
            DType::Bool => 0,
            DType::I16 => 1,
            DType::I32 => 2,
            DType::I64 => 3,
            DType::F16 => 4,
            DType::F32 => 5,
            DType::F64 => 6,
            DType::U8 => 20,
            DType::I8 => 21,
            DType::BF16 => 22,
        }
    }

    /// The type with this number in `VarType.Type`, if it is an element type.
    pub fn from_code(code: i32) -> Option<DType> {
        DType::ALL.into_iter().find(|dtype| dtype.code() == code)
    }

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::I8 | DType::U8 => 1,
            DType::I16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::F32 => 4,
            DType::I64 | DType::F64 => 8,
        }
    }

    /// Whether values of this type can carry a gradient. Those of 16 bits are stored, moved and
    /// converted; the ops that compute refuse them.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
