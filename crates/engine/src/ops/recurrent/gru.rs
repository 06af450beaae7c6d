//! `gru`: a gated recurrent unit over ragged sequences; the products with the input are made before.
//!
//! Each step is that of `gru_unit`, with its layout of `Input`, `Weight` and `Bias`. The by-products
//! that the gradient reads are in the order of steps (`packing.rs`).

use super::activation::Activation;
use super::gru_unit::{Reads, Unit, join_columns, split_columns, sum_rows, weight_grad};
use super::packing::{Buffers, Packing};
use crate::ops::prelude::*;

const ATTRS: &[AttrSpec] = &[
    attr::str("activation", "tanh"),
    attr::str("gate_activation", "sigmoid"),
    attr::bool("is_reverse", false),
    attr::bool("origin_mode", false),
    attr::bool("is_test", false),
];

pub(super) const DEF: OpDef = OpDef::new("gru", kernel)
    .inputs(&[Slot::one("Input"), Slot::maybe("H0"), Slot::one("Weight"), Slot::maybe("Bias")])
    .outputs(&[
        Slot::maybe("BatchGate"),
        Slot::maybe("BatchResetHiddenPrev"),
        Slot::maybe("BatchHidden"),
        Slot::one("Hidden"),
    ])
    .attrs(ATTRS)
    .infer(infer)
    .lod_from("Input")
    .gradient(
        Gradient::new(&["Input", "H0", "Weight", "Bias"], grad_kernel)
            .reads(&[
                "Input",
                "H0",
                "Weight",
                "Bias",
                "BatchGate",
                "BatchResetHiddenPrev",
                "BatchHidden",
            ])
            .accepts(&["Hidden"])
            .from(&["Hidden"])
            .lod_from("Input"),
    );

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (input, weight) = (cx.input("Input")?, cx.input("Weight")?);
    let [hidden, _] = weight.dims[..] else {
        return Err(Error::kernel(format!("`Weight` must be a matrix, not {:?}", weight.dims)));
    };
    let triple = if hidden < 0 { -1 } else { 3 * hidden };
    let is = |meta: Option<&Meta>, rows: i64, columns: i64| {
        meta.is_none_or(|meta| match meta.dims[..] {
            [r, c] => same_dim(r, rows).is_ok() && same_dim(c, columns).is_ok(),
            _ => false,
        })
    };
    let fits = hidden != 0
        && is(Some(input), -1, triple)
        && is(Some(weight), hidden, triple)
        && is(cx.maybe_input("Bias"), 1, triple)
        && is(cx.maybe_input("H0"), -1, hidden);
    if !fits {
        return Err(Error::kernel(format!(
            "with `Weight` {:?}, [hidden, 3 * hidden], `Input` must be [rows, 3 * hidden], `Bias` \
             [1, 3 * hidden] and `H0` [sequences, hidden]; `Input` is {:?}",
            weight.dims, input.dims
        )));
    }
    let (gates, states) = (input.clone(), input.with_dims([input.dims[0], hidden]));
    for slot in ["BatchResetHiddenPrev", "BatchHidden", "Hidden"] {
        cx.set(slot, states.clone());
    }
    cx.set("BatchGate", gates);
    Ok(())
}

fn unit(op: &OpView<'_>) -> Result<Unit> {
    Ok(Unit {
        activation: Activation::named(op, "activation")?,
        gate: Activation::named(op, "gate_activation")?,
        origin: op.bool("origin_mode")?,
    })
}

/// The states that sequences begin with, one for each of `sequences`.
pub(super) fn first_states<'a, T: Real>(
    run: &Run<'a>,
    first: Option<In>,
    slot: &str,
    [sequences, hidden]: [usize; 2],
) -> Result<Option<&'a [T]>> {
    let given = first.map(|first| run.get::<T>(first)).transpose()?;
    if given.is_some_and(|given| given.len() != sequences * hidden) {
        return Err(Error::kernel(format!(
            "`{slot}` must have a row of {hidden} for each of {sequences} sequences"
        )));
    }
    Ok(given)
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (input, weight, bias) = (op.input("Input")?, op.input("Weight")?, op.maybe_input("Bias"));
    let (first, mut out) = (op.maybe_input("H0"), op.output("Hidden")?);
    let by_products = ["BatchGate", "BatchResetHiddenPrev", "BatchHidden"];
    let [mut gate, mut reset, mut batch] = by_products.map(|slot| op.maybe_output(slot));
    let (unit, reverse) = (unit(op)?, op.bool("is_reverse")?);
    let (mut packing, mut buffers) = (Packing::default(), Buffers::new());
    float_kernel!(op, "Input", |run, T| {
        let hidden = run.tensor(weight)?.rows();
        packing.read(run.tensor(input)?, "Input", reverse)?;
        let (rows, sequences) = (packing.len(), packing.sequences());
        let first = first_states::<T>(run, first, "H0", [sequences, hidden])?;
        let [packed, gates, candidates, resets, states, last] =
            buffers.slices::<T, 6>([3, 2, 1, 1, 1, 1].map(|times| times * rows * hidden))?;
        packing.pack(3 * hidden, run.get::<T>(input)?, packed);
        let bias = bias.map(|bias| run.get::<T>(bias)).transpose()?;
        split_columns(packed, bias, gates, candidates, hidden);
        let weight = run.get::<T>(weight)?;
        for step in packing.steps() {
            let last = &mut last[..step.len() * hidden];
            match packing.before(&step) {
                Some(before) => {
                    last.copy_from_slice(&states[before.start * hidden..before.end * hidden]);
                }
                None => packing.order_first(hidden, first, last),
            }
            let at = step.start * hidden..step.end * hidden;
            unit.forward(
                [step.len(), hidden],
                last,
                weight,
                &mut gates[2 * at.start..2 * at.end],
                &mut candidates[at.clone()],
                &mut resets[at.clone()],
                &mut states[at],
            );
        }
        packing.unpack(hidden, states, run.set::<T>(&mut out)?);
        if let Some(gate) = &mut gate {
            join_columns(gates, candidates, run.set::<T>(gate)?, hidden);
        }
        if let Some(reset) = &mut reset {
            run.set::<T>(reset)?.copy_from_slice(resets);
        }
        if let Some(batch) = &mut batch {
            run.set::<T>(batch)?.copy_from_slice(states);
        }
    })
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (input, weight, first) = (op.input("Input")?, op.input("Weight")?, op.maybe_input("H0"));
    let (gate, reset) = (op.input("BatchGate")?, op.input("BatchResetHiddenPrev")?);
    let (batch, dout) = (op.input("BatchHidden")?, op.input("Hidden@GRAD")?);
    let wanted = ["Input@GRAD", "H0@GRAD", "Weight@GRAD", "Bias@GRAD"];
    let [mut dinput, mut dfirst, mut dweight, mut dbias] = wanted.map(|slot| op.maybe_output(slot));
    let (unit, reverse) = (unit(op)?, op.bool("is_reverse")?);
    let (mut packing, mut buffers) = (Packing::default(), Buffers::new());
    float_kernel!(op, "Input", |run, T| {
        let hidden = run.tensor(weight)?.rows();
        packing.read(run.tensor(input)?, "Input", reverse)?;
        let (rows, sequences) = (packing.len(), packing.sequences());
        let first = first_states::<T>(run, first, "H0", [sequences, hidden])?;
        let sizes = [1, 2, 1, 1, 1, 1, 3].map(|times| times * rows * hidden);
        let [dstates, dgates, dcandidates, dresets, dlast, last, dpacked] =
            buffers.slices::<T, 7>(sizes)?;
        let (gates, resets) = (run.get::<T>(gate)?, run.get::<T>(reset)?);
        let (states, dout, weight) =
            (run.get::<T>(batch)?, run.get::<T>(dout)?, run.get::<T>(weight)?);
        if [gates.len() / 3, resets.len(), states.len(), dout.len()] != [rows * hidden; 4] {
            return Err(Error::kernel("the by-products of `gru` are not those of `Input`"));
        }
        packing.pack(hidden, dout, dstates);
        if let Some(dfirst) = &mut dfirst {
            run.set::<T>(dfirst)?.fill(0.0);
        }
        packing.last_states(hidden, first, states, last);
        for step in packing.steps().rev() {
            let at = step.start * hidden..step.end * hidden;
            let reads = Reads {
                hidden,
                last: &last[at.clone()],
                weight,
                gates: &gates[3 * at.start..3 * at.end],
                reset_last: &resets[at.clone()],
                dout: &dstates[at.clone()],
            };
            let (dresets, dlast) = (&mut dresets[..at.len()], &mut dlast[..at.len()]);
            let dgates = &mut dgates[2 * at.start..2 * at.end];
            let dcandidates = &mut dcandidates[at];
            unit.backward(step.len(), &reads, dgates, dcandidates, dresets, dlast);
            if let Some(before) = packing.before(&step) {
                let target = dstates[before.start * hidden..before.end * hidden].iter_mut();
                target.zip(&*dlast).for_each(|(d, last)| *d += *last);
            } else if let Some(dfirst) = &mut dfirst {
                packing.first_gradients(hidden, dlast, run.set::<T>(dfirst)?);
            }
        }
        if let Some(dinput) = &mut dinput {
            join_columns(dgates, dcandidates, dpacked, hidden);
            packing.unpack(3 * hidden, dpacked, run.set::<T>(dinput)?);
        }
        if let Some(dweight) = &mut dweight {
            let reads = Reads { hidden, last, weight, gates, reset_last: resets, dout: dstates };
            weight_grad(rows, &reads, dgates, dcandidates, run.set::<T>(dweight)?);
        }
        if let Some(dbias) = &mut dbias {
            let (of_gates, of_candidates) = run.set::<T>(dbias)?.split_at_mut(2 * hidden);
            sum_rows(dgates, of_gates);
            sum_rows(dcandidates, of_candidates);
        }
    })
}
