//! Any bytes are a manifest or an error; any bytes in place of a checkpoint's files are rows or an
//! error.

#![no_main]

use std::fs;

use bireme_ps::checkpoint::{Manifest, gather_dense, gather_states, scan_table, verify};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    // The manifest, a NUL, and the contents of every file that it names.
    let cut = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    let (text, file) = (&input[..cut], input.get(cut + 1..).unwrap_or_default());
    let Ok(manifest) = Manifest::from_bytes(text) else { return };
    let dir = std::env::temp_dir().join(format!("bireme-fuzz-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a folder can be made");
    fs::write(dir.join("manifest.json"), text).expect("a file can be written");
    for entry in manifest.saves.iter().flat_map(|save| &save.files) {
        fs::write(dir.join(&entry.name), file).ok();
    }
    verify(&dir, &manifest);
    gather_dense(&dir).ok();
    gather_states(&dir).ok();
    for table in manifest.saves.iter().flat_map(|save| &save.tables) {
        scan_table(&dir, &manifest, &table.layout.name, &mut |_| Ok(())).ok();
    }
    fs::remove_dir_all(&dir).ok();
});
