//! The emulated card for tests.
//!
//! The machine is one for the whole process. Tests that change it take it [`alone`]; others may run
//! beside each other with [`shared`].

use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bireme_cuda::driver::{Card, Memory, Stream, libraries};
use bireme_emulator::{Control, DIR};
use bireme_engine::device::Device;

static MACHINE: RwLock<()> = RwLock::new(());

/// The machine as it is at first, and nobody else on it. Faults are taken back when it is dropped.
pub(crate) struct Alone {
    pub(crate) control: Control,
    _guard: RwLockWriteGuard<'static, ()>,
}

impl Alone {
    /// For tests that bring about faults: these are asked for, and not printed.
    pub(crate) fn quiet(self) -> Alone {
        self.control.be_quiet();
        self
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.control.reset();
    }
}

/// The machine for a test that changes it; none where there is no emulated card.
pub(crate) fn alone() -> Option<Alone> {
    let guard = MACHINE.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    let control = control()?;
    control.reset();
    Some(Alone { control, _guard: guard })
}

/// The machine for a test that leaves it as it is; none where there is no emulated card.
pub(crate) fn shared() -> Option<RwLockReadGuard<'static, ()>> {
    let guard = MACHINE.read().unwrap_or_else(|poisoned| poisoned.into_inner());
    control().map(|_| guard)
}

/// Whether tests are to run on the machine's own card.
pub(crate) fn is_real() -> bool {
    std::env::var_os("BIREME_TEST_CARD").is_some_and(|card| card == "real")
}

/// What keeps others from changing the machine.
pub(crate) type Held = RwLockReadGuard<'static, ()>;

/// The first card as the engine sees it: the emulated one, or that of the machine where that is asked for. None
/// where there is neither.
pub(crate) fn device() -> Option<(Option<Held>, Arc<dyn Device>)> {
    let machine = if is_real() { None } else { Some(shared()?) };
    Some((machine, bireme_cuda::open(0).unwrap()))
}

#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn control() -> Option<Control> {
    if is_real() {
        eprintln!("skipped: only on the emulated card");
        return None;
    }
    let Some(dir) = DIR else {
        eprintln!("skipped: there is no emulated card, for want of a C++ compiler");
        return None;
    };
    libraries::load_from(dir);
    Some(Control::open().unwrap().unwrap())
}

/// A card with one stream.
pub(crate) fn open(number: usize) -> (Arc<Card>, Arc<Stream>) {
    let card = Card::open(number).unwrap();
    let stream = Stream::new(&card).unwrap();
    (card, stream)
}

/// Memory with these values in it.
pub(crate) fn put<T: bytemuck::NoUninit>(stream: &Arc<Stream>, values: &[T]) -> Memory {
    let bytes: &[u8] = bytemuck::cast_slice(values);
    let memory = stream.allocate(bytes.len()).unwrap();
    stream.upload(memory.whole(), bytes).unwrap();
    memory
}

/// The values in some memory, once the stream has done its work.
pub(crate) fn get<T: bytemuck::AnyBitPattern + bytemuck::NoUninit>(
    stream: &Stream,
    memory: &Memory,
) -> Vec<T> {
    let mut values = vec![T::zeroed(); memory.len() / size_of::<T>()];
    stream.download(bytemuck::cast_slice_mut(&mut values), memory.whole()).unwrap();
    values
}

/// Launches a kernel with arguments of any types.
macro_rules! launch {
    ($stream:expr, $name:expr, $grid:expr, $block:expr, $shared:expr $(, $arg:expr)* $(,)?) => {{
        let function = $stream.card().function($name).unwrap();
        let values: Vec<Box<dyn std::any::Any>> = vec![$(Box::new($arg)),*];
        let pointer = |value: &Box<dyn std::any::Any>| std::ptr::from_ref(&**value).cast_mut().cast();
        let mut args: Vec<*mut std::ffi::c_void> = values.iter().map(pointer).collect();
        // SAFETY: tests give what the kernels take, or mean to see what happens.
        #[allow(unsafe_code, reason = "kernels are run")]
        let launched = unsafe { $stream.launch(&function, [$grid, 1, 1], $block, $shared, &mut args) };
        launched
    }};
}
pub(crate) use launch;
