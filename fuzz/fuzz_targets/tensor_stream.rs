//! Any bytes are tensors or an error; a tensor survives writing.

#![no_main]

use bireme_engine::io::{TensorReader, write_tensor};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut reader = TensorReader::new(bytes, "input", bytes.len() as u64);
    while reader.remaining() > 0 {
        let Ok(tensor) = reader.read("var") else { return };
        let mut written = Vec::new();
        write_tensor(&mut written, &tensor).expect("memory can be written");
        let mut again = TensorReader::new(written.as_slice(), "again", written.len() as u64);
        assert_eq!(again.read("var").expect("what is written reads back"), tensor);
    }
});
