//! The text form of a program: what `print(program)` shows in Paddle, made to parse back.
//!
//! ```text
//! random_seed 90
//! { // block 0
//!     var x : LOD_TENSOR.shape(-1, 13).dtype(float32).stop_gradient(True)
//!     persist trainable param fc_0.w_0 : LOD_TENSOR.shape(13, 1).dtype(float32).stop_gradient(False)
//!     var fc_0.tmp_0 : LOD_TENSOR.shape(-1, 1).dtype(float32).stop_gradient(False)
//!
//!     {Out=['fc_0.tmp_0']} = mul(inputs={X=['x'], Y=['fc_0.w_0']}, x_num_col_dims = 1)  # at fit.py:7
//! }
//! ```
//!
//! One declaration or op a line; facts that have their default are left out, except those that
//! Paddle prints; a line that starts with `#` is a comment. Every value shows its type:
//!
//! | type | spelling |
//! |---|---|
//! | int, long | `3`, `3L` |
//! | float, float64 | `0.5`, `0.5D` (also `inf`, `-inf`, `nan`, `infD`, …) |
//! | bool, string | `True`, `'NCHW'` with `\n`, `\'`, `\u{7}` and the like escaped |
//! | lists of these | `[3, 4]`, `[0.5D]`, `['a']`; an empty one names its type: `ints[]`, `strings[]` |
//! | block, blocks | `block[1]`, `blocks[1, 2]` |
//! | var, vars | `var['x']`, `vars['x', 'y']` |
//! | scalar, scalars | `scalar(3)`, `scalars[True, 3, 0.5, complex(1.0, 2.0)]` |
//!
//! Printing then parsing gives the same program, call sites included, for every program whose
//! blocks are numbered in order; NaNs come back as NaNs.

mod cursor;
mod parse;
mod print;
mod value;

use crate::{Program, Result};

impl Program {
    /// Reads the text form, as `Display` writes it.
    ///
    /// # Errors
    /// [`Error::Text`](crate::Error::Text) with the line and column of the first thing that is not
    /// as expected.
    pub fn parse(text: &str) -> Result<Program> {
        parse::program(text)
    }
}

/// Whether `name` can stand without quotes.
fn is_bare(name: &str) -> bool {
    !name.is_empty() && name.chars().all(is_bare_char)
}

/// Characters of names that are written without quotes: all that Paddle's own names use.
fn is_bare_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_.@/-+$|".contains(c)
}

#[cfg(test)]
mod tests;
