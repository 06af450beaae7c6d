//! `while`: runs the ops of a block again as long as a condition holds, which the block computes anew. A plan runs
//! the block (`flow`); the op itself never runs.

use super::conditional_block::needs_program;
use crate::ops::prelude::*;

const FLOW: Flow = Flow {
    condition: "Condition",
    reads: "X",
    saved: "StepScopes",
    repeats: true,
    gradient: Some("while_grad"),
};

pub(super) const DEF: OpDef = OpDef::new("while", |_| Err(needs_program()))
    .inputs(&[Slot::one("Condition"), Slot::any("X")])
    .outputs(&[Slot::any("Out"), Slot::any("StepScopes")])
    .attrs(&[
        attr::required("sub_block", AttrKind::Block),
        attr::bool("is_test", false),
        attr::strings("skip_eager_deletion_vars", &[]),
    ])
    .runs_block(&FLOW);

/// Its attributes beyond Paddle's say which variable of the block means which of the slots (`flow::Wiring`).
pub(super) const GRAD: OpDef = OpDef::new("while_grad", |_| Err(needs_program()))
    .inputs(&[Slot::any("X"), Slot::any("Out"), Slot::any("Out@GRAD"), Slot::any("StepScopes")])
    .outputs(&[Slot::any("X@GRAD")])
    .attrs(&[
        attr::required("sub_block", AttrKind::Block),
        attr::bool("is_test", false),
        attr::strings("skip_eager_deletion_vars", &[]),
        attr::strings("original_output_grad", &[]),
        attr::strings("inner_inputs", &[]),
        attr::strings("inner_gradients", &[]),
        attr::strings("targets", &[]),
        attr::ints("target_outputs", &[]),
        attr::ints("target_gradients", &[]),
        attr::ints("target_inputs", &[]),
    ])
    .like(&[("X@GRAD", "X")])
    .runs_block(&Flow { gradient: None, ..FLOW });
