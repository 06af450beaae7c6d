//! `gru_unit`: one step of a gated recurrent unit; the products with the input are made before.
//!
//! `Weight` holds two matrices one after the other: `[hidden, 2 * hidden]` for the update and reset
//! gates, then `[hidden, hidden]` for the candidate.

use super::activation::Activation;
use crate::gemm::{Matrix, Order, gemm, gemm_add};
use crate::ops::prelude::*;

const ATTRS: &[AttrSpec] = &[
    attr::int("activation", 2),
    attr::int("gate_activation", 1),
    attr::bool("origin_mode", false),
];

pub(super) const DEF: OpDef = OpDef::new("gru_unit", kernel)
    .inputs(&[
        Slot::one("Input"),
        Slot::one("HiddenPrev"),
        Slot::one("Weight"),
        Slot::maybe("Bias"),
    ])
    .outputs(&[Slot::maybe("Gate"), Slot::maybe("ResetHiddenPrev"), Slot::one("Hidden")])
    .attrs(ATTRS)
    .infer(infer)
    .split(SplitRule::batch(&["Input", "HiddenPrev"]))
    .gradient(
        Gradient::new(&["Input", "HiddenPrev", "Weight", "Bias"], grad_kernel)
            .reads(&["Input", "HiddenPrev", "Weight", "Bias", "Gate", "ResetHiddenPrev"])
            .from(&["Hidden"]),
    );

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (input, last, weight) = (cx.input("Input")?, cx.input("HiddenPrev")?, cx.input("Weight")?);
    let misfit = |what: &str, given: &[i64]| {
        Error::kernel(format!("{what}, not {given:?}; `HiddenPrev` is {:?}", last.dims))
    };
    let [rows, hidden] = last.dims[..] else {
        return Err(misfit("`HiddenPrev` must be a matrix", &last.dims));
    };
    if hidden == 0 {
        return Err(misfit("`HiddenPrev` must have columns", &last.dims));
    }
    let fits = |given: &[i64], want: [i64; 2]| {
        given.len() == 2 && given.iter().zip(want).all(|(a, b)| same_dim(*a, b).is_ok())
    };
    let triple = if hidden < 0 { -1 } else { 3 * hidden };
    if !fits(&input.dims, [rows, triple]) {
        return Err(misfit("`Input` must have shape [rows, 3 * hidden]", &input.dims));
    }
    if !fits(&weight.dims, [hidden, triple]) {
        return Err(misfit("`Weight` must have shape [hidden, 3 * hidden]", &weight.dims));
    }
    if let Some(bias) = cx.maybe_input("Bias")
        && !fits(&bias.dims, [1, triple])
    {
        return Err(misfit("`Bias` must have shape [1, 3 * hidden]", &bias.dims));
    }
    cx.set("Gate", input.clone());
    cx.set("ResetHiddenPrev", last.clone());
    cx.set("Hidden", last.clone());
    Ok(())
}

/// What the attributes say.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    pub(super) activation: Activation,
    pub(super) gate: Activation,
    /// Which of the two ways to mix candidate and last state.
    pub(super) origin: bool,
}

impl Unit {
    fn of(op: &OpView<'_>) -> Result<Unit> {
        let activation = |attr: &str| Activation::of(attr, op.i64(attr)?);
        Ok(Unit {
            activation: activation("activation")?,
            gate: activation("gate_activation")?,
            origin: op.bool("origin_mode")?,
        })
    }
}

/// Memory that is used again every step: both gates side by side, a candidate, and values of its
/// size.
#[derive(Default)]
struct Scratch(Option<[Tensor; 3]>);

impl Scratch {
    fn slices<T: Real>(&mut self, sizes: [usize; 3]) -> Result<[&mut [T]; 3]> {
        let empty = || std::array::from_fn(|_| Tensor::empty(DType::F32));
        let [a, b, c] = self.0.get_or_insert_with(empty);
        for (tensor, size) in [&mut *a, &mut *b, &mut *c].into_iter().zip(sizes) {
            tensor.resize(T::DTYPE, [size]);
        }
        Ok([a.as_mut_slice()?, b.as_mut_slice()?, c.as_mut_slice()?])
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (input, last) = (op.input("Input")?, op.input("HiddenPrev")?);
    let (weight, bias) = (op.input("Weight")?, op.maybe_input("Bias"));
    let (mut gate, mut reset) = (op.maybe_output("Gate"), op.maybe_output("ResetHiddenPrev"));
    let (mut hidden, unit, mut scratch) = (op.output("Hidden")?, Unit::of(op)?, Scratch::default());
    float_kernel!(op, "Input", |run, T| {
        let dims = run.dims(last)?;
        let count = dims[0] * dims[1];
        let [gates, candidate, given] = scratch.slices::<T>([2 * count, count, count])?;
        let (input, last) = (run.get::<T>(input)?, run.get::<T>(last)?);
        let bias = bias.map(|bias| run.get::<T>(bias)).transpose()?;
        split_columns(input, bias, gates, candidate, dims[1]);
        let reset_last = match &mut reset {
            Some(reset) => run.set::<T>(reset)?,
            None => given,
        };
        let weight = run.get::<T>(weight)?;
        let out = run.set::<T>(&mut hidden)?;
        unit.forward([dims[0], dims[1]], last, weight, gates, candidate, reset_last, out);
        if let Some(gate) = &mut gate {
            join_columns(gates, candidate, run.set::<T>(gate)?, dims[1]);
        }
    })
}

/// Takes the first two thirds and the last third of every row apart, and adds the bias.
pub(super) fn split_columns<T: Real>(
    rows: &[T],
    bias: Option<&[T]>,
    gates: &mut [T],
    candidate: &mut [T],
    hidden: usize,
) {
    let targets = gates.chunks_exact_mut(2 * hidden).zip(candidate.chunks_exact_mut(hidden));
    for (row, (gates, candidate)) in rows.chunks_exact(3 * hidden).zip(targets) {
        gates.copy_from_slice(&row[..2 * hidden]);
        candidate.copy_from_slice(&row[2 * hidden..]);
        if let Some(bias) = bias {
            let both = gates.iter_mut().chain(candidate);
            both.zip(bias).for_each(|(value, bias)| *value += *bias);
        }
    }
}

/// The reverse of [`split_columns`].
pub(super) fn join_columns<T: Real>(gates: &[T], candidate: &[T], rows: &mut [T], hidden: usize) {
    let sources = gates.chunks_exact(2 * hidden).zip(candidate.chunks_exact(hidden));
    for (row, (gates, candidate)) in rows.chunks_exact_mut(3 * hidden).zip(sources) {
        row[..2 * hidden].copy_from_slice(gates);
        row[2 * hidden..].copy_from_slice(candidate);
    }
}

impl Unit {
    #[expect(clippy::too_many_arguments, reason = "what a step reads and writes")]
    pub(super) fn forward<T: Matrix + Real>(
        &self,
        [rows, hidden]: [usize; 2],
        last: &[T],
        weight: &[T],
        gates: &mut [T],
        candidate: &mut [T],
        reset_last: &mut [T],
        out: &mut [T],
    ) {
        let (of_gates, of_candidate) = weight.split_at(2 * hidden * hidden);
        let plain = Order::Plain;
        gemm_add(rows, 2 * hidden, hidden, gates, last, plain, of_gates, plain);
        self.gate.apply(gates);
        for (row, gates) in gates.chunks_exact(2 * hidden).enumerate() {
            let at = row * hidden..(row + 1) * hidden;
            let reset = &gates[hidden..];
            for ((out, reset), last) in reset_last[at.clone()].iter_mut().zip(reset).zip(&last[at])
            {
                *out = *reset * *last;
            }
        }
        gemm_add(rows, hidden, hidden, candidate, reset_last, plain, of_candidate, plain);
        self.activation.apply(candidate);
        for (row, gates) in gates.chunks_exact(2 * hidden).enumerate() {
            let at = row * hidden..(row + 1) * hidden;
            let (last, candidate) = (&last[at.clone()], &candidate[at.clone()]);
            for (((out, update), last), candidate) in
                out[at].iter_mut().zip(gates).zip(last).zip(candidate)
            {
                let share = if self.origin { T::ONE - *update } else { *update };
                *out = *last + share * (*candidate - *last);
            }
        }
    }
}

/// What the gradient reads.
pub(super) struct Reads<'a, T> {
    pub(super) hidden: usize,
    pub(super) last: &'a [T],
    pub(super) weight: &'a [T],
    pub(super) gates: &'a [T],
    pub(super) reset_last: &'a [T],
    pub(super) dout: &'a [T],
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (last, weight) = (op.input("HiddenPrev")?, op.input("Weight")?);
    let (gate, reset) = (op.input("Gate")?, op.input("ResetHiddenPrev")?);
    let (dout, unit, mut scratch) = (op.input("Hidden@GRAD")?, Unit::of(op)?, Scratch::default());
    let wanted = ["Input@GRAD", "HiddenPrev@GRAD", "Weight@GRAD", "Bias@GRAD"];
    let [mut dinput, mut dlast, mut dweight, mut dbias] = wanted.map(|slot| op.maybe_output(slot));
    let mut own_dlast = Tensor::empty(DType::F32);
    float_kernel!(op, "HiddenPrev", |run, T| {
        let dims = run.dims(last)?;
        let count = dims[0] * dims[1];
        let [dgates, dcandidate, dreset] = scratch.slices::<T>([2 * count, count, count])?;
        let reads = Reads::<T> {
            hidden: dims[1],
            last: run.get(last)?,
            weight: run.get(weight)?,
            gates: run.get(gate)?,
            reset_last: run.get(reset)?,
            dout: run.get(dout)?,
        };
        let to_last = match &mut dlast {
            Some(dlast) => run.set::<T>(dlast)?,
            None => {
                own_dlast.resize(T::DTYPE, [count]);
                own_dlast.as_mut_slice()?
            }
        };
        unit.backward(dims[0], &reads, dgates, dcandidate, dreset, to_last);
        if let Some(dinput) = &mut dinput {
            join_columns(dgates, dcandidate, run.set::<T>(dinput)?, dims[1]);
        }
        if let Some(dweight) = &mut dweight {
            weight_grad(dims[0], &reads, dgates, dcandidate, run.set::<T>(dweight)?);
        }
        if let Some(dbias) = &mut dbias {
            let (of_gates, of_candidate) = run.set::<T>(dbias)?.split_at_mut(2 * dims[1]);
            sum_rows(dgates, of_gates);
            sum_rows(dcandidate, of_candidate);
        }
    })
}

impl Unit {
    /// The gradients of gates and candidate before activation, and of the last state.
    pub(super) fn backward<T: Matrix + Real>(
        &self,
        rows: usize,
        reads: &Reads<'_, T>,
        dgates: &mut [T],
        dcandidate: &mut [T],
        dreset: &mut [T],
        dlast: &mut [T],
    ) {
        let hidden = reads.hidden;
        let (of_gates, of_candidate) = reads.weight.split_at(2 * hidden * hidden);
        for row in 0..rows {
            let values = &reads.gates[row * 3 * hidden..(row + 1) * 3 * hidden];
            let dupdate = &mut dgates[row * 2 * hidden..][..hidden];
            for j in 0..hidden {
                let at = row * hidden + j;
                let (update, candidate, d) = (values[j], values[2 * hidden + j], reads.dout[at]);
                let (share, sign) =
                    if self.origin { (T::ONE - update, -T::ONE) } else { (update, T::ONE) };
                dupdate[j] = sign * d * (candidate - reads.last[at]) * self.gate.slope(update);
                dcandidate[at] = d * share * self.activation.slope(candidate);
                dlast[at] = d * (T::ONE - share);
            }
        }
        let (plain, turned) = (Order::Plain, Order::Transposed);
        gemm(rows, hidden, hidden, dreset, dcandidate, plain, of_candidate, turned);
        for row in 0..rows {
            let reset = &reads.gates[row * 3 * hidden + hidden..][..hidden];
            let target = &mut dgates[row * 2 * hidden + hidden..][..hidden];
            for j in 0..hidden {
                let at = row * hidden + j;
                target[j] = dreset[at] * reads.last[at] * self.gate.slope(reset[j]);
                dlast[at] += dreset[at] * reset[j];
            }
        }
        gemm_add(rows, hidden, 2 * hidden, dlast, dgates, plain, of_gates, turned);
    }
}

pub(super) fn weight_grad<T: Matrix + Real>(
    rows: usize,
    reads: &Reads<'_, T>,
    dgates: &[T],
    dcandidate: &[T],
    dweight: &mut [T],
) {
    let hidden = reads.hidden;
    let (of_gates, of_candidate) = dweight.split_at_mut(2 * hidden * hidden);
    let (plain, turned) = (Order::Plain, Order::Transposed);
    gemm(hidden, 2 * hidden, rows, of_gates, reads.last, turned, dgates, plain);
    gemm(hidden, hidden, rows, of_candidate, reads.reset_last, turned, dcandidate, plain);
}

pub(super) fn sum_rows<T: Real>(rows: &[T], sums: &mut [T]) {
    sums.fill(T::ZERO);
    if !sums.is_empty() {
        for row in rows.chunks_exact(sums.len()) {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += *x);
        }
    }
}
