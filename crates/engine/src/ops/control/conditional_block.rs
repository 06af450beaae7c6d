//! `conditional_block`: runs the ops of a block when a condition holds. A plan runs the block (`flow`), or puts its
//! ops in its place; the op itself never runs.

use crate::ops::prelude::*;

const FLOW: Flow = Flow {
    condition: "Cond",
    reads: "Input",
    saved: "Scope",
    repeats: false,
    gradient: Some("conditional_block_grad"),
};

pub(super) const DEF: OpDef = OpDef::new("conditional_block", |_| Err(needs_program()))
    .inputs(&[Slot::many("Cond"), Slot::any("Input")])
    .outputs(&[Slot::any("Out"), Slot::any("Scope")])
    .attrs(&[
        attr::required("sub_block", AttrKind::Block),
        attr::bool("is_scalar_condition", true),
        attr::strings("skip_eager_deletion_vars", &[]),
    ])
    .runs_block(&FLOW);

/// Its attributes beyond Paddle's say which variable of the block means which of the slots (`flow::Wiring`).
pub(super) const GRAD: OpDef = OpDef::new("conditional_block_grad", |_| Err(needs_program()))
    .inputs(&[
        Slot::any("Cond"),
        Slot::any("Input"),
        Slot::any("Out"),
        Slot::any("Out@GRAD"),
        Slot::any("Scope"),
    ])
    .outputs(&[Slot::any("Input@GRAD")])
    .attrs(&[
        attr::required("sub_block", AttrKind::Block),
        attr::bool("is_scalar_condition", true),
        attr::strings("skip_eager_deletion_vars", &[]),
        attr::strings("inner_inputs", &[]),
        attr::strings("inner_gradients", &[]),
        attr::strings("targets", &[]),
        attr::ints("target_outputs", &[]),
        attr::ints("target_gradients", &[]),
        attr::ints("target_inputs", &[]),
    ])
    .like(&[("Input@GRAD", "Input")])
    .runs_block(&Flow { gradient: None, ..FLOW });

/// The error of an op that is run outside of any program.
pub(super) fn needs_program() -> Error {
    Error::kernel("runs inside a program only")
}
