//! What the driver's codes mean to us.
#![expect(unsafe_code, reason = "the driver is asked for its words")]

use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUresult};

use super::error::{Error, Result};

/// Turns a code of the driver into a result. `kernel` is the last one that was launched.
pub(super) fn check(
    function: &'static str,
    code: CUresult,
    kernel: impl FnOnce() -> Arc<str>,
) -> Result<()> {
    match code as u32 {
        0 => Ok(()),
        // A card that fell off the bus or broke: "unknown error", bad memory, bad links.
        46 | 214 | 220 | 999 => Err(Error::Lost),
        // What a kernel that runs can do wrong.
        700 | 702 | 710 | 714..=719 => Err(Error::Launch { kernel: kernel(), why: explain(code) }),
        number => Err(Error::Call { function, code: number.cast_signed(), text: explain(code) }),
    }
}

/// As [`check`], for calls before there is a card.
pub(super) fn check_plain(function: &'static str, code: CUresult) -> Result<()> {
    check(function, code, || Arc::from("none"))
}

/// The driver's words for a code.
pub(super) fn explain(code: CUresult) -> String {
    let mut text: *const c_char = ptr::null();
    // SAFETY: the driver sets the pointer to a string of its own, or to null.
    let known = unsafe { sys::cuGetErrorString(code, &raw mut text) };
    if known != CUresult::CUDA_SUCCESS || text.is_null() {
        return format!("{code:?}");
    }
    // SAFETY: it is a string that lives as long as the library.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
