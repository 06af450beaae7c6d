//! `distributed_push_sparse`: gradients of the rows that a step looked up, to the servers.

use super::dummies;
use super::table::{ATTRS, Ids, reference};
use crate::ops::prelude::*;
use crate::ops::records::{give, read_counts};

pub(super) const DEF: OpDef = OpDef::new("distributed_push_sparse", kernel)
    .inputs(&[
        Slot::many("Ids"),
        Slot::one("W"),
        Slot::many("Outputs@GRAD"),
        Slot::maybe("Shows"),
        Slot::maybe("Clicks"),
    ])
    .outputs(&[Slot::any("Out")])
    .attrs(ATTRS)
    .infer(|cx| {
        dummies(cx, "Out");
        Ok(())
    })
    .side_effect();

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (remote, weights) = (op.remote()?, op.input("W")?);
    let (ids, grads) = (op.inputs("Ids"), op.inputs("Outputs@GRAD"));
    let counted = match (op.maybe_input("Shows"), op.maybe_input("Clicks")) {
        (Some(shows), Some(clicks)) => Some((shows, clicks)),
        (None, None) => None,
        _ => return Err(Error::kernel("takes `Shows` and `Clicks` together, or neither")),
    };
    let names = op.op.inputs_of("Ids").to_vec();
    let (mut table, mut read) = (reference(op)?, Ids::default());
    let (mut counts, mut samples) = (Vec::new(), Vec::new());
    Ok(Box::new(move |run| {
        table.width = run.dims(weights)?.get(1).copied().unwrap_or(1);
        let slots = read.read(run, &ids)?;
        let grads = grads.iter().map(|grad| run.get::<f32>(*grad)).collect::<Result<Vec<_>>>()?;
        let Some((shows, clicks)) = counted else {
            return remote.push_rows(&table, &slots, &grads, None);
        };
        samples.clear();
        read_counts(run.tensor(shows)?, run.tensor(clicks)?, &mut samples)?;
        counts.clear();
        for (ids, name) in ids.iter().zip(&names) {
            give(run.tensor(*ids)?, name, &samples, &mut counts)?;
        }
        remote.push_rows(&table, &slots, &grads, Some(&counts))
    }))
}
