//! A block's update at a barrier, by what has come since the last one: in one part, or in as many as
//! there are ranges of rows, which may run side by side in any order.

use std::sync::atomic::Ordering;

use bireme_engine::tensor::Tensor;

use super::ranges::Round;
use super::{Block, Shared};
use crate::Result;

/// An update that has begun.
pub struct BlockUpdate(Kind);

enum Kind {
    Whole,
    /// Range by range.
    Ranges(Round),
}

impl Block {
    /// Runs the ops on what has come since the last update; returns whether anything had.
    ///
    /// # Errors
    /// When an op refuses.
    pub fn update(&self, shared: &Shared, step: u64) -> Result<bool> {
        let Some(update) = self.begin_update(shared, step)? else { return Ok(false) };
        let mut parts = 0..self.parts(&update);
        parts.try_for_each(|part| self.update_part(&update, part, shared, step))?;
        Ok(true)
    }

    /// Begins the update by what has come since the last one, which is made by
    /// [`Block::update_part`]; none when nothing has come.
    ///
    /// # Errors
    /// When an op refuses.
    pub fn begin_update(&self, shared: &Shared, step: u64) -> Result<Option<BlockUpdate>> {
        let Some(ranges) = &self.ranges else {
            let has_arrived = !self.read_unit().arrived.is_empty();
            return Ok(has_arrived.then_some(BlockUpdate(Kind::Whole)));
        };
        if !ranges.has_arrived() {
            return Ok(None);
        }
        let unit = self.ready_unit(shared)?;
        Ok(Some(BlockUpdate(Kind::Ranges(ranges.begin(&unit.values, step)?))))
    }

    /// How many parts an update has.
    pub fn parts(&self, update: &BlockUpdate) -> usize {
        match (&update.0, &self.ranges) {
            (Kind::Ranges(_), Some(ranges)) => ranges.len(),
            _ => 1,
        }
    }

    /// Elements that an update touches, a measure of its work.
    pub fn update_size(&self, update: &BlockUpdate) -> usize {
        match &update.0 {
            Kind::Ranges(round) => round.elements(),
            Kind::Whole => {
                let unit = self.read_unit();
                let param = self.param().and_then(|param| self.kept_as(param).ok());
                param.and_then(|at| unit.values[at].tensor().ok()).map_or(0, Tensor::numel)
            }
        }
    }

    /// Makes one part of an update.
    ///
    /// # Errors
    /// When an op refuses.
    pub fn update_part(
        &self,
        update: &BlockUpdate,
        part: usize,
        shared: &Shared,
        step: u64,
    ) -> Result<()> {
        if let (Kind::Ranges(round), Some(ranges)) = (&update.0, &self.ranges) {
            let unit = self.share_unit();
            let made = ranges.run(part, &unit.values, round);
            unit.version.fetch_add(1, Ordering::AcqRel);
            return made;
        }
        let unit = &mut *self.change_unit()?;
        self.copy_shared(unit, shared);
        let arrived = std::mem::take(&mut unit.arrived);
        self.run(unit, &arrived, |routine, values| routine.run_on(values, step))
    }
}
