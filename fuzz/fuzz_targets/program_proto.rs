//! Any bytes are a program or an error; a program survives writing, pruning and drawing.

#![no_main]

use bireme_ir::Program;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(program) = Program::from_bytes(bytes) {
        let written = program.to_bytes();
        let again = Program::from_bytes(&written).expect("what is written reads back");
        assert_eq!(again.to_bytes(), written);
        let _ = (program.clone_for_test(), program.to_dot());
    }
});
