//! The emulated card: shared libraries that stand in for NVIDIA's `libcuda.so`, `libcublasLt.so` and `libnccl.so.2`.
//!
//! They hold all kernel files of `bireme-cuda`, compiled as C++, so tests run the real driver wrapper,
//! the real launches and graphs without a card. What they check beyond a card is said in `card.hpp`
//! (kernels), `races.cpp` (races, if it was built to), `memory.cpp` (accesses) and `streams.cpp` (missing waits). [`Control`] is how tests
//! bring about faults. A process sees as many cards as `BIREME_EMULATED_CARDS` says, two without it,
//! and of those the ones that `CUDA_VISIBLE_DEVICES` names.
#![expect(unsafe_code, reason = "functions of a shared library are called")]

use libloading::{Error, Library, Symbol};

/// The folder with the libraries; none where they were not built, for want of a C++ compiler.
pub const DIR: Option<&str> = option_env!("EMULATED_CARD_DIR");

/// Whether it looks for races of kernels, as `cargo xtask races` has it built.
pub const FINDS_RACES: bool = option_env!("EMULATED_CARD_RACES").is_some();

/// The hidden side of the emulated machine. It is one for the whole process, so tests that change it
/// must not run beside others.
pub struct Control {
    library: Library,
}

impl Control {
    /// Loads the library, or finds it loaded; none where it was not built.
    pub fn open() -> Option<Result<Control, Error>> {
        let dir = DIR?;
        // SAFETY: the library's initialisers only fill a list of kernels.
        Some(
            unsafe { Library::new(format!("{dir}/libcuda.so")) }.map(|library| Control { library }),
        )
    }

    /// Sets what the order of blocks, of warps and of streams' work is drawn from.
    pub fn seed(&self, seed: u64) {
        self.call(b"card_seed", seed);
    }

    /// Fails the `number`-th allocation of device memory from now on, once; 1 is the next, 0 none.
    pub fn fail_allocation(&self, number: u64) {
        self.call(b"card_fail_allocation", number);
    }

    /// Fails the `number`-th kernel or product that runs from now on; the context is then broken.
    pub fn fail_launch(&self, number: u64) {
        self.call(b"card_fail_launch", number);
    }

    /// Lets all cards fall off the bus: every call fails until [`Control::reset`].
    pub fn lose_card(&self) {
        self.get::<()>(b"card_lose");
    }

    /// Sets the memory of each card.
    pub fn set_memory(&self, bytes: u64) {
        self.call(b"card_set_memory", bytes);
    }

    /// Sets the number of cards, up to 16.
    pub fn set_cards(&self, count: u64) {
        self.call(b"card_set_count", count);
    }

    /// Sets the version that the driver says, as 13000 for 13.0.
    pub fn set_driver_version(&self, version: u64) {
        self.call(b"card_set_driver_version", version);
    }

    /// Bytes of device memory that are allocated now, on all cards.
    pub fn allocated(&self) -> u64 {
        self.get(b"card_allocated")
    }

    /// Kernels and products that have run since the process started.
    pub fn launches(&self) -> u64 {
        self.get(b"card_launches")
    }

    /// Launches since the process started of kernels that may start before the one ahead of them has ended; in a
    /// recording each counts once.
    pub fn early_launches(&self) -> u64 {
        self.get(b"card_early_launches")
    }

    /// Calls of the driver that were made since the process started, on all threads.
    pub fn calls(&self) -> u64 {
        self.get(b"card_calls")
    }

    /// How many of them waited for a card to be done with its work.
    pub fn waits(&self) -> u64 {
        self.get(b"card_waits")
    }

    /// What went wrong last on a card, in words: the kernel and what it did.
    pub fn last_fault(&self) -> String {
        let mut text = [0u8; 400];
        // SAFETY: the function writes a string that ends with a zero, in the room that there is.
        unsafe {
            let function: Symbol<'_, unsafe extern "C" fn(*mut u8, usize)> = self
                .library
                .get(b"card_last_fault")
                .expect("the library was built from this crate");
            function(text.as_mut_ptr(), text.len());
        }
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        String::from_utf8_lossy(&text[..end]).into_owned()
    }

    /// Does not print faults: for tests that bring them about.
    pub fn be_quiet(&self) {
        self.call(b"card_set_quiet", 1);
    }

    /// Takes back everything that was set, and gives lost cards back. A context that a fault broke is
    /// whole again once everybody has released it.
    pub fn reset(&self) {
        self.get::<()>(b"card_reset");
    }

    fn call(&self, name: &[u8], argument: u64) {
        // SAFETY: all functions of this form take one 64-bit number and give nothing.
        let function: Symbol<'_, unsafe extern "C" fn(u64)> =
            unsafe { self.library.get(name) }.expect("the library was built from this crate");
        // SAFETY: as above.
        unsafe { function(argument) }
    }

    fn get<T>(&self, name: &[u8]) -> T {
        // SAFETY: all functions of this form take nothing and give what the caller asks for.
        let function: Symbol<'_, unsafe extern "C" fn() -> T> =
            unsafe { self.library.get(name) }.expect("the library was built from this crate");
        // SAFETY: as above.
        unsafe { function() }
    }
}
