//! The blocks of a program, shared by its copies until one of them is changed: a copy costs nothing,
//! and whether it is still the same is seen without looking at an op.

use std::ops::{Deref, DerefMut};
use std::slice;
use std::sync::Arc;

use crate::Block;

/// A list of blocks, copied on write.
#[derive(Clone, Debug)]
pub struct Blocks(Arc<Vec<Block>>);

impl From<Vec<Block>> for Blocks {
    fn from(blocks: Vec<Block>) -> Blocks {
        Blocks(Arc::new(blocks))
    }
}

impl Deref for Blocks {
    type Target = Vec<Block>;

    fn deref(&self) -> &Vec<Block> {
        &self.0
    }
}

impl DerefMut for Blocks {
    fn deref_mut(&mut self) -> &mut Vec<Block> {
        Arc::make_mut(&mut self.0)
    }
}

impl PartialEq for Blocks {
    fn eq(&self, other: &Blocks) -> bool {
        // What is shared cannot have been changed since.
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl<'a> IntoIterator for &'a Blocks {
    type Item = &'a Block;
    type IntoIter = slice::Iter<'a, Block>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut Blocks {
    type Item = &'a mut Block;
    type IntoIter = slice::IterMut<'a, Block>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}
