//! One variable of a scope: what it holds on the host, what a card has of it, and who is ahead.

#![expect(unsafe_code, reason = "cells are shared by plans, which take turns")]

use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bireme_ir::DType;

use crate::Result;
use crate::device::{Device, DeviceTensor, DeviceValue, Operand};
use crate::op::{Meta, meta_of};
use crate::tensor::{Dims, Tensor};
use crate::value::Value;

/// One variable; empty until something writes it.
pub(crate) struct Cell {
    value: UnsafeCell<Value>,
    /// Whether there is a value.
    is_set: AtomicBool,
    /// Who has it as it is now: one of the constants below.
    holder: AtomicU8,
    /// How often somebody has said that a value counts which did not before: who remembers it knows later whether the
    /// variable was written.
    writes: AtomicU64,
    /// The copy of a card, which is kept when it is outdated: steps are bound to its memory.
    on_card: Mutex<Option<DeviceValue>>,
    /// Whether it is too large for the card, so that steps on one use it on the host.
    stays_home: AtomicBool,
    /// Whether a step needed the card's copy by itself after it had lain in lines with others: it is not put there again.
    stays_apart: AtomicBool,
}

/// Where a step expects the copy of a card, without keeping its memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seat {
    dtype: DType,
    dims: Dims,
    operand: Operand,
    pitch: Option<usize>,
}

impl Seat {
    pub(crate) fn of(value: &DeviceValue) -> Seat {
        let (dtype, dims) = value.shape();
        let pitch = match value {
            DeviceValue::Tensor(tensor) => tensor.pitch(),
            DeviceValue::Rows(_) => None,
        };
        Seat { dtype, dims, operand: value.operand(), pitch }
    }
}

/// The host's value counts; a card's may be outdated.
const HOST: u8 = 0;
/// The card's value counts; that of the host is outdated.
const CARD: u8 = 1;
/// Both are the same.
const BOTH: u8 = 2;

// SAFETY: values are reached only by who has a turn of the scope (see `turns.rs`): by one that is
// alone, or by several, which only read where and how large a value is, and touch its elements by
// relaxed atomic accesses. The private variables of a plan are reached by that plan alone.
unsafe impl Send for Cell {}
// SAFETY: as above.
unsafe impl Sync for Cell {}

impl Cell {
    pub(super) fn empty() -> Cell {
        Cell {
            value: UnsafeCell::new(Value::Tensor(Tensor::empty(DType::F32))),
            is_set: AtomicBool::new(false),
            holder: AtomicU8::new(HOST),
            writes: AtomicU64::new(0),
            on_card: Mutex::new(None),
            stays_home: AtomicBool::new(false),
            stays_apart: AtomicBool::new(false),
        }
    }

    /// Whether there is a value, wherever it is.
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    /// Where the host's value is, if there is one; good while the cell lives, to be used by who has
    /// a turn of the scope and has brought it home.
    pub(crate) fn get(&self) -> Option<NonNull<Value>> {
        self.is_set().then_some(self.address())
    }

    /// The value, made by `init` if there is none.
    ///
    /// # Safety
    /// The caller is alone on the scope.
    pub(crate) unsafe fn get_or_init(&self, init: impl FnOnce() -> Value) -> NonNull<Value> {
        if !self.is_set() {
            // SAFETY: the caller's promise.
            unsafe { *self.value.get() = init() };
            self.is_set.store(true, Ordering::Release);
        }
        self.address()
    }

    /// Forgets the value.
    ///
    /// # Safety
    /// The caller is alone on the scope.
    pub(super) unsafe fn clear(&self) {
        self.is_set.store(false, Ordering::Release);
        self.holder.store(HOST, Ordering::Release);
        self.writes.fetch_add(1, Ordering::AcqRel);
        self.stays_home.store(false, Ordering::Release);
        self.stays_apart.store(false, Ordering::Release);
        // SAFETY: the caller's promise.
        unsafe { *self.value.get() = Value::Tensor(Tensor::empty(DType::F32)) };
    }

    /// Says that the host's value counts from now on.
    pub(crate) fn host_writes(&self) {
        // Training threads say so in every step: one that changes nothing disturbs no other.
        if self.holder.load(Ordering::Relaxed) != HOST {
            self.holder.store(HOST, Ordering::Release);
            self.writes.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Says that the card's value counts from now on.
    pub(crate) fn card_writes(&self) {
        self.holder.store(CARD, Ordering::Release);
        self.writes.fetch_add(1, Ordering::AcqRel);
        self.is_set.store(true, Ordering::Release);
    }

    /// A number that is another one when the card's copy may have been written since.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Acquire)
    }

    /// Copies the value from the card, if only the card has it.
    ///
    /// # Errors
    /// When the card is lost, or an earlier kernel failed.
    ///
    /// # Safety
    /// The caller has a turn of the scope, or reads it.
    pub(crate) unsafe fn bring_home(&self) -> Result<()> {
        if self.holder.load(Ordering::Acquire) != CARD {
            return Ok(());
        }
        let on_card = self.lock();
        // Somebody else may have done it while this one waited for the lock.
        if self.holder.load(Ordering::Acquire) == CARD
            && let Some(value) = &*on_card
        {
            // SAFETY: nobody looks at a value that is outdated: who wants to comes here first, and
            // one at a time.
            let home = unsafe { &mut *self.value.get() };
            match (value, &mut *home) {
                (DeviceValue::Tensor(tensor), Value::Tensor(home)) => tensor.download_to(home)?,
                (value, home) => *home = value.download()?,
            }
            self.holder.store(BOTH, Ordering::Release);
        }
        Ok(())
    }

    /// The copy of `device`, brought up to date; steps that are bound to one see it stay where it is
    /// as long as the value keeps its shape.
    ///
    /// # Errors
    /// When the card has no memory for it.
    ///
    /// # Safety
    /// The caller is alone on the scope, and there is a value.
    pub(crate) unsafe fn on_card(&self, device: &Arc<dyn Device>) -> Result<DeviceValue> {
        let mut on_card = self.lock();
        let is_here =
            on_card.as_ref().is_some_and(|value| value.device().place() == device.place());
        if self.holder.load(Ordering::Acquire) == CARD && !is_here {
            drop(on_card);
            // SAFETY: the caller's promise.
            unsafe { self.bring_home()? };
            on_card = self.lock();
        }
        if self.holder.load(Ordering::Acquire) == HOST || !is_here {
            // SAFETY: the caller's promise.
            let host = unsafe { &*self.value.get() };
            match (&mut *on_card, host) {
                (Some(DeviceValue::Tensor(old)), Value::Tensor(new))
                    if is_here && (old.dtype(), old.dims()) == (new.dtype(), new.dims()) =>
                {
                    old.write(new)?;
                }
                (on_card, host) => *on_card = Some(DeviceValue::upload(device.as_ref(), host)?),
            }
            self.holder.store(BOTH, Ordering::Release);
        }
        let value = on_card.as_ref().expect("uploaded above, or there before");
        Ok(value.alias())
    }

    /// Copies the value to a tensor of a card, of its type and shape.
    ///
    /// # Errors
    /// When a card is lost, or an earlier kernel failed.
    ///
    /// # Safety
    /// The caller is alone on the scope, and there is a value.
    pub(crate) unsafe fn copy_to(&self, to: &mut DeviceTensor) -> Result<()> {
        if self.is_current_on_card()
            && let Some(DeviceValue::Tensor(from)) = &*self.lock()
            && from.device().place() == to.device().place()
        {
            return to.copy_from(from);
        }
        // SAFETY: the caller's promise.
        unsafe {
            self.bring_home()?;
            to.write((*self.value.get()).tensor()?)
        }
    }

    /// Elements from row to row where the copy of `device`, of this type and shape, lies in lines.
    pub(crate) fn pitch_on(&self, device: &dyn Device, meta: &Meta) -> Option<usize> {
        match self.lock().as_ref()? {
            value @ DeviceValue::Tensor(tensor)
                if value.device().place() == device.place() && value.meta() == *meta =>
            {
                tensor.pitch()
            }
            _ => None,
        }
    }

    /// Says that the card's copy is to lie by itself from now on.
    pub(crate) fn stay_apart(&self) {
        self.stays_apart.store(true, Ordering::Release);
    }

    /// Whether the card's copy is not to lie in lines with others.
    pub(crate) fn stays_apart(&self) -> bool {
        self.stays_apart.load(Ordering::Acquire)
    }

    /// Puts a value that a card made, or is about to make.
    ///
    /// # Safety
    /// The caller is alone on the scope.
    pub(crate) unsafe fn set_on_card(&self, value: DeviceValue) {
        *self.lock() = Some(value);
        self.card_writes();
    }

    /// What is known of the value, wherever it is.
    ///
    /// # Safety
    /// The caller is alone on the scope.
    pub(crate) unsafe fn meta(&self) -> Option<Meta> {
        if !self.is_set() {
            return None;
        }
        if self.holder.load(Ordering::Acquire) == CARD {
            return self.lock().as_ref().map(DeviceValue::meta);
        }
        // SAFETY: the caller's promise.
        Some(meta_of(unsafe { self.address().as_ref() }))
    }

    /// Whether a step that was bound to a card's copy finds it there, as it is or after it was brought up to
    /// date.
    ///
    /// # Safety
    /// The caller is alone on the scope.
    pub(crate) unsafe fn fits(&self, seat: &Seat) -> bool {
        if !self.is_set() {
            return false;
        }
        let on_card = self.lock();
        let Some(value) = on_card.as_ref().filter(|value| Seat::of(value) == *seat) else {
            return false;
        };
        if self.is_current_on_card() {
            return true;
        }
        // What the host has written since may be of another shape.
        // SAFETY: the caller's promise.
        meta_of(unsafe { self.address().as_ref() }) == value.meta()
    }

    /// Bytes of its copy on `device`.
    pub(crate) fn bytes_on(&self, device: &Arc<dyn Device>) -> usize {
        let on_card = self.lock();
        let here = on_card.as_ref().filter(|value| value.device().place() == device.place());
        here.map_or(0, DeviceValue::bytes)
    }

    /// Brings the value home for good, and gives the memory of its copy back.
    ///
    /// # Errors
    /// When the card is lost, or an earlier kernel failed.
    ///
    /// # Safety
    /// The caller is alone on the scope.
    pub(crate) unsafe fn stay_home(&self) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.bring_home()? };
        self.host_writes();
        *self.lock() = None;
        self.stays_home.store(true, Ordering::Release);
        Ok(())
    }

    /// Whether it is too large for the card.
    pub(crate) fn stays_home(&self) -> bool {
        self.stays_home.load(Ordering::Acquire)
    }

    /// Whether a card's copy of it, if there is one, is as the host has it.
    pub(crate) fn is_current_on_card(&self) -> bool {
        self.holder.load(Ordering::Acquire) != HOST
    }

    fn lock(&self) -> MutexGuard<'_, Option<DeviceValue>> {
        self.on_card.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn address(&self) -> NonNull<Value> {
        NonNull::new(self.value.get()).expect("a cell's address is not null")
    }
}
