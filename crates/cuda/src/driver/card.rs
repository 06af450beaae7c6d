//! A card and its context.
//!
//! The context is the card's primary one, which other libraries in the process share. Each call makes
//! it current on the thread that calls: nothing is assumed of what others have left there.
#![expect(unsafe_code, reason = "the driver is called")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdevice_attribute, CUmemPool_attribute, CUmemoryPool, CUresult,
};

use super::calls::{check, check_plain};
use super::counters::Counters;
use super::error::{Error, Result};
use super::libraries;
use super::modules::Modules;

/// The oldest driver whose compiler takes our PTX.
const OLDEST_DRIVER: i32 = 13_000;

/// What the driver calls a card of ours.
const EMULATED: &str = "emulated card";

/// A card that is open. Everything else holds it.
pub struct Card {
    number: usize,
    device: CUdevice,
    context: CUcontext,
    pool: CUmemoryPool,
    name: String,
    uuid: [u8; 16],
    capability: (u32, u32),
    multiprocessors: u32,
    shared_bytes: u32,
    pub(super) modules: Mutex<Modules>,
    pub(super) counters: Counters,
    /// The kernel that is named when something fails later.
    last_launch: Mutex<Arc<str>>,
}

// SAFETY: the driver's handles may be used from any thread; what is ours is behind locks.
unsafe impl Send for Card {}
// SAFETY: as above.
unsafe impl Sync for Card {}

/// Memory of a card, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryFigures {
    /// What nobody uses, not even to keep it for later.
    pub free: usize,
    /// What the card has.
    pub total: usize,
    /// What this process has allocated.
    pub used: usize,
    /// What this process keeps, used or not.
    pub reserved: usize,
    /// The most that this process had allocated.
    pub used_peak: usize,
    /// The most that this process has kept.
    pub reserved_peak: usize,
}

impl Card {
    /// How many cards this machine has.
    pub fn count() -> Result<usize> {
        libraries::driver()?;
        let mut version: c_int = 0;
        // SAFETY: the driver writes one number.
        check_plain("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&raw mut version) })?;
        if version < OLDEST_DRIVER {
            return Err(Error::OldDriver { version });
        }
        // SAFETY: it may be called as often as one likes.
        let code = unsafe { sys::cuInit(0) };
        if code == CUresult::CUDA_ERROR_NO_DEVICE {
            return Ok(0);
        }
        check_plain("cuInit", code)?;
        let mut count: c_int = 0;
        // SAFETY: the driver writes one number.
        check_plain("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&raw mut count) })?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Opens a card.
    pub fn open(number: usize) -> Result<Arc<Card>> {
        let count = Card::count()?;
        let ordinal = c_int::try_from(number).ok().filter(|_| number < count);
        let ordinal = ordinal.ok_or(Error::NoCard { number, count })?;
        let mut device: CUdevice = 0;
        // SAFETY: the driver writes one number.
        check_plain("cuDeviceGet", unsafe { sys::cuDeviceGet(&raw mut device, ordinal) })?;
        let name = device_name(device)?;
        let attribute = |which| device_attribute(device, which);
        let capability = (
            attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let multiprocessors =
            attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let shared_bytes =
            attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        let mut uuid = [0; 16];
        // SAFETY: a `CUuuid` is 16 bytes.
        check_plain("cuDeviceGetUuid", unsafe {
            sys::cuDeviceGetUuid_v2(uuid.as_mut_ptr().cast(), device)
        })?;
        let mut pool: CUmemoryPool = ptr::null_mut();
        // SAFETY: the driver writes one handle.
        let code = unsafe { sys::cuDeviceGetDefaultMemPool(&raw mut pool, device) };
        check_plain("cuDeviceGetDefaultMemPool", code)?;
        let mut context: CUcontext = ptr::null_mut();
        // SAFETY: as above; it is released when the card is dropped.
        let code = unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut context, device) };
        check_plain("cuDevicePrimaryCtxRetain", code)?;
        let modules = Mutex::default();
        let last_launch = Mutex::new(Arc::from("none"));
        let card = Card {
            number,
            device,
            context,
            pool,
            name,
            uuid,
            capability,
            multiprocessors,
            shared_bytes,
            modules,
            counters: Counters::default(),
            last_launch,
        };
        card.keep_freed_memory()?;
        Ok(Arc::new(card))
    }

    /// Its number on this machine.
    pub fn number(&self) -> usize {
        self.number
    }

    /// What the driver calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A number that no other card has.
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Its compute capability, as (9, 0).
    pub fn capability(&self) -> (u32, u32) {
        self.capability
    }

    /// How many multiprocessors it has.
    pub fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    /// The shared memory that a block may have at most, in bytes.
    pub fn shared_bytes(&self) -> u32 {
        self.shared_bytes
    }

    /// Whether this is the host in disguise.
    pub fn is_emulated(&self) -> bool {
        self.name == EMULATED
    }

    /// How its memory is used now.
    pub fn memory(&self) -> Result<MemoryFigures> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the driver writes two numbers.
        self.check("cuMemGetInfo", unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) })?;
        let used = self.counters.used();
        let reserved =
            self.pool_figure(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
        let used_peak = self.counters.peak();
        let reserved_peak =
            self.pool_figure(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)?;
        let reserved_peak = reserved_peak.max(used_peak);
        Ok(MemoryFigures { free, total, used, reserved, used_peak, reserved_peak })
    }

    /// Counts bytes as used: of memory that is handed out in parts, the parts are counted instead of the whole.
    pub(crate) fn count_used(&self, bytes: usize) {
        self.counters.add(bytes);
    }

    /// Counts bytes as used no more.
    pub(crate) fn count_unused(&self, bytes: usize) {
        self.counters.subtract(bytes);
    }

    /// Lets [`MemoryFigures::used_peak`] begin anew with what is used now.
    pub fn reset_used_peak(&self) {
        self.counters.reset_peak();
    }

    /// Lets [`MemoryFigures::reserved_peak`] begin anew with what is kept now.
    pub fn reset_reserved_peak(&self) -> Result<()> {
        self.enter()?;
        let mut zero = 0u64;
        let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
        // SAFETY: this attribute is a 64-bit number.
        let code = unsafe {
            sys::cuMemPoolSetAttribute(self.pool, attribute, (&raw mut zero).cast::<c_void>())
        };
        self.check("cuMemPoolSetAttribute", code)
    }

    /// Waits for all work of the card.
    pub fn synchronize(&self) -> Result<()> {
        self.enter()?;
        // SAFETY: the context is current.
        self.check("cuCtxSynchronize", unsafe { sys::cuCtxSynchronize() })
    }

    /// Gives memory back that is kept for later.
    pub fn trim(&self) -> Result<()> {
        self.enter()?;
        // SAFETY: the pool is the card's own.
        self.check("cuMemPoolTrimTo", unsafe { sys::cuMemPoolTrimTo(self.pool, 0) })
    }

    /// Makes this card's context current on the calling thread.
    pub(super) fn enter(&self) -> Result<()> {
        // SAFETY: the context lives as long as the card.
        self.check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.context) })
    }

    pub(super) fn check(&self, function: &'static str, code: CUresult) -> Result<()> {
        check(function, code, || self.last_launch())
    }

    pub(super) fn last_launch(&self) -> Arc<str> {
        self.last_launch.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_last_launch(&self, name: &Arc<str>) {
        *self.last_launch.lock().unwrap_or_else(PoisonError::into_inner) = name.clone();
    }

    /// Without this the driver would give memory back at every wait, and ask for it again.
    fn keep_freed_memory(&self) -> Result<()> {
        self.enter()?;
        let mut threshold = u64::MAX;
        let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: this attribute is a 64-bit number.
        let code = unsafe {
            sys::cuMemPoolSetAttribute(self.pool, attribute, (&raw mut threshold).cast::<c_void>())
        };
        self.check("cuMemPoolSetAttribute", code)
    }

    fn pool_figure(&self, which: CUmemPool_attribute) -> Result<usize> {
        let mut figure = 0u64;
        // SAFETY: the attributes that are asked for are 64-bit numbers.
        let code = unsafe {
            sys::cuMemPoolGetAttribute(self.pool, which, (&raw mut figure).cast::<c_void>())
        };
        self.check("cuMemPoolGetAttribute", code)?;
        Ok(usize::try_from(figure).unwrap_or(usize::MAX))
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        if self.enter().is_ok() {
            self.modules.get_mut().unwrap_or_else(PoisonError::into_inner).unload();
        }
        // SAFETY: it was retained when the card was opened. Whoever used it held the card.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

impl std::fmt::Debug for Card {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Card({}: {})", self.number, self.name)
    }
}

fn device_name(device: CUdevice) -> Result<String> {
    let mut name: [c_char; 256] = [0; 256];
    // SAFETY: the driver writes at most this many characters, with a zero at the end.
    check_plain("cuDeviceGetName", unsafe {
        sys::cuDeviceGetName(name.as_mut_ptr(), 256, device)
    })?;
    // SAFETY: as above.
    Ok(unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned())
}

fn device_attribute(device: CUdevice, which: CUdevice_attribute) -> Result<u32> {
    let mut value: c_int = 0;
    // SAFETY: the driver writes one number.
    check_plain("cuDeviceGetAttribute", unsafe {
        sys::cuDeviceGetAttribute(&raw mut value, which, device)
    })?;
    Ok(u32::try_from(value).unwrap_or(0))
}
