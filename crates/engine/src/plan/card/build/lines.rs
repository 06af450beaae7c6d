//! Puts variables into lines, and takes them out.

#![expect(unsafe_code, reason = "cells are shared by plans, which take turns")]

use std::collections::HashMap;
use std::sync::Arc;

use super::Builder;
use crate::Result;
use crate::device::{DeviceTensor, DeviceValue};
use crate::plan::select::VarId;
use crate::scope::Cell;
use crate::tensor::Dims;

impl Builder<'_> {
    /// Variables that move into lines, with what they hold; they are not in their cells yet.
    pub(super) fn new_lines(&self) -> Result<HashMap<VarId, DeviceValue>> {
        let mut values = HashMap::new();
        for members in &self.places.lines.new {
            let meta = &self.meta(members[0])?.meta;
            let dims: Vec<usize> = meta.dims.iter().map(|dim| *dim as usize).collect();
            let (rows, width, size) = (dims[0], dims[1], meta.dtype.size());
            let pitch = width * members.len();
            let region = self.device.allocate(rows * pitch * size)?;
            for (at, var) in members.iter().enumerate() {
                let (dims, offset) = (Dims::new(&dims), at * width * size);
                let mut tensor = DeviceTensor::in_line(meta.dtype, dims, &region, offset, pitch);
                let cell = &self.source.cells[var];
                // SAFETY: who makes a layout is alone on the scope.
                unsafe {
                    if cell.meta().as_ref() == Some(meta) {
                        cell.copy_to(&mut tensor)?;
                    }
                }
                values.insert(*var, DeviceValue::Tensor(tensor));
            }
        }
        Ok(values)
    }

    /// Bytes that variables which move into lines take where they are now.
    pub(in super::super) fn moved(&self) -> usize {
        let moving = self.places.lines.new.iter().flatten();
        moving.map(|var| self.source.cells[var].bytes_on(self.device)).sum()
    }

    /// Variables that lie in lines, where an op of this step that reads them does not find them.
    pub(super) fn leaving(&self) -> impl Iterator<Item = &Arc<Cell>> {
        let is_read = |var: &VarId| self.selection.ops.iter().any(|op| op.inputs.contains(var));
        let leaving = self.kept.iter().filter(move |var| {
            self.places.metas[**var].as_ref().is_some_and(|meta| {
                let there = self.source.cells[*var].pitch_on(self.device.as_ref(), &meta.meta);
                there.is_some() && !meta.in_line && is_read(var)
            })
        });
        leaving.map(|var| &self.source.cells[var])
    }
}
