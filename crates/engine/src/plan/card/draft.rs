//! Decides what of a step fits onto a card before anything is taken of it.

#![expect(unsafe_code, reason = "cells are shared by plans, which take turns")]

use std::collections::HashSet;
use std::sync::Arc;

use super::build::{Builder, Sketch};
use super::tables;
use crate::device::{Device, MemoryPlan};
use crate::op::Meta;
use crate::plan::Plan;
use crate::plan::layout::{FeedShape, Source, common_rows, infer_all, infer_from};
use crate::plan::place::{Deciding, Places};
use crate::plan::select::VarId;
use crate::tensor::Dims;
use crate::{Error, Result};

/// This part of a card's memory is left to libraries and recordings.
const SPARE: usize = 64;
/// A variable smaller than this part of a card's memory may be copied in every step.
const SMALL: usize = 4096;

/// A step whose shapes are known.
pub(super) struct Draft<'a> {
    pub(super) source: &'a Source<'a>,
    pub(super) metas: &'a [Option<Meta>],
    pub(super) device: &'a Arc<dyn Device>,
    pub(super) check_finite: bool,
}

impl Draft<'_> {
    /// Which tables stay on the host: the largest, as many as it takes for the rest to fit.
    pub(super) fn choose_tables(&mut self) -> Result<HashSet<VarId>> {
        let mut at_home = tables::known(self.source);
        let Ok(memory) = self.device.memory() else { return Ok(at_home) };
        let (room, least) =
            (memory.free.saturating_sub(memory.total / SPARE), memory.total / SMALL);
        loop {
            let plan = self.plan(&at_home)?;
            // What stays at home gives its memory back.
            let given = at_home.iter().map(|var| self.source.cells[var].bytes_on(self.device));
            let fits = plan.missing() <= room.saturating_add(given.sum::<usize>());
            if fits || !tables::add_largest(self.source, self.metas, least, &mut at_home) {
                return Ok(at_home);
            }
        }
    }

    /// What the step takes while these tables stay on the host.
    pub(super) fn plan(&self, at_home: &HashSet<VarId>) -> Result<MemoryPlan> {
        self.with_builder(at_home, |_, _, plan| Ok(plan))
    }

    pub(super) fn with_builder<T>(
        &self,
        at_home: &HashSet<VarId>,
        work: impl FnOnce(Builder<'_>, Sketch, MemoryPlan) -> Result<T>,
    ) -> Result<T> {
        let Draft { source, metas, device, check_finite } = *self;
        let by =
            Deciding { seed: source.seed, device: device.as_ref(), at_home, link: source.link };
        let places = Places::assign(source.selection, metas, by)?;
        let builder = Builder::new(source, &places, device, at_home, check_finite);
        let sketch = builder.sketch()?;
        let plan = builder.memory(&sketch)?;
        work(builder, sketch, plan)
    }
}

/// The largest batch below `rows` with which the step would fit.
pub(super) fn largest_batch(
    source: &Source<'_>,
    shapes: &[FeedShape],
    device: &Arc<dyn Device>,
    rows: usize,
) -> Option<usize> {
    let memory = device.memory().ok()?;
    let free = memory.free.saturating_sub(memory.total / SPARE);
    let fits = |batch: usize| -> Result<bool> {
        let resized = |shape: &FeedShape| FeedShape { dims: shape.dims.with_rows(batch), ..*shape };
        let shapes: Vec<FeedShape> = shapes.iter().map(resized).collect();
        let metas = infer_all(source, &shapes)?;
        let draft = Draft { source, metas: &metas, device, check_finite: false };
        Ok(draft.plan(&tables::known(source))?.missing() <= free)
    };
    let (mut least, mut most) = (0, rows);
    while least + 1 < most {
        let middle = least + (most - least) / 2;
        match fits(middle) {
            Ok(true) => least = middle,
            Ok(false) => most = middle,
            Err(_) => return None,
        }
    }
    (least > 0).then_some(least)
}

/// The error of a step that does not fit.
pub(super) fn too_little(plan: &MemoryPlan, most: Option<usize>) -> Error {
    let step = match plan.batch {
        0 => "this step".to_owned(),
        rows => format!("a step with a batch of {rows}"),
    };
    let advice = match (plan.batch, most) {
        (0, _) => "use a smaller model, or a card with more memory".to_owned(),
        (_, Some(most)) => format!("a batch of at most {most} would fit"),
        (_, None) => {
            "no batch would fit: use a smaller model, or a card with more memory".to_owned()
        }
    };
    let problem = format!("the card is out of memory: {step} takes {plan}; {advice}");
    Error::DeviceMemory { problem }
}

impl Plan {
    /// What a step with feeds of these shapes would take of the card, by what the program declares where the
    /// scope has nothing yet.
    ///
    /// # Errors
    /// When there is no card, or shapes do not fit.
    pub(crate) fn memory_plan(&self, shapes: &[FeedShape]) -> Result<MemoryPlan> {
        let Some(device) = self.device() else {
            return Err(Error::kernel("a plan of memory is about a card: use `Executor::on`"));
        };
        let scope = self.scope.clone();
        let _turn = scope.alone(&|| false)?;
        let source = self.source(1);
        let mut metas: Vec<Option<Meta>> = vec![None; source.selection.vars.len()];
        for (var, shape) in source.selection.feeds.iter().zip(shapes) {
            metas[*var] = Some(shape.meta());
        }
        for (var, cell) in source.cells {
            // SAFETY: this plan is alone on the scope.
            let meta = unsafe { cell.meta() };
            let declared = source.selection.vars[*var].declared.as_ref().map(Meta::of);
            metas[*var] = meta.or(declared);
        }
        let metas = infer_from(&source, metas)?;
        let check_finite = self.check_finite;
        let mut draft = Draft { source: &source, metas: &metas, device, check_finite };
        let at_home = draft.choose_tables()?;
        let plan = draft.plan(&at_home)?;
        Ok(MemoryPlan { batch: common_rows(shapes), ..plan })
    }
}

/// The shape of a feed that is not there yet, with `batch` in the place of what is open.
///
/// # Errors
/// When its declaration is not one of a tensor.
pub(crate) fn shape_of(var: &bireme_ir::Var, batch: usize) -> Result<FeedShape> {
    let refused = |problem: String| Error::Feed { var: var.name.clone(), problem };
    Meta::of(var).check_size().map_err(refused)?;
    let dims: Vec<usize> =
        var.shape.iter().map(|dim| usize::try_from(*dim).unwrap_or(batch)).collect();
    let dims = Dims::new(&dims);
    let dims = if var.lod_level > 0 { dims.with_rows(0) } else { dims };
    Ok(FeedShape { dtype: var.dtype, dims, lod_level: var.lod_level })
}
