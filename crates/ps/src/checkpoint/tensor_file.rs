//! `safetensors` files, written and read in pieces: neither side ever holds a whole file.
//!
//! The format wants all names and sizes at the front. The writer leaves room for them, writes the
//! tensors, and fills in the front at the end, padded with spaces as the format allows. Offsets are
//! multiples of the element sizes, so that arrays can be used where they lie.

mod read;
mod write;

pub(super) use read::TensorReader;
pub(super) use write::TensorWriter;

use bireme_ir::DType;

/// `safetensors`' name of a type.
fn code(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "BOOL",
        DType::I8 => "I8",
        DType::U8 => "U8",
        DType::I16 => "I16",
        DType::I32 => "I32",
        DType::I64 => "I64",
        DType::F16 => "F16",
        DType::BF16 => "BF16",
        DType::F32 => "F32",
        DType::F64 => "F64",
    }
}

/// The name of the keys' type, which no tensor of a program has.
const KEYS: &str = "U64";

/// The name of the tensor of the keys whose rows went: `emb/removed`.
pub(super) fn removed_name(table: &str) -> String {
    format!("{table}/removed")
}

/// The name of a table's tensor: `emb/part-00000/keys`.
pub(super) fn part_name(table: &str, part: u32, column: &str) -> String {
    format!("{table}/part-{part:05}/{column}")
}
