//! Kernels by name: files of kernels are loaded when one of theirs is first asked for.
#![expect(unsafe_code, reason = "the driver is called")]

use std::collections::HashMap;
use std::ffi::CString;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};

use cudarc::driver::sys::{self, CUfunction, CUfunction_attribute, CUmodule, CUresult};

use super::card::Card;
use super::compiled;
use super::error::{Error, Result};
use super::stream::wrong;

/// Shared memory that every launch may ask for; more must be allowed for the kernel first.
const PLAIN_SHARED_BYTES: u32 = 48 << 10;

/// A kernel of a card, as long as the card is open.
#[derive(Clone)]
pub struct Function {
    name: Arc<str>,
    handle: CUfunction,
    /// Whether it waits by itself for what was launched before it.
    waits: bool,
    /// How much dynamic shared memory a launch may ask for.
    shared_bytes: Arc<AtomicU32>,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// What a card has loaded.
#[derive(Default)]
pub(super) struct Modules {
    /// By the name of the file.
    loaded: HashMap<&'static str, CUmodule>,
    functions: HashMap<String, Function>,
}

impl Modules {
    /// Unloads everything; the card's context is current.
    pub(super) fn unload(&mut self) {
        self.functions.clear();
        for (_, module) in self.loaded.drain() {
            // SAFETY: the handle is ours, and functions live no longer than the card.
            let _ = unsafe { sys::cuModuleUnload(module) };
        }
    }
}

impl Function {
    /// Its name in the kernel file.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether it waits by itself for what was launched before it, so that it may be launched early.
    pub fn waits(&self) -> bool {
        self.waits
    }

    pub(super) fn handle(&self) -> CUfunction {
        self.handle
    }

    /// Lets launches ask for so much dynamic shared memory.
    pub(super) fn allow_shared(&self, card: &Card, bytes: u32) -> Result<()> {
        if bytes <= self.shared_bytes.load(Ordering::Relaxed) {
            return Ok(());
        }
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let value = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the handle lives as long as the card.
        card.check("cuFuncSetAttribute", unsafe {
            sys::cuFuncSetAttribute(self.handle, attribute, value)
        })?;
        self.shared_bytes.fetch_max(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Card {
    /// The kernel of this name. Not to be asked for the first time while work is recorded: loading
    /// waits for the card.
    pub fn function(&self, name: &str) -> Result<Function> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = modules.functions.get(name) {
            return Ok(function.clone());
        }
        self.enter()?;
        let symbol = CString::new(name)
            .map_err(|_| wrong("cuModuleGetFunction", format!("no name: {name:?}")))?;
        // The emulated card knows all kernels, whatever the image.
        let file =
            if self.is_emulated() { Some(compiled::EMULATED) } else { compiled::file_of(name) };
        let Some(file) = file else { return Err(no_kernel(name)) };
        let module = match modules.loaded.get(file) {
            Some(module) => *module,
            None => {
                let module = self.load(file)?;
                modules.loaded.insert(file, module);
                module
            }
        };
        let mut handle: CUfunction = ptr::null_mut();
        // SAFETY: the module is loaded, the name ends with a zero, and the driver writes one handle.
        let code = unsafe { sys::cuModuleGetFunction(&raw mut handle, module, symbol.as_ptr()) };
        if code == CUresult::CUDA_ERROR_NOT_FOUND {
            return Err(no_kernel(name));
        }
        self.check("cuModuleGetFunction", code)?;
        let shared_bytes = Arc::new(AtomicU32::new(PLAIN_SHARED_BYTES));
        // What was compiled for all cards has no such instruction; the emulated card sees who does not wait.
        let has_code = self.is_emulated() || self.capability() == (9, 0);
        let waits = compiled::waits(name) && has_code;
        let function = Function { name: Arc::from(name), handle, waits, shared_bytes };
        modules.functions.insert(name.to_owned(), function.clone());
        Ok(function)
    }

    /// Loads a file of kernels: its code where it was compiled for this card, its PTX otherwise.
    fn load(&self, file: &str) -> Result<CUmodule> {
        let mut image = compiled::image(file, self.capability() == (9, 0))
            .map_err(|error| wrong("cuModuleLoadData", format!("kernels `{file}`: {error}")))?;
        // PTX is a string.
        image.push(0);
        let mut module: CUmodule = ptr::null_mut();
        // SAFETY: the image is whole and ends with a zero, and the driver writes one handle.
        let code = unsafe { sys::cuModuleLoadData(&raw mut module, image.as_ptr().cast()) };
        self.check("cuModuleLoadData", code)?;
        Ok(module)
    }
}

fn no_kernel(name: &str) -> Error {
    let text = format!("there is no kernel `{name}`");
    let code = CUresult::CUDA_ERROR_NOT_FOUND as i32;
    Error::Call { function: "cuModuleGetFunction", code, text }
}
