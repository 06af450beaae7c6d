//! `cargo xtask kernels`: compiles the CUDA kernels, whose images are stored in the repository so that
//! nobody needs NVIDIA's compiler to build Bireme.

use anyhow::Result;

use crate::process::run as run_command;
use crate::venv::{self, Venv};

/// Writes `crates/cuda/compiled`; with `--check`, fails when it is stale.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let script = venv::script("tools/kernels/compile.py")?;
    run_command(Venv::with_nvrtc()?.python().arg(script).args(args))
}

/// Compiles the kernels again and compares.
pub(crate) fn check() -> Result<()> {
    run(&["--check".to_owned()])
}
