//! Ctrl-C as a flag that loops look at between steps.
//!
//! The first Ctrl-C asks for an orderly end; a second one ends the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

/// Whether the user asked to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// A flag that Ctrl-C raises from now on.
    ///
    /// # Errors
    /// When the system refuses the handler.
    pub(crate) fn install() -> Result<Interrupt> {
        let interrupt = Interrupt::default();
        let raised = Arc::clone(&interrupt.0);
        ctrlc::set_handler(move || {
            if raised.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        })
        .context("cannot listen for Ctrl-C")?;
        Ok(interrupt)
    }

    /// Whether it is time to stop.
    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
