//! `conditional_block`: runs the ops of a block when a condition holds. A plan puts them in its
//! place, so the op itself never runs.

use crate::ops::prelude::*;

pub(super) const DEF: OpDef =
    OpDef::new("conditional_block", |_| Err(Error::kernel("runs inside a program only")))
        .inputs(&[Slot::one("Cond"), Slot::any("Input")])
        .outputs(&[Slot::any("Out"), Slot::any("Scope")])
        .attrs(&[
            attr::required("sub_block", AttrKind::Block),
            attr::bool("is_scalar_condition", true),
            attr::strings("skip_eager_deletion_vars", &[]),
        ])
        .infer(|cx| match cx.op().op.output_vars().next() {
            None if cx.input("Cond")?.dtype != DType::Bool => Err(Error::kernel(format!(
                "its condition must be bool, not {}: compare it with something first",
                cx.input("Cond")?.dtype
            ))),
            None => Ok(()),
            Some(out) => Err(Error::kernel(format!(
                "hands `{out}` on: only blocks that write persistable variables are in this version"
            ))),
        })
        .side_effect();
