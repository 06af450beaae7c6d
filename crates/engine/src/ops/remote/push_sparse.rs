//! `distributed_push_sparse`: gradients of the rows that a step looked up, to the servers.

use super::dummies;
use super::table::{ATTRS, Ids, reference};
use crate::Result;
use crate::op::{Kernel, OpDef, OpView, Slot};
use crate::tensor::Tensor;

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
    let (shows, clicks) = (op.maybe_input("Shows"), op.maybe_input("Clicks"));
    let (mut table, mut read) = (reference(op)?, Ids::default());
    let mut counts = Vec::new();
    Ok(Box::new(move |run| {
        table.width = run.dims(weights)?.get(1).copied().unwrap_or(1);
        let slots = read.read(run, &ids)?;
        let grads = grads.iter().map(|grad| run.get::<f32>(*grad)).collect::<Result<Vec<_>>>()?;
        counts.clear();
        if let (Some(shows), Some(clicks)) = (shows, clicks) {
            let (shows, clicks) = (run.tensor(shows)?, run.tensor(clicks)?);
            // Shows and clicks belong to samples; each id of a sample counts with it.
            for ids in &slots {
                let samples = shows.rows().max(1);
                let each = (ids.len() / samples).max(1);
                let sample = |at: usize| (at / each).min(samples - 1);
                let pair = |at: usize| [number(shows, sample(at)), number(clicks, sample(at))];
                counts.extend((0..ids.len()).map(pair));
            }
        }
        let counts = (!counts.is_empty()).then_some(counts.as_slice());
        remote.push_rows(&table, &slots, &grads, counts)
    }))
}

/// Element `at` of a column of counts, which may be of any type of number.
fn number(counts: &Tensor, at: usize) -> f32 {
    match (counts.as_slice::<f32>(), counts.as_slice::<i64>()) {
        (Ok(values), _) => values.get(at).copied().unwrap_or(1.0),
        (_, Ok(values)) => values.get(at).map_or(1.0, |value| *value as f32),
        _ => 1.0,
    }
}
