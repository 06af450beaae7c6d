//! Values in the memory of a card.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;

use bireme_ir::{DType, VarKind};

use super::{Address, Arrival, Device, Operand, ROW_ROOM, Region};
use crate::Result;
use crate::op::Meta;
use crate::tensor::{Dims, Lod, SelectedRows, Tensor};
use crate::value::Value;

/// The number of a selected row that is none. How many rows a result has must be known before the data is, so
/// a card keeps the places of those that the data leaves out: padding, and rows that were added to another.
/// Kernels pass over them, and copies on the host are without them.
pub const NO_ROW: i64 = i64::MIN;

/// What a variable holds, on a card.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceValue {
    /// A dense tensor.
    Tensor(DeviceTensor),
    /// Rows of a taller tensor.
    Rows(DeviceRows),
}

/// A dense, row-major array on a card.
#[derive(Debug)]
pub struct DeviceTensor {
    dtype: DType,
    dims: Dims,
    lod: Lod,
    region: Arc<dyn Region>,
    offset: usize,
    /// Whether the room behind its rows holds zeros.
    zeros_follow: bool,
    /// Elements from one row to the next, where rows of other variables lie between them.
    pitch: Option<usize>,
}

/// Rows of a taller tensor, on a card.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceRows {
    /// Which row each is, as 64-bit numbers.
    pub rows: DeviceTensor,
    /// Rows of the tall tensor.
    pub height: usize,
    /// One row for each number.
    pub value: DeviceTensor,
}

impl DeviceTensor {
    /// A tensor in new memory, of which nothing is known but that zeros follow it.
    ///
    /// # Errors
    /// When the card has no memory for it.
    pub fn new(device: &dyn Device, dtype: DType, dims: Dims) -> Result<DeviceTensor> {
        let bytes = dims.numel() * dtype.size();
        let all = bytes_with_room(dtype, &dims, None);
        let region = device.allocate(all)?;
        device.clear(region.address().plus(bytes), all - bytes)?;
        let zeros_follow = true;
        Ok(DeviceTensor {
            dtype,
            dims,
            lod: Lod::new(),
            region,
            offset: 0,
            zeros_follow,
            pitch: None,
        })
    }

    /// A tensor in new memory, of which nothing is known, with no room behind it.
    ///
    /// # Errors
    /// When the card has no memory for it.
    pub fn exact(device: &dyn Device, dtype: DType, dims: Dims) -> Result<DeviceTensor> {
        let region = device.allocate(dims.numel() * dtype.size())?;
        let zeros_follow = false;
        Ok(DeviceTensor {
            dtype,
            dims,
            lod: Lod::new(),
            region,
            offset: 0,
            zeros_follow,
            pitch: None,
        })
    }

    /// A tensor at `offset` of memory that others may use, too.
    ///
    /// # Panics
    /// When it does not lie inside.
    pub fn window(
        dtype: DType,
        dims: Dims,
        region: &Arc<dyn Region>,
        offset: usize,
    ) -> DeviceTensor {
        let bytes = dims.numel() * dtype.size();
        assert!(offset + bytes <= region.bytes(), "a window lies inside its region");
        let (lod, region) = (Lod::new(), Arc::clone(region));
        DeviceTensor { dtype, dims, lod, region, offset, zeros_follow: false, pitch: None }
    }

    /// A matrix whose rows lie `pitch` elements apart, from `offset` on, in memory that has rows of others between them.
    ///
    /// # Panics
    /// When it does not lie inside, or is no matrix.
    pub(crate) fn in_line(
        dtype: DType,
        dims: Dims,
        region: &Arc<dyn Region>,
        offset: usize,
        pitch: usize,
    ) -> DeviceTensor {
        let [rows, width] = dims[..] else { panic!("what lies in lines is a matrix: {dims:?}") };
        let end = (rows.saturating_sub(1) * pitch + width) * dtype.size();
        assert!(width <= pitch && offset + end <= region.bytes(), "lines lie inside their region");
        let (lod, region, pitch) = (Lod::new(), Arc::clone(region), Some(pitch));
        DeviceTensor { dtype, dims, lod, region, offset, zeros_follow: false, pitch }
    }

    /// What lies behind so many elements of it, as a vector.
    ///
    /// # Panics
    /// When there are fewer.
    pub(crate) fn behind(&self, elements: usize) -> DeviceTensor {
        let rest = Dims::new(&[self.dims.numel() - elements]);
        let offset = self.offset + elements * self.dtype.size();
        DeviceTensor::window(self.dtype, rest, &self.region, offset)
    }

    /// A copy of a tensor of the host.
    ///
    /// # Errors
    /// When the card has no memory for it.
    pub fn upload(device: &dyn Device, tensor: &Tensor) -> Result<DeviceTensor> {
        let mut made = DeviceTensor::new(device, tensor.dtype(), tensor.dims())?;
        made.write(tensor)?;
        Ok(made)
    }

    /// Overwrites it with a tensor of the host of the same type and shape.
    ///
    /// # Errors
    /// When the card is lost.
    ///
    /// # Panics
    /// When the sizes differ.
    pub fn write(&mut self, tensor: &Tensor) -> Result<()> {
        assert_eq!(tensor.as_bytes().len(), self.bytes(), "as large as what it overwrites");
        self.lod.clone_from(tensor.lod());
        let (device, from) = (self.device(), tensor.as_bytes());
        let Some(lined) = self.lined() else { return device.upload(from, self.address()) };
        let staged = Staging::new(device, &lined)?;
        for (rows, chunk) in staged.chunks(&lined).zip(from.chunks(staged.rows * lined.row_bytes)) {
            device.upload(chunk, staged.at.address())?;
            let to = (lined.row(rows.start), lined.pitch);
            device.copy_rows(
                (staged.at.address(), lined.row_bytes),
                to,
                rows.len(),
                lined.row_bytes,
            )?;
        }
        Ok(())
    }

    /// As [`DeviceTensor::write`], some time later where `tensor` lies in page-locked memory: says whether it must be
    /// left alone until then.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    pub(crate) fn write_later(&mut self, tensor: &Tensor) -> Result<bool> {
        let Some(memory) = tensor.page_locked().filter(|_| self.lined().is_none()) else {
            return self.write(tensor).map(|()| false);
        };
        assert_eq!(tensor.as_bytes().len(), self.bytes(), "as large as what it overwrites");
        self.lod.clone_from(tensor.lod());
        self.device().upload_page_locked(memory, self.bytes(), self.address())?;
        Ok(true)
    }

    /// As [`DeviceTensor::download_to`], some time later where `tensor` lies in page-locked memory: it must be left
    /// alone until the copy has arrived.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn download_later(&self, tensor: &mut Tensor) -> Result<Option<Box<dyn Arrival>>> {
        tensor.resize(self.dtype, self.dims);
        let Some(memory) = tensor.page_locked().filter(|_| self.lined().is_none()) else {
            return self.download_to(tensor).map(|()| None);
        };
        let on_its_way =
            self.device().download_page_locked(self.address(), self.bytes(), memory)?;
        tensor.set_lod(&self.lod);
        Ok(Some(on_its_way))
    }

    /// A copy on the host.
    ///
    /// # Errors
    /// When the card is lost, or an earlier kernel failed.
    pub fn download(&self) -> Result<Tensor> {
        let mut tensor = Tensor::zeros(self.dtype, self.dims);
        self.download_to(&mut tensor)?;
        Ok(tensor)
    }

    /// Copies to a tensor of the host, which takes this one's type and shape.
    ///
    /// # Errors
    /// As [`DeviceTensor::download`].
    pub fn download_to(&self, tensor: &mut Tensor) -> Result<()> {
        tensor.resize(self.dtype, self.dims);
        tensor.set_lod(&self.lod);
        let (device, to) = (self.device(), tensor.as_mut_bytes());
        let Some(lined) = self.lined() else { return device.download(self.address(), to) };
        let staged = Staging::new(device, &lined)?;
        for (rows, chunk) in staged.chunks(&lined).zip(to.chunks_mut(staged.rows * lined.row_bytes))
        {
            let from = (lined.row(rows.start), lined.pitch);
            device.copy_rows(
                from,
                (staged.at.address(), lined.row_bytes),
                rows.len(),
                lined.row_bytes,
            )?;
            device.download(staged.at.address(), chunk)?;
        }
        Ok(())
    }

    /// How its rows lie, where not one behind the other.
    fn lined(&self) -> Option<Lined> {
        let (pitch, size) = (self.pitch?, self.dtype.size());
        let [rows, width] = self.dims[..] else { return None };
        let (first, pitch, row_bytes) = (self.address(), pitch * size, width * size);
        (rows > 0 && row_bytes > 0).then_some(Lined { first, rows, row_bytes, pitch })
    }

    /// Overwrites it with another tensor of its card, of the same type and shape.
    ///
    /// # Errors
    /// When the card is lost.
    pub(crate) fn copy_from(&mut self, from: &DeviceTensor) -> Result<()> {
        self.lod.clone_from(from.lod());
        let whole = |tensor: &DeviceTensor| Lined {
            first: tensor.address(),
            rows: 1,
            row_bytes: tensor.bytes(),
            pitch: tensor.bytes(),
        };
        let by_rows = |tensor: &DeviceTensor, like: &Lined| Lined {
            first: tensor.address(),
            pitch: like.row_bytes,
            ..*like
        };
        let (from, to) = match (from.lined(), self.lined()) {
            (Some(from), Some(to)) => (from, to),
            (Some(from), None) => (from, by_rows(self, &from)),
            (None, Some(to)) => (by_rows(from, &to), to),
            (None, None) => (whole(from), whole(self)),
        };
        let (rows, row_bytes) = (to.rows, to.row_bytes);
        if rows == 1 {
            return self.device().copy(from.first, to.first, row_bytes);
        }
        self.device().copy_rows((from.first, from.pitch), (to.first, to.pitch), rows, row_bytes)
    }

    /// Elements from one row to the next, where rows of other variables lie between them.
    pub(crate) fn pitch(&self) -> Option<usize> {
        self.pitch
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The dimensions.
    pub fn dims(&self) -> Dims {
        self.dims
    }

    /// The sequence offsets, which stay on the host.
    pub fn lod(&self) -> &Lod {
        &self.lod
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.dims.numel() * self.dtype.size()
    }

    /// Its first element.
    pub fn address(&self) -> Address {
        self.region.address().plus(self.offset)
    }

    /// The card.
    pub fn device(&self) -> &Arc<dyn Device> {
        self.region.device()
    }

    /// The same with sequence offsets.
    pub(crate) fn with_lod(mut self, lod: &Lod) -> DeviceTensor {
        self.lod.clone_from(lod);
        self
    }

    /// A copy in new memory.
    ///
    /// # Errors
    /// When the card has no memory for it.
    pub fn try_clone(&self) -> Result<DeviceTensor> {
        let device = self.device();
        let mut copy = DeviceTensor::new(device.as_ref(), self.dtype, self.dims)?;
        copy.copy_from(self)?;
        Ok(copy)
    }

    /// Whether zeros follow it, up to a multiple of [`ROW_ROOM`] rows.
    pub(crate) fn zeros_follow(&self) -> bool {
        self.zeros_follow
    }

    /// The same memory once more.
    pub(crate) fn alias(&self) -> DeviceTensor {
        let (lod, region) = (self.lod.clone(), Arc::clone(&self.region));
        DeviceTensor { lod, region, ..*self }
    }
}

/// Rows of a tensor in lines: where the first begins, how many there are, and bytes of each and from one to the next.
#[derive(Clone, Copy)]
struct Lined {
    first: Address,
    rows: usize,
    row_bytes: usize,
    pitch: usize,
}

impl Lined {
    fn row(&self, number: usize) -> Address {
        self.first.plus(number * self.pitch)
    }
}

/// Memory of the card in which rows lie one behind the other on their way to or from the host: a copy of short rows
/// over the bus, each by itself, would take many times as long.
struct Staging {
    at: Arc<dyn Region>,
    /// How many it has room for.
    rows: usize,
}

impl Staging {
    const BYTES: usize = 16 << 20;

    fn new(device: &Arc<dyn Device>, lined: &Lined) -> Result<Staging> {
        let rows = (Staging::BYTES / lined.row_bytes).clamp(1, lined.rows);
        Ok(Staging { at: device.allocate(rows * lined.row_bytes)?, rows })
    }

    /// The rows of each turn.
    fn chunks(&self, lined: &Lined) -> impl Iterator<Item = Range<usize>> + use<> {
        let (step, end) = (self.rows, lined.rows);
        (0..end).step_by(step).map(move |start| start..end.min(start + step))
    }
}

/// The size of a tensor's elements with the room behind them; `pitch` as in [`super::DeviceMeta`].
pub(crate) fn bytes_with_room(dtype: DType, dims: &[usize], pitch: Option<usize>) -> usize {
    let elements = match dims {
        [rows, width] if dtype.is_float() => {
            rows.next_multiple_of(ROW_ROOM) * pitch.unwrap_or(*width)
        }
        _ => dims.iter().product(),
    };
    elements * dtype.size()
}

impl Clone for DeviceTensor {
    /// # Panics
    /// When the card has no memory for a copy: unwinds with the error, which those who catch panics
    /// hand on as what it is, as [`crate::tensor::Buffer`] does.
    fn clone(&self) -> DeviceTensor {
        self.try_clone().unwrap_or_else(|error| resume_unwind(Box::new(error)))
    }
}

impl PartialEq for DeviceTensor {
    /// Whether both are the same memory; to compare elements, download them.
    fn eq(&self, other: &DeviceTensor) -> bool {
        let key =
            |tensor: &DeviceTensor| (tensor.dtype, tensor.dims, tensor.pitch, tensor.address());
        key(self) == key(other)
    }
}

impl DeviceRows {
    /// A copy on the host, without rows that are none ([`NO_ROW`]).
    ///
    /// # Errors
    /// As [`DeviceTensor::download`].
    pub fn download(&self) -> Result<SelectedRows> {
        let rows = self.rows.download()?.as_slice::<i64>()?.to_vec();
        let rows = SelectedRows { rows, height: self.height, value: self.value.download()? };
        Ok(if rows.rows.contains(&NO_ROW) { without_gaps(&rows) } else { rows })
    }

    /// A copy of rows of the host.
    ///
    /// # Errors
    /// When the card has no memory for them.
    pub fn upload(device: &dyn Device, rows: &SelectedRows) -> Result<DeviceRows> {
        let numbers = Tensor::from_slice([rows.rows.len()], &rows.rows)?;
        Ok(DeviceRows {
            rows: DeviceTensor::upload(device, &numbers)?,
            height: rows.height,
            value: DeviceTensor::upload(device, &rows.value)?,
        })
    }
}

/// The rows that are some.
fn without_gaps(rows: &SelectedRows) -> SelectedRows {
    let kept: Vec<i64> = rows.rows.iter().copied().filter(|row| *row != NO_ROW).collect();
    let mut value = Tensor::zeros(rows.value.dtype(), rows.value.dims().with_rows(kept.len()));
    let row_bytes = rows.width() * rows.value.dtype().size();
    if row_bytes > 0 {
        let from = rows.value.as_bytes().chunks_exact(row_bytes).zip(&rows.rows);
        let from = from.filter(|(_, row)| **row != NO_ROW).map(|(bytes, _)| bytes);
        let to = value.as_mut_bytes().chunks_exact_mut(row_bytes);
        to.zip(from).for_each(|(to, from)| to.copy_from_slice(from));
    }
    SelectedRows { rows: kept, height: rows.height, value }
}

impl DeviceValue {
    /// A copy of a value of the host.
    ///
    /// # Errors
    /// When the card has no memory for it.
    pub fn upload(device: &dyn Device, value: &Value) -> Result<DeviceValue> {
        Ok(match value {
            Value::Tensor(tensor) => DeviceValue::Tensor(DeviceTensor::upload(device, tensor)?),
            Value::Rows(rows) => DeviceValue::Rows(DeviceRows::upload(device, rows)?),
        })
    }

    /// A copy on the host.
    ///
    /// # Errors
    /// As [`DeviceTensor::download`].
    pub fn download(&self) -> Result<Value> {
        Ok(match self {
            DeviceValue::Tensor(tensor) => Value::Tensor(tensor.download()?),
            DeviceValue::Rows(rows) => Value::Rows(rows.download()?),
        })
    }

    /// A copy in new memory.
    ///
    /// # Errors
    /// When the card has no memory for it.
    pub fn try_clone(&self) -> Result<DeviceValue> {
        Ok(match self {
            DeviceValue::Tensor(tensor) => DeviceValue::Tensor(tensor.try_clone()?),
            DeviceValue::Rows(rows) => DeviceValue::Rows(DeviceRows {
                rows: rows.rows.try_clone()?,
                height: rows.height,
                value: rows.value.try_clone()?,
            }),
        })
    }

    /// The same memory once more.
    pub(crate) fn alias(&self) -> DeviceValue {
        match self {
            DeviceValue::Tensor(tensor) => DeviceValue::Tensor(tensor.alias()),
            DeviceValue::Rows(rows) => DeviceValue::Rows(DeviceRows {
                rows: rows.rows.alias(),
                height: rows.height,
                value: rows.value.alias(),
            }),
        }
    }

    /// What is known of it.
    pub(crate) fn meta(&self) -> Meta {
        let (dtype, dims) = self.shape();
        let (kind, lod_level) = match self {
            DeviceValue::Tensor(tensor) => (VarKind::LodTensor, tensor.lod().len() as u32),
            DeviceValue::Rows(_) => (VarKind::SelectedRows, 0),
        };
        let dims = dims.iter().map(|dim| *dim as i64).collect();
        Meta { kind, dtype, dims, lod_level }
    }

    /// Where kernels find it.
    pub fn operand(&self) -> Operand {
        match self {
            DeviceValue::Tensor(tensor) => Operand::Dense(tensor.address()),
            DeviceValue::Rows(rows) => {
                Operand::Rows { rows: rows.rows.address(), values: rows.value.address() }
            }
        }
    }

    /// The elements that it has: their type, how many they are, and where they begin.
    pub(crate) fn elements(&self) -> (DType, usize, Address) {
        let tensor = match self {
            DeviceValue::Tensor(tensor) => tensor,
            DeviceValue::Rows(rows) => &rows.value,
        };
        (tensor.dtype(), tensor.dims().numel(), tensor.address())
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        match self {
            DeviceValue::Tensor(tensor) => tensor.bytes(),
            DeviceValue::Rows(rows) => rows.value.bytes() + rows.rows.bytes(),
        }
    }

    /// The card.
    pub fn device(&self) -> &Arc<dyn Device> {
        match self {
            DeviceValue::Tensor(tensor) => tensor.device(),
            DeviceValue::Rows(rows) => rows.value.device(),
        }
    }

    /// Element type and shape; of selected rows, that of the whole.
    pub fn shape(&self) -> (DType, Dims) {
        match self {
            DeviceValue::Tensor(tensor) => (tensor.dtype(), tensor.dims()),
            DeviceValue::Rows(rows) => {
                (rows.value.dtype(), rows.value.dims().with_rows(rows.height))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_none_are_left_out() {
        let value =
            Tensor::from_slice([4, 2], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]).unwrap();
        let rows = SelectedRows { rows: vec![NO_ROW, 3, NO_ROW, 0], height: 9, value };
        let kept = without_gaps(&rows);
        assert_eq!((kept.rows.as_slice(), kept.height), ([3, 0].as_slice(), 9));
        assert_eq!(kept.value.as_slice::<f32>().unwrap(), [3.0, 4.0, 7.0, 8.0]);
    }
}
