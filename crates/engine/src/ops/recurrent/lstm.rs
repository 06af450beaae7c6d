//! `lstm`: a long short-term memory over ragged sequences; the products with the input are made
//! before.
//!
//! Columns of `Input`, `Weight` and `Bias`, `hidden` of each: candidate, input gate, forget gate,
//! output gate. With `use_peepholes`, `Bias` goes on with the weights by which the gates look at the
//! cell: input and forget gate at the last one, the output gate at the new one. The by-products that
//! the gradient reads are in the order of steps (`packing.rs`): the activated gates, and the
//! activated cells.

use super::activation::Activation;
use super::gru::first_states;
use super::gru_unit::sum_rows;
use super::packing::{Buffers, Packing};
use crate::gemm::{Matrix, Order, gemm, gemm_add};
use crate::ops::prelude::*;

const ATTRS: &[AttrSpec] = &[
    attr::bool("use_peepholes", true),
    attr::bool("is_reverse", false),
    attr::bool("is_test", false),
    attr::str("gate_activation", "sigmoid"),
    attr::str("cell_activation", "tanh"),
    attr::str("candidate_activation", "tanh"),
];

pub(super) const DEF: OpDef = OpDef::new("lstm", kernel)
    .inputs(&[
        Slot::one("Input"),
        Slot::maybe("H0"),
        Slot::maybe("C0"),
        Slot::one("Weight"),
        Slot::one("Bias"),
    ])
    .outputs(&[
        Slot::one("Hidden"),
        Slot::one("Cell"),
        Slot::maybe("BatchGate"),
        Slot::maybe("BatchCellPreAct"),
    ])
    .attrs(ATTRS)
    .infer(infer)
    .lod_from("Input")
    .gradient(
        Gradient::new(&["Input", "H0", "C0", "Weight", "Bias"], grad_kernel)
            .reads(&[
                "Input",
                "H0",
                "C0",
                "Weight",
                "Bias",
                "Hidden",
                "Cell",
                "BatchGate",
                "BatchCellPreAct",
            ])
            .from(&["Hidden", "Cell"])
            .lod_from("Input"),
    );

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let (input, weight) = (cx.input("Input")?, cx.input("Weight")?);
    let [hidden, _] = weight.dims[..] else {
        return Err(Error::kernel(format!("`Weight` must be a matrix, not {:?}", weight.dims)));
    };
    let times = |count: i64| if hidden < 0 { -1 } else { count * hidden };
    let biases = if cx.op().bool("use_peepholes")? { 7 } else { 4 };
    let is = |meta: Option<&Meta>, rows: i64, columns: i64| {
        meta.is_none_or(|meta| match meta.dims[..] {
            [r, c] => same_dim(r, rows).is_ok() && same_dim(c, columns).is_ok(),
            _ => false,
        })
    };
    let fits = hidden != 0
        && is(Some(input), -1, times(4))
        && is(Some(weight), hidden, times(4))
        && is(Some(cx.input("Bias")?), 1, times(biases))
        && is(cx.maybe_input("H0"), -1, hidden)
        && is(cx.maybe_input("C0"), -1, hidden);
    if !fits {
        return Err(Error::kernel(format!(
            "with `Weight` {:?}, [hidden, 4 * hidden], `Input` must be [rows, 4 * hidden], `Bias` \
             [1, {biases} * hidden], and `H0` and `C0` [sequences, hidden]; `Input` is {:?} and \
             `Bias` {:?}",
            weight.dims,
            input.dims,
            cx.input("Bias")?.dims
        )));
    }
    let (gates, states) = (input.clone(), input.with_dims([input.dims[0], hidden]));
    for slot in ["Hidden", "Cell", "BatchCellPreAct"] {
        cx.set(slot, states.clone());
    }
    cx.set("BatchGate", gates);
    Ok(())
}

/// What the attributes say.
#[derive(Clone, Copy)]
struct Unit {
    gate: Activation,
    cell: Activation,
    candidate: Activation,
    peepholes: bool,
    reverse: bool,
}

impl Unit {
    fn of(op: &OpView<'_>) -> Result<Unit> {
        Ok(Unit {
            gate: Activation::named(op, "gate_activation")?,
            cell: Activation::named(op, "cell_activation")?,
            candidate: Activation::named(op, "candidate_activation")?,
            peepholes: op.bool("use_peepholes")?,
            reverse: op.bool("is_reverse")?,
        })
    }

    /// The weights of input, forget and output gate for the cell.
    fn peepholes<'a, T>(&self, bias: &'a [T], hidden: usize) -> Option<[&'a [T]; 3]> {
        let at = |gate: usize| &bias[(4 + gate) * hidden..][..hidden];
        self.peepholes.then(|| [at(0), at(1), at(2)])
    }

    /// Steps of `hidden` columns: activates `gates`, and computes cells, activated cells and states.
    fn forward<T: Real>(
        &self,
        hidden: usize,
        peepholes: Option<[&[T]; 3]>,
        last: &[T],
        gates: &mut [T],
        [cells, activated, states]: [&mut [T]; 3],
    ) {
        for (row, gates) in gates.chunks_exact_mut(4 * hidden).enumerate() {
            let at = row * hidden..(row + 1) * hidden;
            let (last, cells) = (&last[at.clone()], &mut cells[at.clone()]);
            let (candidate, rest) = gates.split_at_mut(hidden);
            let (inputs, output) = rest.split_at_mut(2 * hidden);
            if let Some([input, forget, _]) = peepholes {
                let weights = input.iter().chain(forget).zip(last.iter().chain(last));
                inputs.iter_mut().zip(weights).for_each(|(gate, (w, last))| *gate += *w * *last);
            }
            self.candidate.apply(candidate);
            self.gate.apply(inputs);
            for j in 0..hidden {
                cells[j] = candidate[j] * inputs[j] + last[j] * inputs[hidden + j];
            }
            if let Some([.., look]) = peepholes {
                let weights = look.iter().zip(&*cells);
                output.iter_mut().zip(weights).for_each(|(gate, (w, cell))| *gate += *w * *cell);
            }
            self.gate.apply(output);
            let activated = &mut activated[at.clone()];
            activated.copy_from_slice(cells);
            self.cell.apply(activated);
            for ((state, output), cell) in states[at].iter_mut().zip(output).zip(activated) {
                *state = *output * *cell;
            }
        }
    }
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (input, weight, bias) = (op.input("Input")?, op.input("Weight")?, op.input("Bias")?);
    let (h0, c0, unit) = (op.maybe_input("H0"), op.maybe_input("C0"), Unit::of(op)?);
    let (mut out, mut out_cell) = (op.output("Hidden")?, op.output("Cell")?);
    let (mut gate, mut pre) = (op.maybe_output("BatchGate"), op.maybe_output("BatchCellPreAct"));
    let (mut packing, mut buffers) = (Packing::default(), Buffers::new());
    float_kernel!(op, "Input", |run, T| {
        let hidden = run.tensor(weight)?.rows();
        packing.read(run.tensor(input)?, "Input", unit.reverse)?;
        let (rows, sequences) = (packing.len(), packing.sequences());
        let h0 = first_states::<T>(run, h0, "H0", [sequences, hidden])?;
        let c0 = first_states::<T>(run, c0, "C0", [sequences, hidden])?;
        let sizes = [4, 1, 1, 1, 1].map(|times| times * rows * hidden);
        let [gates, states, cells, activated, last] = buffers.slices::<T, 5>(sizes)?;
        packing.pack(4 * hidden, run.get::<T>(input)?, gates);
        let (weight, bias) = (run.get::<T>(weight)?, run.get::<T>(bias)?);
        for gates in gates.chunks_exact_mut(4 * hidden) {
            gates.iter_mut().zip(bias).for_each(|(gate, bias)| *gate += *bias);
        }
        let peepholes = unit.peepholes(bias, hidden);
        for step in packing.steps() {
            let at = step.start * hidden..step.end * hidden;
            let (count, last) = (step.len(), &mut last[..at.len()]);
            let before = packing.before(&step).map(|at| at.start * hidden..at.end * hidden);
            last_of(&packing, hidden, before.clone(), h0, states, last);
            let gates = &mut gates[4 * at.start..4 * at.end];
            let plain = Order::Plain;
            gemm_add(count, 4 * hidden, hidden, gates, last, plain, weight, plain);
            last_of(&packing, hidden, before, c0, cells, last);
            let made = [&mut cells[at.clone()], &mut activated[at.clone()], &mut states[at]];
            unit.forward(hidden, peepholes, last, gates, made);
        }
        packing.unpack(hidden, states, run.set::<T>(&mut out)?);
        packing.unpack(hidden, cells, run.set::<T>(&mut out_cell)?);
        if let Some(gate) = &mut gate {
            run.set::<T>(gate)?.copy_from_slice(gates);
        }
        if let Some(pre) = &mut pre {
            run.set::<T>(pre)?.copy_from_slice(activated);
        }
    })
}

/// The states that a step continues: those of the step before, or the first ones.
fn last_of<T: Real>(
    packing: &Packing,
    hidden: usize,
    before: Option<std::ops::Range<usize>>,
    first: Option<&[T]>,
    states: &[T],
    to: &mut [T],
) {
    match before {
        Some(before) => to.copy_from_slice(&states[before]),
        None => packing.order_first(hidden, first, to),
    }
}

/// What a step's gradient reads: the gates of its rows, cells before and after, activated cells.
struct Reads<'a, T> {
    gates: &'a [T],
    last: &'a [T],
    cells: &'a [T],
    activated: &'a [T],
}

impl Unit {
    /// The gradients of the gates before activation; `dcells` becomes those of the last cells.
    fn backward<T: Matrix + Real>(
        &self,
        hidden: usize,
        peepholes: Option<[&[T]; 3]>,
        reads: &Reads<'_, T>,
        dstates: &[T],
        dcells: &mut [T],
        dgates: &mut [T],
    ) {
        for (row, d) in dgates.chunks_exact_mut(4 * hidden).enumerate() {
            let gates = &reads.gates[row * 4 * hidden..][..4 * hidden];
            for j in 0..hidden {
                let at = row * hidden + j;
                let [candidate, input, forget, output] =
                    [0, 1, 2, 3].map(|k| gates[k * hidden + j]);
                let look = |gate: usize| peepholes.map_or(T::ZERO, |all| all[gate][j]);
                let (activated, dstate) = (reads.activated[at], dstates[at]);
                let doutput = dstate * activated * self.gate.slope(output);
                let dcell =
                    dcells[at] + dstate * output * self.cell.slope(activated) + doutput * look(2);
                let dinput = dcell * candidate * self.gate.slope(input);
                let dforget = dcell * reads.last[at] * self.gate.slope(forget);
                d[j] = dcell * input * self.candidate.slope(candidate);
                d[hidden + j] = dinput;
                d[2 * hidden + j] = dforget;
                d[3 * hidden + j] = doutput;
                dcells[at] = dcell * forget + dinput * look(0) + dforget * look(1);
            }
        }
    }
}

/// What the gradients of all steps are made of.
struct Back<'a, T> {
    unit: Unit,
    packing: &'a Packing,
    hidden: usize,
    peepholes: Option<[&'a [T]; 3]>,
    weight: &'a [T],
    reads: Reads<'a, T>,
}

impl<T: Matrix + Real> Back<'_, T> {
    /// Goes back from the last step; the gradients of states and of cells collect what later steps
    /// add, and `dlast` is memory of their size. `begun` is given those of the first states and cells.
    fn run(
        &self,
        dgates: &mut [T],
        [dstates, dcells, dlast]: [&mut [T]; 3],
        mut begun: impl FnMut(&[T], &[T]) -> Result<()>,
    ) -> Result<()> {
        let (hidden, all) = (self.hidden, &self.reads);
        for step in self.packing.steps().rev() {
            let at = step.start * hidden..step.end * hidden;
            let reads = Reads {
                gates: &all.gates[4 * at.start..4 * at.end],
                last: &all.last[at.clone()],
                cells: &all.cells[at.clone()],
                activated: &all.activated[at.clone()],
            };
            let dgates = &mut dgates[4 * at.start..4 * at.end];
            let (before, now) = dcells.split_at_mut(at.start);
            let now = &mut now[..at.len()];
            let dnow = &dstates[at.clone()];
            self.unit.backward(hidden, self.peepholes, &reads, dnow, now, dgates);
            let dlast = &mut dlast[..at.len()];
            let (plain, turned) = (Order::Plain, Order::Transposed);
            gemm(step.len(), hidden, 4 * hidden, dlast, dgates, plain, self.weight, turned);
            let Some(places) = self.packing.before(&step) else {
                begun(dlast, now)?;
                continue;
            };
            let places = places.start * hidden..places.end * hidden;
            before[places.clone()].iter_mut().zip(&*now).for_each(|(d, now)| *d += *now);
            dstates[places].iter_mut().zip(&*dlast).for_each(|(d, last)| *d += *last);
        }
        Ok(())
    }
}

/// The gradients of bias and peepholes.
fn bias_grad<T: Real>(hidden: usize, reads: &Reads<'_, T>, dgates: &[T], dbias: &mut [T]) {
    let (plain, peepholes) = dbias.split_at_mut(4 * hidden);
    sum_rows(dgates, plain);
    peepholes.fill(T::ZERO);
    if peepholes.is_empty() {
        return;
    }
    for (row, d) in dgates.chunks_exact(4 * hidden).enumerate() {
        let at = row * hidden..(row + 1) * hidden;
        // Input and forget gate look at the last cell, the output gate at the new one.
        let seen = [&reads.last[at.clone()], &reads.last[at.clone()], &reads.cells[at]];
        for (gate, seen) in seen.into_iter().enumerate() {
            let target = peepholes[gate * hidden..][..hidden].iter_mut();
            let slopes = d[(1 + gate) * hidden..][..hidden].iter().zip(seen);
            target.zip(slopes).for_each(|(target, (d, cell))| *target += *d * *cell);
        }
    }
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let (input, weight, bias) = (op.input("Input")?, op.input("Weight")?, op.input("Bias")?);
    let (h0, c0, unit) = (op.maybe_input("H0"), op.maybe_input("C0"), Unit::of(op)?);
    let (out, out_cell) = (op.input("Hidden")?, op.input("Cell")?);
    let (gate, pre) = (op.input("BatchGate")?, op.input("BatchCellPreAct")?);
    let (dout, dout_cell) = (op.input("Hidden@GRAD")?, op.input("Cell@GRAD")?);
    let wanted = ["Input@GRAD", "H0@GRAD", "C0@GRAD", "Weight@GRAD", "Bias@GRAD"];
    let [mut dinput, mut dh0, mut dc0, mut dweight, mut dbias] =
        wanted.map(|slot| op.maybe_output(slot));
    let (mut packing, mut buffers) = (Packing::default(), Buffers::new());
    float_kernel!(op, "Input", |run, T| {
        let hidden = run.tensor(weight)?.rows();
        packing.read(run.tensor(input)?, "Input", unit.reverse)?;
        let (rows, sequences) = (packing.len(), packing.sequences());
        let h0 = first_states::<T>(run, h0, "H0", [sequences, hidden])?;
        let c0 = first_states::<T>(run, c0, "C0", [sequences, hidden])?;
        let sizes = [4, 1, 1, 1, 1, 1, 1].map(|times| times * rows * hidden);
        let [dgates, dstates, dcells, states, cells, last_states, last_cells] =
            buffers.slices::<T, 7>(sizes)?;
        let (gates, activated) = (run.get::<T>(gate)?, run.get::<T>(pre)?);
        let (dout, dout_cell) = (run.get::<T>(dout)?, run.get::<T>(dout_cell)?);
        let (made, made_cells) = (run.get::<T>(out)?, run.get::<T>(out_cell)?);
        let parts = [gates.len() / 4, activated.len(), made.len(), made_cells.len()];
        if parts != [rows * hidden; 4] || [dout.len(), dout_cell.len()] != [rows * hidden; 2] {
            return Err(Error::kernel("the by-products of `lstm` are not those of `Input`"));
        }
        packing.pack(hidden, made, states);
        packing.pack(hidden, made_cells, cells);
        packing.pack(hidden, dout, dstates);
        packing.pack(hidden, dout_cell, dcells);
        for dfirst in [&mut dh0, &mut dc0].into_iter().flatten() {
            run.set::<T>(dfirst)?.fill(0.0);
        }
        packing.last_states(hidden, h0, states, last_states);
        packing.last_states(hidden, c0, cells, last_cells);
        let (weight, bias) = (run.get::<T>(weight)?, run.get::<T>(bias)?);
        let peepholes = unit.peepholes(bias, hidden);
        let reads = Reads { gates, last: last_cells, cells, activated };
        let back = Back { unit, packing: &packing, hidden, peepholes, weight, reads };
        // The rows of states are read: their memory is free for gradients of the last states.
        back.run(dgates, [dstates, dcells, states], |dlast, dlast_cells| {
            for (output, first) in [(&mut dh0, dlast), (&mut dc0, dlast_cells)] {
                if let Some(output) = output {
                    packing.first_gradients(hidden, first, run.set::<T>(output)?);
                }
            }
            Ok(())
        })?;
        if let Some(dinput) = &mut dinput {
            packing.unpack(4 * hidden, dgates, run.set::<T>(dinput)?);
        }
        if let Some(dweight) = &mut dweight {
            let (plain, turned) = (Order::Plain, Order::Transposed);
            let dweight = run.set::<T>(dweight)?;
            gemm(hidden, 4 * hidden, rows, dweight, last_states, turned, dgates, plain);
        }
        if let Some(dbias) = &mut dbias {
            bias_grad(hidden, &back.reads, dgates, run.set::<T>(dbias)?);
        }
    })
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::*;

    fn numbers(dims: [usize; 2], by: f64) -> Tensor {
        let numbers: Vec<f64> = (0..dims[0] * dims[1]).map(|i| (i as f64 * by).sin()).collect();
        Tensor::from_slice(dims, &numbers).unwrap()
    }

    fn op() -> Op {
        let op = Op::new("lstm").input("Input", ["x"]).input("H0", ["h0"]).input("C0", ["c0"]);
        let op = op.input("Weight", ["weight"]).input("Bias", ["bias"]).output("Cell", ["out"]);
        let op = op.output("Hidden", ["hidden"]).output("BatchGate", ["gates"]);
        op.output("BatchCellPreAct", ["activated"])
    }

    fn values() -> HashMap<String, Value> {
        let x = numbers([5, 8], 0.7).with_lod(&[vec![0, 2, 2, 5]]).unwrap();
        HashMap::from([
            ("x".to_owned(), x.into()),
            ("h0".to_owned(), numbers([3, 2], 1.1).into()),
            ("c0".to_owned(), numbers([3, 2], 0.3).into()),
            ("weight".to_owned(), numbers([2, 8], 0.9).into()),
            ("bias".to_owned(), numbers([1, 14], 1.7).into()),
            ("out@GRAD".to_owned(), numbers([5, 2], 2.3).into()),
            ("hidden@GRAD".to_owned(), Tensor::from_slice([5, 2], &[0.0; 10]).unwrap().into()),
        ])
    }

    #[test]
    fn gradients_of_cells_agree_with_finite_differences() {
        let names = ["x", "h0", "c0", "weight", "bias"];
        gradients_agree_with_differences(&op(), &values(), &names);
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        let refused = |op: &Op, values: &mut HashMap<String, Value>| {
            run_once(op, values).unwrap_err().to_string()
        };
        let error = refused(&op().attr("use_peepholes", false), &mut values());
        assert!(error.contains("`Bias` [1, 4 * hidden]"), "{error}");
        let error = refused(&op().attr("cell_activation", "sine"), &mut values());
        assert!(error.contains("must be identity, sigmoid, tanh or relu"), "{error}");
        let mut two_states = values();
        two_states.insert("h0".to_owned(), numbers([2, 2], 1.0).into());
        let error = refused(&op(), &mut two_states);
        assert!(error.contains("`H0` must have a row of 2 for each of 3 sequences"), "{error}");
    }
}
