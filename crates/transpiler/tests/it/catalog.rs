//! Checks a role's program: known ops and attributes, declared variables, order, shapes, blocks.

use bireme_engine::catalog::Ops;
use bireme_ir::{Program, verify};

/// Fails when something about `program` is broken.
pub(crate) fn check(program: &Program) {
    if let Err(error) = verify(program, &Ops) {
        panic!("{error}\n{program}");
    }
    let text = program.to_string();
    assert_eq!(Program::parse(&text).unwrap().to_string(), text);
}
