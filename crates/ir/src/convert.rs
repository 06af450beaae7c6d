//! Programs to and from Paddle's protobuf form: the bytes of `.pdmodel` and `__model__` files.
//!
//! What Paddle's messages do not hold is lost on the way: a program's `random_seed`, a parameter's
//! learning rate, regulariser and clipping (a parameter comes back trainable unless gradients stop
//! at it), and shapes of variables that are no tensors. An op's call site travels as Paddle's
//! `op_callstack` attribute. Reading never panics; no message has more than a million parts, so what
//! it allocates for tiny parts is bounded too.

mod attr;
mod callstack;
mod read;
mod write;

use prost::encoding::{DecodeContext, WireType, decode_key, skip_field};

use crate::{Error, Program, Result};

/// Longest input that [`Program::from_bytes`] reads: 128 MiB. A program of ten thousand ops, each
/// with its Python stack, takes about 30 MB; parameters are stored elsewhere.
pub const MAX_PROGRAM_BYTES: usize = 128 << 20;

/// Most blocks of a program. Control flow takes a few, each with its gradient.
const MAX_BLOCKS: usize = 10_000;

/// Most texts and messages directly inside one message, and most variables and ops of a program. In
/// a file a part may take two bytes, in memory it takes hundreds.
const MAX_PARTS: usize = 1_000_000;

impl Program {
    /// The program as Paddle's `ProgramDesc` message.
    pub fn to_bytes(&self) -> Vec<u8> {
        write::program(self)
    }

    /// Reads a `ProgramDesc` message.
    ///
    /// # Errors
    /// [`Error::Proto`] when the bytes are no such message, or hold something this crate has no
    /// word for; it names the block, variable, op or attribute.
    pub fn from_bytes(bytes: &[u8]) -> Result<Program> {
        if bytes.len() > MAX_PROGRAM_BYTES {
            let size = bytes.len();
            return bad("program", format!("{size} bytes are more than {MAX_PROGRAM_BYTES}"));
        }
        read::program(bytes)
    }
}

fn bad<T>(place: impl Into<String>, problem: impl Into<String>) -> Result<T> {
    Err(Error::Proto { place: place.into(), problem: problem.into() })
}

fn decode<M: prost::Message + Default>(bytes: &[u8], place: &dyn Fn() -> String) -> Result<M> {
    if has_too_many_parts(bytes) {
        return bad(place(), format!("it has more than {MAX_PARTS} parts"));
    }
    match M::decode(bytes) {
        Ok(message) => Ok(message),
        Err(error) => {
            bad(place(), format!("{error} (is it a `.pdmodel` or `__model__` file, and complete?)"))
        }
    }
}

/// Looks at the keys only. Damage is not reported: decoding finds it again.
fn has_too_many_parts(mut bytes: &[u8]) -> bool {
    // A part has a key and a length.
    if bytes.len() <= 2 * MAX_PARTS {
        return false;
    }
    let mut parts = 0;
    while let Ok((tag, wire_type)) = decode_key(&mut bytes) {
        parts += usize::from(wire_type == WireType::LengthDelimited);
        if parts > MAX_PARTS {
            return true;
        }
        if skip_field(wire_type, tag, &mut bytes, DecodeContext::default()).is_err() {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests;
