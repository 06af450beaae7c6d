//! A card on paper: it says which ops a card runs and how much memory they need, and runs nothing.

use std::sync::Arc;

use bireme_engine::device::{
    Address, Complaints, Device, DeviceCall, DeviceKernel, DeviceMemory, DeviceMeta, Recording,
    Region, Uploads,
};
use bireme_engine::op::OpView;
use bireme_engine::{Error, Place, Result};
use bireme_ir::DType;

use crate::device::relu_rows;
use crate::lower::{self, Lowered};

/// A card that is not there.
#[derive(Debug)]
pub(crate) struct Paper;

/// The need of an op.
struct Need {
    scratch: usize,
}

fn refused<T>() -> Result<T> {
    Err(Error::Device { problem: "a card on paper runs nothing".to_owned() })
}

impl DeviceKernel for Need {
    fn scratch(&self) -> usize {
        self.scratch
    }

    fn counts_steps(&self) -> bool {
        false
    }

    fn launch(&self, _call: &DeviceCall<'_>) -> Result<()> {
        refused()
    }
}

impl Device for Paper {
    fn place(&self) -> Place {
        Place::Cuda(0)
    }

    fn describe(&self) -> String {
        "a card on paper".to_owned()
    }

    fn memory(&self) -> Result<DeviceMemory> {
        refused()
    }

    fn allocate(&self, _bytes: usize) -> Result<Arc<dyn Region>> {
        refused()
    }

    fn upload(&self, _from: &[u8], _to: Address) -> Result<()> {
        refused()
    }

    fn download(&self, _from: Address, _to: &mut [u8]) -> Result<()> {
        refused()
    }

    fn copy(&self, _from: Address, _to: Address, _bytes: usize) -> Result<()> {
        refused()
    }

    fn clear(&self, _at: Address, _bytes: usize) -> Result<()> {
        refused()
    }

    fn kernel(
        &self,
        op: &OpView<'_>,
        inputs: &[DeviceMeta],
        outputs: &mut [DeviceMeta],
    ) -> Result<Option<Arc<dyn DeviceKernel>>> {
        let lowered = lower::lowered(op, inputs, outputs)?;
        Ok(lowered
            .map(|Lowered { scratch, .. }| Arc::new(Need { scratch }) as Arc<dyn DeviceKernel>))
    }

    fn takes_gaps(&self, op: &str) -> &'static [&'static str] {
        lower::takes_gaps(op)
    }

    fn lines(&self, op: &str) -> &'static [&'static str] {
        lower::lines(op)
    }

    fn rows_through_relu(&self) -> usize {
        relu_rows()
    }

    fn takes_lines(&self, op: &str) -> &'static [&'static str] {
        lower::takes_lines(op)
    }

    fn takes_views(&self, op: &str) -> &'static [&'static str] {
        lower::takes_views(op)
    }

    fn uploads(&self, _bytes: &[usize]) -> Result<Box<dyn Uploads>> {
        refused()
    }

    fn record(&self, _work: &mut dyn FnMut() -> Result<()>) -> Result<Box<dyn Recording>> {
        refused()
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn complaints(&self) -> Result<Box<dyn Complaints>> {
        refused()
    }

    fn check_finite(
        &self,
        _at: Address,
        _dtype: DType,
        _count: usize,
        _op: u32,
        _complaints: Address,
    ) -> Result<()> {
        refused()
    }
}
