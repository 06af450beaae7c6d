//! Puts together dense values that came in pieces because they are too large for one message.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bireme_engine::tensor::Tensor;

use crate::message::Array;
use crate::{Error, Result};

/// Values of which pieces are missing, by who sends them and their names.
#[derive(Default)]
pub struct Assembly {
    partial: Mutex<HashMap<(u32, String), Partial>>,
}

struct Partial {
    tensor: Tensor,
    /// Elements that are here.
    filled: u64,
}

impl Assembly {
    /// Nothing begun.
    pub fn new() -> Assembly {
        Assembly::default()
    }

    /// Takes a piece of a value whose type and shape the caller has checked. Returns the whole one
    /// when nothing is missing any more.
    ///
    /// # Errors
    /// When the piece does not belong to the pieces before it.
    pub fn take(&self, trainer: u32, name: &str, piece: &Array<'_>) -> Result<Option<Tensor>> {
        let mut partial = self.partial.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (trainer, name.to_owned());
        let entry = partial.entry(key.clone()).or_insert_with(|| Partial {
            tensor: Tensor::zeros(piece.dtype(), piece.dims()),
            filled: 0,
        });
        piece.store_tensor(&mut entry.tensor)?;
        entry.filled += (piece.bytes().len() / piece.dtype().size()) as u64;
        let all = entry.tensor.numel() as u64;
        if entry.filled < all {
            return Ok(None);
        }
        let done = partial.remove(&key);
        match done {
            Some(done) if done.filled == all => Ok(Some(done.tensor)),
            _ => Err(Error::Request(format!("pieces of `{name}` overlap"))),
        }
    }

    /// Forgets what a trainer began: it is gone.
    pub fn forget(&self, trainer: u32) {
        let mut partial = self.partial.lock().unwrap_or_else(PoisonError::into_inner);
        partial.retain(|(of, _), _| *of != trainer);
    }
}
