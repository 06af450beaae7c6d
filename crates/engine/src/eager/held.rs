//! What an eager tensor holds: a value on the host, on a card, or on both, each made from the other when it is first
//! asked for.
//!
//! A tensor belongs to one place, its home; that it also lies elsewhere is nobody's concern. What is shared is never
//! changed: who wants to write makes sure that nobody else holds it ([`Held::make_mut`]).

use std::any::Any;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bireme_ir::{DType, VarKind};

use super::card::EagerCard;
use super::prepared::unwritten;
use crate::device::{DeviceMeta, DeviceTensor, DeviceValue, PageLocked};
use crate::op::{Meta, meta_of};
use crate::tensor::{Dims, Tensor};
use crate::value::Value;
use crate::{Error, Place, Result};

/// A value, wherever it lies. At least one side has it.
pub struct Held {
    host: OnceLock<Value>,
    /// In a box: most values of the host never have one.
    card: OnceLock<Box<DeviceValue>>,
    /// The card that it belongs to; none for the host.
    home: Option<Arc<EagerCard>>,
    /// Whose memory the host's value lies in, when it is not its own; dropped after the value.
    keeper: Option<Box<Keeper>>,
}

/// Who keeps the memory of a value of the host.
enum Keeper {
    /// Page-locked memory, from which cards copy by themselves.
    PageLocked(Arc<dyn PageLocked>),
    /// Somebody else.
    Other(
        #[expect(dead_code, reason = "held to keep the memory alive")] Box<dyn Any + Send + Sync>,
    ),
}

/// What is known of a value without looking at its elements; cheap to make and to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outline {
    pub(super) dtype: DType,
    /// Of selected rows: of the whole tensor.
    pub(super) dims: Dims,
    /// How many rows are selected, for selected rows.
    pub(super) rows: Option<usize>,
    pub(super) lod_level: u32,
}

/// A value of the host that stays as it is, although its tensor may change.
#[derive(Clone)]
pub struct HostValue(Arc<Held>);

impl Held {
    /// A value of the host that belongs there.
    pub fn new(value: impl Into<Value>) -> Held {
        Held::at(value, None)
    }

    /// A value that lies on the host and belongs to `home`, to which it is copied when a card wants it.
    pub fn at(value: impl Into<Value>, home: Option<Arc<EagerCard>>) -> Held {
        let (host, card) = (OnceLock::from(value.into()), OnceLock::new());
        Held { host, card, home, keeper: None }
    }

    /// The same value, belonging to `home`.
    pub(super) fn at_home(self, home: Option<Arc<EagerCard>>) -> Held {
        Held { home, ..self }
    }

    /// A value of a card.
    pub fn on_card(home: &Arc<EagerCard>, value: DeviceValue) -> Held {
        let (host, card) = (OnceLock::new(), OnceLock::from(Box::new(value)));
        Held { host, card, home: Some(Arc::clone(home)), keeper: None }
    }

    /// A tensor whose memory `keeper` keeps.
    pub fn kept(tensor: Tensor, keeper: Box<dyn Any + Send + Sync>) -> Held {
        let keeper = Some(Box::new(Keeper::Other(keeper)));
        Held { keeper, ..Held::new(tensor) }
    }

    /// A copy of a tensor of the host in page-locked memory, which belongs to the host.
    ///
    /// # Errors
    /// When no more memory can be page-locked.
    #[expect(unsafe_code, reason = "a tensor in memory of the driver's")]
    pub fn page_locked(card: &EagerCard, tensor: &Tensor) -> Result<Held> {
        let bytes = tensor.as_bytes();
        let memory = card.device().page_locked(bytes)?;
        // SAFETY: the memory is as long as the tensor and on a page of its own or a multiple of 256 bytes, it is held
        // below, nobody writes it, and neither is the value written: `make_mut` makes another.
        let copy = unsafe { Tensor::foreign(tensor.dtype(), tensor.dims(), memory.start())? };
        let copy = copy.with_lod(tensor.lod())?;
        let keeper = Some(Box::new(Keeper::PageLocked(memory)));
        Ok(Held { keeper, ..Held::new(copy) })
    }

    /// Whether it lies in page-locked memory of the host.
    pub fn is_page_locked(&self) -> bool {
        self.home.is_none() && self.page_locked_memory().is_some()
    }

    fn page_locked_memory(&self) -> Option<&Arc<dyn PageLocked>> {
        match self.keeper.as_deref() {
            Some(Keeper::PageLocked(memory)) => Some(memory),
            _ => None,
        }
    }

    /// The card that it belongs to; none for the host.
    pub fn home(&self) -> Option<&Arc<EagerCard>> {
        self.home.as_ref()
    }

    /// Where it belongs.
    pub fn place(&self) -> Place {
        self.home.as_ref().map_or(Place::Cpu, |card| card.place())
    }

    /// The value on the host, copied from the card when that is not done yet; this waits for all work of the card.
    ///
    /// # Errors
    /// When the card is lost, or an earlier op failed there.
    pub fn host(&self) -> Result<&Value> {
        if let Some(value) = self.host.get() {
            return Ok(value);
        }
        let value = self.on_some_card().download()?;
        if let Some(card) = &self.home {
            card.check()?;
        }
        // Two threads may have copied it; both copies are the same.
        Ok(self.host.get_or_init(|| value))
    }

    /// Whether the host has it already, so that a look at it costs nothing.
    pub fn is_on_host(&self) -> bool {
        self.host.get().is_some()
    }

    /// The value on the host, without a copy when nobody else has it.
    ///
    /// # Errors
    /// As [`Held::host`].
    pub(super) fn into_host(this: Arc<Held>) -> Result<Value> {
        this.host()?;
        match Arc::try_unwrap(this) {
            Ok(Held { mut host, keeper: None, .. }) => {
                Ok(host.take().expect("copied above, or there before"))
            }
            Ok(held) => held.host().cloned(),
            Err(shared) => shared.host().cloned(),
        }
    }

    /// The value on `card`, copied from the host when that is not done yet; the copy is waited for by nobody.
    ///
    /// # Errors
    /// When the card has no memory for it, or it lies on another card.
    pub fn card(&self, card: &Arc<EagerCard>) -> Result<&DeviceValue> {
        if self.card.get().is_none() {
            let value = self.upload(card)?;
            let _ = self.card.set(Box::new(value));
        }
        let value = self.on_some_card();
        if value.device().place() == card.place() {
            return Ok(value);
        }
        Err(Error::kernel(format!(
            "one tensor lies on {}, another on {}: move one of them, with `.cuda({})`",
            name_of(value.device().place()),
            name_of(card.place()),
            number_of(card.place()),
        )))
    }

    /// The address of its elements on its card, if it has been there: for those who hand it on.
    pub fn known_on_card(&self) -> Option<&DeviceValue> {
        self.card.get().map(|value| &**value)
    }

    fn on_some_card(&self) -> &DeviceValue {
        self.card.get().expect("a value that is not on the host is on a card")
    }

    fn upload(&self, card: &Arc<EagerCard>) -> Result<DeviceValue> {
        let device = card.device();
        let tensor = match self.host.get().expect("a value that is on no card is on the host") {
            Value::Tensor(tensor) => tensor,
            rows => return DeviceValue::upload(device.as_ref(), rows),
        };
        let made = DeviceTensor::exact(device.as_ref(), tensor.dtype(), tensor.dims())?;
        match self.page_locked_memory() {
            Some(memory) => device.upload_page_locked(memory, made.bytes(), made.address())?,
            None => device.upload(tensor.as_bytes(), made.address())?,
        }
        Ok(DeviceValue::Tensor(made.with_lod(tensor.lod())))
    }

    /// Element type and shape; of selected rows, that of the whole.
    pub fn shape(&self) -> (DType, Dims) {
        match (self.host.get(), self.card.get()) {
            (Some(value), _) => shape_of(value),
            (None, card) => card.map_or((DType::F32, Dims::new(&[0])), |value| value.shape()),
        }
    }

    /// Whether it is selected rows.
    pub fn is_rows(&self) -> bool {
        match (self.host.get(), self.card.get()) {
            (Some(value), _) => matches!(value, Value::Rows(_)),
            (None, card) => card.is_some_and(|value| matches!(**value, DeviceValue::Rows(_))),
        }
    }

    /// What is known of it without a look at its elements.
    pub(super) fn outline(&self) -> Outline {
        let (dtype, dims) = self.shape();
        // A card may count rows that are none, which its kernels pass over: the side that they run on counts.
        let (rows, lod_level) = match (self.card.get().map(|value| &**value), self.host.get()) {
            (Some(DeviceValue::Tensor(tensor)), _) => (None, tensor.lod().len()),
            (Some(DeviceValue::Rows(rows)), _) => (Some(rows.rows.dims().numel()), 0),
            (None, Some(Value::Tensor(tensor))) => (None, tensor.lod().len()),
            (None, Some(Value::Rows(rows))) => (Some(rows.rows.len()), 0),
            (None, None) => (None, 0),
        };
        Outline { dtype, dims, rows, lod_level: lod_level as u32 }
    }

    /// What a shape rule is given of it.
    pub(super) fn meta(&self) -> Meta {
        match self.host.get() {
            Some(value) => meta_of(value),
            None => self.on_some_card().meta(),
        }
    }

    /// A value of the host that an op is about to write.
    pub(super) fn unwritten() -> Held {
        Held::new(unwritten())
    }

    /// The same value for somebody who changes it: copied unless nobody else has it.
    ///
    /// # Errors
    /// When there is no memory for a copy on the card.
    pub(super) fn make_mut(this: &mut Arc<Held>) -> Result<&mut Held> {
        if Arc::get_mut(this).is_none_or(|held| held.keeper.is_some()) {
            *this = Arc::new(this.copy()?);
        }
        Ok(Arc::get_mut(this).expect("made above, or found to be nobody else's"))
    }

    /// A copy that is nobody else's, at home.
    ///
    /// # Errors
    /// When there is no memory for it on the card.
    pub fn copy(&self) -> Result<Held> {
        let home = self.home.clone();
        match (self.card.get(), &home) {
            (Some(value), Some(card)) => Ok(Held::on_card(card, value.try_clone()?)),
            _ => Ok(Held::at(self.host()?.clone(), home)),
        }
    }

    /// The same elements in another home, on their side alone.
    ///
    /// # Errors
    /// When there is no memory for it, or it cannot be read.
    pub fn moved(&self, home: Option<&Arc<EagerCard>>) -> Result<Held> {
        let Some(card) = home else { return Ok(Held::new(self.host()?.clone())) };
        let is_there = |value: &DeviceValue| value.device().place() == card.place();
        match self.card.get() {
            Some(value) if is_there(value) => Ok(Held::on_card(card, value.try_clone()?)),
            Some(_) => {
                Ok(Held::on_card(card, DeviceValue::upload(card.device().as_ref(), self.host()?)?))
            }
            None => Ok(Held::on_card(card, self.upload(card)?)),
        }
    }

    /// The value on the host for an op that writes it there; what a card has of it counts no more.
    ///
    /// # Errors
    /// As [`Held::host`].
    pub(super) fn host_mut(&mut self) -> Result<&mut Value> {
        if self.host.get().is_none() {
            self.host()?;
        }
        self.card.take();
        Ok(self.host.get_mut().expect("copied above, or there before"))
    }

    /// Where an op may write an output of this outline, when there is such memory.
    pub(super) fn card_to_write(
        &self,
        card: &EagerCard,
        outline: &Outline,
    ) -> Option<&DeviceValue> {
        let value = self.card.get()?;
        let is_here = value.device().place() == card.place();
        (is_here && self.outline() == *outline).then_some(value)
    }

    /// An op writes it on the card, in this memory if it is another; returns what it lay in before.
    pub(super) fn written(&mut self, memory: Option<DeviceValue>) -> Option<DeviceValue> {
        self.host.take();
        let before = memory.is_some().then(|| self.card.take()).flatten();
        if let Some(memory) = memory {
            self.card = OnceLock::from(Box::new(memory));
        }
        before.map(|value| *value)
    }
}

impl HostValue {
    /// Brings a value to the host.
    ///
    /// # Errors
    /// As [`Held::host`].
    pub fn of(held: Arc<Held>) -> Result<HostValue> {
        held.host()?;
        Ok(HostValue(held))
    }

    /// What holds it.
    pub fn held(&self) -> &Arc<Held> {
        &self.0
    }
}

impl Deref for HostValue {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.0.host.get().expect("brought to the host when this was made")
    }
}

impl From<Value> for HostValue {
    fn from(value: Value) -> HostValue {
        HostValue(Arc::new(Held::new(value)))
    }
}

impl From<HostValue> for Arc<Held> {
    fn from(value: HostValue) -> Arc<Held> {
        value.0
    }
}

impl From<Value> for Held {
    fn from(value: Value) -> Held {
        Held::new(value)
    }
}

impl Outline {
    /// What a shape rule says of an output; none when it leaves something open.
    pub(super) fn of(output: &DeviceMeta) -> Option<Outline> {
        let meta = &output.meta;
        if !meta.is_static() || meta.lod_level > 0 {
            return None;
        }
        let dims: Vec<usize> = meta.dims.iter().map(|dim| *dim as usize).collect();
        let is_rows = meta.kind == VarKind::SelectedRows;
        let rows = is_rows.then(|| output.rows.unwrap_or(0));
        Some(Outline { dtype: meta.dtype, dims: Dims::new(&dims), rows, lod_level: 0 })
    }

    /// As shape rules and cards are told.
    pub(super) fn meta(&self) -> DeviceMeta {
        let kind = if self.rows.is_some() { VarKind::SelectedRows } else { VarKind::LodTensor };
        let dims = self.dims.iter().map(|dim| *dim as i64).collect();
        let meta = Meta { kind, dtype: self.dtype, dims, lod_level: self.lod_level };
        DeviceMeta { rows: self.rows, ..DeviceMeta::new(meta) }
    }
}

/// Element type and shape of a value.
pub(super) fn shape_of(value: &Value) -> (DType, Dims) {
    match value {
        Value::Tensor(tensor) => (tensor.dtype(), tensor.dims()),
        Value::Rows(rows) => (rows.value.dtype(), rows.value.dims().with_rows(rows.height)),
    }
}

fn name_of(place: Place) -> String {
    match place {
        Place::Cpu => "the CPU".to_owned(),
        Place::Cuda(number) => format!("GPU {number}"),
    }
}

fn number_of(place: Place) -> u32 {
    match place {
        Place::Cpu => 0,
        Place::Cuda(number) => number,
    }
}
