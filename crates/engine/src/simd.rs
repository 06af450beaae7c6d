//! Loops compiled for the widest vectors of the machine they run on.

/// Runs `kernel`, compiled once for each level of vector instructions, at the level this machine
/// has. Loops must be inlined into the closure to profit: call `#[inline(always)]` functions.
#[inline(always)]
pub fn vectorized<R>(kernel: impl FnOnce() -> R) -> R {
    if cfg!(miri) {
        // It has no vectors, and asking for them takes it long.
        return kernel();
    }
    pulp::Arch::new().dispatch(kernel)
}

/// [`vectorized`] for loops over `T` where only elements of four bytes are worth it: what trains is
/// `f32`, and each level of instructions compiles every loop once more for every type.
#[inline(always)]
pub fn vectorized_for<T, R>(kernel: impl FnOnce() -> R) -> R {
    if size_of::<T>() == 4 { vectorized(kernel) } else { kernel() }
}
