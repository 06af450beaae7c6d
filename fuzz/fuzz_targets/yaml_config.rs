//! Any text is a configuration or an error.

#![no_main]

use std::path::Path;

use bireme_rec::Config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = Config::parse(Path::new("config.yaml"), text, &[]) {
        assert!(!error.to_string().is_empty());
    }
});
