//! `distributed_push_sparse`: gradients of the rows that a step looked up, to the servers.

use super::dummies;
use super::table::{ATTRS, Ids, reference};
use crate::ops::prelude::*;

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

/// Show and click of each sample.
fn read_counts(shows: &Tensor, clicks: &Tensor, samples: &mut Vec<[f32; 2]>) -> Result<()> {
    if shows.numel() != shows.rows() || clicks.numel() != clicks.rows() {
        return Err(Error::kernel(format!(
            "`Shows` {} and `Clicks` {} must have one number for each sample",
            shows.dims(),
            clicks.dims()
        )));
    }
    if shows.rows() != clicks.rows() {
        return Err(Error::kernel(format!(
            "`Shows` counts {} samples, but `Clicks` {}",
            shows.rows(),
            clicks.rows()
        )));
    }
    samples.resize(shows.rows(), [0.0; 2]);
    for (which, (slot, counts)) in [("Shows", shows), ("Clicks", clicks)].into_iter().enumerate() {
        let out = samples.iter_mut().map(|pair| &mut pair[which]);
        crate::dispatch!(counts.dtype(), T in [f32, f64, i32, i64] => {
            out.zip(counts.as_slice::<T>()?).for_each(|(out, count)| *out = count.to_f64() as f32);
        }, else => return Err(not_a_count(slot, counts.dtype())));
    }
    Ok(())
}

#[cold]
fn not_a_count(slot: &str, dtype: DType) -> Error {
    Error::kernel(format!("`{slot}` must be float32, float64, int32 or int64, not {dtype}"))
}

/// Appends a pair for each id of a slot: that of the sample which the id belongs to. A sample is a
/// sequence where the slot is ragged, and where it is not, a row or as many rows as there are for
/// each. One pair counts for all samples.
fn give(ids: &Tensor, slot: &str, samples: &[[f32; 2]], counts: &mut Vec<[f32; 2]>) -> Result<()> {
    let have = ids.lod().first().map_or(ids.rows(), |offsets| offsets.len().saturating_sub(1));
    if let [pair] = samples {
        counts.resize(counts.len() + ids.numel(), *pair);
        return Ok(());
    }
    let is_flat = ids.lod().is_empty() && have.is_multiple_of(samples.len());
    if have != samples.len() && !is_flat {
        return Err(Error::kernel(format!(
            "`{slot}` has {have} samples, but `Shows` and `Clicks` count {}",
            samples.len()
        )));
    }
    let width = ids.numel() / ids.rows().max(1);
    let Some((outer, inner)) = ids.lod().split_first() else {
        let width = ids.numel() / samples.len().max(1);
        samples.iter().for_each(|pair| counts.resize(counts.len() + width, *pair));
        return Ok(());
    };
    // Offsets of an outer level count sequences of the level below it.
    let row = |at: usize| inner.iter().fold(at, |at, offsets| offsets[at]);
    for (pair, ends) in samples.iter().zip(outer.windows(2)) {
        counts.resize(counts.len() + (row(ends[1]) - row(ends[0])) * width, *pair);
    }
    Ok(())
}
