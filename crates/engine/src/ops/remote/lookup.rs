//! `distributed_lookup_table`: rows of a table on the servers, for all its lookups in a step.

use super::table::{ATTRS, Ids, reference};
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("distributed_lookup_table", kernel)
    .inputs(&[Slot::many("Ids"), Slot::one("W")])
    .outputs(&[Slot::many("Outputs")])
    .attrs(ATTRS)
    .infer(infer)
    .side_effect();

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let table = cx.input("W")?;
    let &[_, width] = table.dims.as_slice() else {
        return Err(Error::kernel(format!("table `W` must have rank 2, not {:?}", table.dims)));
    };
    let drops_last = cx.op().string("lookup_table_version")? == "lookup_table";
    let mut outputs = Vec::new();
    for ids in cx.inputs("Ids") {
        let dims = match ids.dims.split_last() {
            Some((1 | -1, rest)) if drops_last => rest,
            _ if drops_last => {
                return Err(Error::kernel(format!(
                    "`Ids` must have a last dimension of 1, but its shape is {:?}; \
                     `lookup_table_v2` takes ids without it",
                    ids.dims
                )));
            }
            _ => &ids.dims,
        };
        let mut out = table.with_dims([dims, &[width]].concat());
        out.lod_level = ids.lod_level;
        outputs.push(out);
    }
    cx.set_each("Outputs", outputs);
    Ok(())
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (remote, weights) = (op.remote()?, op.input("W")?);
    let (ids, mut outs) = (op.inputs("Ids"), op.outputs("Outputs"));
    let (mut table, mut read) = (reference(op)?, Ids::default());
    Ok(Box::new(move |run| {
        table.width = run.dims(weights)?.get(1).copied().unwrap_or(1);
        let slots = read.read(run, &ids)?;
        for (ids, out) in ids.iter().zip(&mut outs) {
            run.out(out)?.set_lod(run.tensor(*ids)?.lod());
        }
        let mut rows =
            outs.iter_mut().map(|out| run.out(out)).collect::<Result<Vec<&mut Tensor>>>()?;
        remote.pull_tensors(&table, &slots, &mut rows)
    }))
}
