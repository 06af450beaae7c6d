//! Any words are a request or a usage error.

#![no_main]

use std::ffi::OsString;

use bireme_launch::arguments::{Flavor, Variables, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|words: Vec<String>| {
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    for flavor in [Flavor::Fleetrun, Flavor::LaunchPs] {
        let _ = parse(&words, &Variables::new(), flavor, "fleetrun");
    }
});
