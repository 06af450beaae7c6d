//! Binomial trees: broadcast from a root, reduce to it, and the barrier that needs none.

use super::pieces;
use crate::element::fold;
use crate::group::Turn;
use crate::{Element, Reduce, Result};

impl Turn<'_> {
    /// Piece by piece, so that a rank passes on while it receives.
    pub(super) fn tree_broadcast(&self, data: &mut [u8], root: usize) -> Result<()> {
        let (parent, children) = self.tree(root);
        for piece in pieces::<u8>(0..data.len()) {
            let piece = &mut data[piece];
            if let Some(parent) = parent {
                piece.copy_from_slice(&self.receive(parent, piece.len())?);
            }
            // The child with most ranks below it first.
            children.iter().rev().try_for_each(|child| self.send(*child, piece))?;
        }
        Ok(())
    }

    pub(super) fn tree_reduce<T: Element>(
        &self,
        data: &mut [T],
        op: Reduce,
        root: usize,
    ) -> Result<()> {
        let (parent, children) = self.tree(root);
        let mut own = data.to_vec();
        for child in children {
            let body = self.receive(child, size_of_val(data))?;
            fold(op, &mut own, bytemuck::cast_slice(&body));
        }
        match parent {
            Some(parent) => self.send(parent, bytemuck::cast_slice(&own)),
            None => {
                data.copy_from_slice(&own);
                Ok(())
            }
        }
    }

    /// After round k each rank has heard, through others, of the 2^k before it.
    pub(crate) fn wire_barrier(&self) -> Result<()> {
        let (rank, size) = (self.rank(), self.size());
        let mut distance = 1;
        while distance < size {
            self.send((rank + distance) % size, &[])?;
            self.receive((rank + size - distance) % size, 0)?;
            distance *= 2;
        }
        Ok(())
    }

    /// The parent and the children of this rank in the tree of a root, the nearest child first.
    fn tree(&self, root: usize) -> (Option<usize>, Vec<usize>) {
        let size = self.size();
        let place = (self.rank() + size - root) % size;
        let rank = |place: usize| (place + root) % size;
        let lowest =
            if place == 0 { size.next_power_of_two() } else { place & place.wrapping_neg() };
        let parent = (place > 0).then(|| rank(place - lowest));
        let distances = (0..).map(|bit| 1 << bit).take_while(|distance| *distance < lowest);
        let children = distances.map(|distance| place + distance).filter(|child| *child < size);
        (parent, children.map(rank).collect())
    }
}
