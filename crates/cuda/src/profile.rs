//! How long each piece of a recorded step takes by itself.

use std::fmt;
use std::sync::Arc;

/// A recording, piece by piece. Each was run alone, so that the sum is more than the step takes, in which some run
/// side by side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// In the order of the program.
    pub pieces: Vec<Piece>,
}

/// A piece of work of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// The type of the op that it belongs to.
    pub op: &'static str,
    /// What is done.
    pub work: PieceWork,
    /// Microseconds.
    pub us: f32,
}

/// What a card is given to do.
#[derive(Clone, Debug, PartialEq)]
pub enum PieceWork {
    /// A kernel.
    Kernel {
        /// Its name.
        name: Arc<str>,
        /// Its blocks, and threads of each.
        blocks: [u32; 3],
        /// As above.
        threads: u32,
    },
    /// A product of two matrices.
    Product {
        /// The sizes of the product: rows, columns, and terms of each sum.
        size: [usize; 3],
        /// Whether the factors are transposed.
        transposed: [bool; 2],
    },
    /// Bytes that are copied.
    Copy(usize),
    /// Bytes that are set to zero.
    Clear(usize),
    /// Bytes of each rank that cards exchange.
    Exchange(usize),
}

impl Profile {
    /// Microseconds of all pieces, one after the other.
    pub fn total_us(&self) -> f32 {
        self.pieces.iter().map(|piece| piece.us).sum()
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Piece { op, work, us }) in self.pieces.iter().enumerate() {
            writeln!(f, "{at:>4}  {us:>8.1} us  {op}: {work}")?;
        }
        write!(f, "{} pieces, {:.1} us one after the other", self.pieces.len(), self.total_us())
    }
}

impl fmt::Display for PieceWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PieceWork::Kernel { name, blocks, threads } => {
                write!(f, "{name} {blocks:?} x {threads}")
            }
            PieceWork::Product { size: [m, n, k], transposed: [a, b] } => {
                let mark = |is_transposed| if is_transposed { "ᵀ" } else { "" };
                write!(f, "product {m}x{n}x{k}, A{} B{}", mark(*a), mark(*b))
            }
            PieceWork::Copy(bytes) => write!(f, "copy of {bytes} bytes"),
            PieceWork::Clear(bytes) => write!(f, "clear of {bytes} bytes"),
            PieceWork::Exchange(bytes) => write!(f, "exchange of {bytes} bytes"),
        }
    }
}
