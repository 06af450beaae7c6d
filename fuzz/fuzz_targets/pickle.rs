//! Any bytes are arrays by name or an error; arrays survive writing.

#![no_main]

use bireme_rec::pickle::{read, write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(arrays) = read(bytes) else { return };
    let mut written = Vec::new();
    let names = arrays.keys().map(String::as_str);
    write(&mut written, names, |name| Ok(arrays[name].clone())).expect("memory can be written");
    let again = read(&written).expect("what is written reads back");
    // bfloat16 is written as the bits of its numbers, which NumPy has a type for.
    assert_eq!(again.len(), arrays.len());
    for (name, array) in &arrays {
        assert_eq!(again[name].dims(), array.dims());
        assert_eq!(again[name].as_bytes(), array.as_bytes());
    }
});
