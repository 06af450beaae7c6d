//! A card as eager mode uses it.

use std::sync::{Arc, Mutex, PoisonError};

use bireme_ir::DType;

use super::held::{Held, Outline};
use super::prepared::at_call;
use crate::device::{Address, Complaints, Device, DeviceRows, DeviceTensor, DeviceValue, refused};
use crate::tensor::Dims;
use crate::{Place, Result};

/// A card with what eager ops need there. It is made by [`crate::eager::Session::card`], once for each.
pub struct EagerCard {
    device: Arc<dyn Device>,
    /// Where kernels complain; the number of an op is its place in the list of definitions.
    complaints: Mutex<Box<dyn Complaints>>,
    complaints_at: Address,
}

impl EagerCard {
    pub(super) fn new(device: Arc<dyn Device>) -> Result<EagerCard> {
        let complaints = device.complaints()?;
        let complaints_at = complaints.address();
        let complaints = Mutex::new(complaints);
        Ok(EagerCard { device, complaints, complaints_at })
    }

    /// The card.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Which one it is.
    pub fn place(&self) -> Place {
        self.device.place()
    }

    /// Waits until all work is done.
    ///
    /// # Errors
    /// When the card is lost, or an op failed that was run before.
    pub fn synchronize(&self) -> Result<()> {
        self.device.synchronize()?;
        self.check()
    }

    /// Whether no op has complained, as far as is known: this waits for nothing unless one has.
    ///
    /// # Errors
    /// When one has; each is told once.
    pub fn check(&self) -> Result<()> {
        let complaint = self.complaints.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let Some(complaint) = complaint else { return Ok(()) };
        let op = crate::ops::all().nth(complaint.op as usize).map_or("?", |def| def.name);
        Err(at_call(refused(&complaint), op, &["run on the card before".to_owned()]))
    }

    pub(super) fn complaints_at(&self) -> Address {
        self.complaints_at
    }

    /// Memory for an output, of which nothing is known.
    pub(super) fn unwritten(&self, outline: &Outline) -> Result<DeviceValue> {
        let Outline { dtype, dims, rows, .. } = *outline;
        let device = self.device.as_ref();
        let Some(count) = rows else {
            return Ok(DeviceValue::Tensor(DeviceTensor::exact(device, dtype, dims)?));
        };
        Ok(DeviceValue::Rows(DeviceRows {
            rows: DeviceTensor::exact(device, DType::I64, Dims::new(&[count]))?,
            height: dims.first().copied().unwrap_or(0),
            value: DeviceTensor::exact(device, dtype, dims.with_rows(count))?,
        }))
    }

    /// Zeros.
    ///
    /// # Errors
    /// When the card has no memory for them.
    pub fn zeros(self: &Arc<Self>, dtype: DType, dims: Dims) -> Result<Held> {
        let zeros = DeviceTensor::exact(self.device.as_ref(), dtype, dims)?;
        self.device.clear(zeros.address(), zeros.bytes())?;
        Ok(Held::on_card(self, DeviceValue::Tensor(zeros)))
    }
}
