//! Any text is a program or an error; a program prints to text that parses to the same.

#![no_main]

use bireme_ir::Program;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(program) = Program::parse(text) {
        let printed = program.to_string();
        let again = Program::parse(&printed).expect("what is printed parses");
        assert_eq!(again.to_string(), printed);
    }
});
