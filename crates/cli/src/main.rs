//! The `bireme` executable; everything it does is in the library.

use std::process::ExitCode;

/// Batches of fresh tensors are allocated by several threads; this allocator scales with them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    bireme_cli::run()
}
