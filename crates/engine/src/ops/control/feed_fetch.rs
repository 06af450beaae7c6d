//! `feed` and `fetch`: the edges of a program. The executor moves their values itself; here they
//! only have a signature.

use crate::ops::prelude::*;

pub(super) const FEED: OpDef = definition("feed");
pub(super) const FETCH: OpDef = definition("fetch");

const INPUTS: &[Slot] = &[Slot::one("X")];
const OUTPUTS: &[Slot] = &[Slot::one("Out")];
const ATTRS: &[AttrSpec] = &[attr::required("col", AttrKind::Int)];

const fn definition(name: &'static str) -> OpDef {
    OpDef::new(name, refuse).inputs(INPUTS).outputs(OUTPUTS).attrs(ATTRS).side_effect()
}

fn refuse(op: &OpView<'_>) -> Result<Kernel> {
    Err(Error::kernel(format!(
        "`{}` has no kernel: the executor moves fed and fetched values itself",
        op.op.kind
    )))
}
