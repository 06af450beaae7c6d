//! `rnn_grad`: step after step from the end for the gradients of the gates, then one product each
//! for those of weights and inputs.

use bireme_ir::EMPTY_VAR;

use super::network::{Kept, Mode, Network};
use crate::lower::products::columns::{Matrix, column_sums};
use crate::lower::products::multiply::{dense, float, multiply, plain, turned};
use crate::lower::{Lowering, Outcome, Var, host};
use crate::work::{Product, Ref};

/// Where gradients come from and go to.
struct Grads {
    network: Network,
    reserve: Ref,
    dlast: Vec<Var>,
    dinput: Option<Var>,
    dfirst: Vec<Option<Var>>,
    dweights: Vec<Option<Var>>,
    /// Gradients of the gates of one pass, on the side of the input and of the hidden state.
    gates: [Ref; 2],
    /// Gradients of the states of one pass.
    states: [Ref; 2],
}

/// The outputs in a slot, those that nobody asks for left out.
fn wanted(l: &Lowering<'_>, slot: &str) -> Vec<Option<Var>> {
    let vars = l.outputs(slot).into_iter().zip(l.op.op.outputs_of(slot));
    vars.map(|(var, name)| (name != EMPTY_VAR).then_some(var)).collect()
}

pub(super) fn backward(l: &mut Lowering<'_>) -> Outcome {
    let network = Network::of(l)?;
    let reserve = l.input("Reserve")?.dense()?;
    let (dout, dlast) = (l.maybe_input("Out@GRAD"), l.inputs("State@GRAD"));
    let given = dout.iter().map(|var| (var, network.layer()));
    let states = network.layers * network.directions * network.state();
    let mut given = given.chain(dlast.iter().map(|var| (var, states)));
    if reserve.numel() != network.reserve()
        || reserve.dtype != network.dtype
        || given.any(|(var, size)| var.numel() != size || var.dtype != network.dtype)
    {
        return host();
    }
    let size = network.dtype.size();
    let gate_bytes = network.rows() * network.gate_width() * size;
    let of_input = l.scratch(gate_bytes);
    let of_hidden = if network.mode == Mode::Gru { l.scratch(gate_bytes) } else { of_input };
    let states = [0, 1].map(|_| l.scratch(network.state() * size));
    let grads = Grads {
        reserve: reserve.at,
        dlast,
        dinput: l.maybe_output("Input@GRAD"),
        dfirst: wanted(l, "PreState@GRAD"),
        dweights: wanted(l, "WeightList@GRAD"),
        gates: [of_input, of_hidden],
        states,
        network,
    };
    // Gradients of what a layer gives, and of what the layer below gives.
    let count = if grads.network.layers > 1 { 2 } else { 0 };
    let layers: Vec<Ref> = (0..count).map(|_| l.scratch(grads.network.layer() * size)).collect();
    let mut dout = dout.map_or(Ref::NULL, |var| var.at);
    for layer in (0..grads.network.layers).rev() {
        let below = if layer > 0 { layers[layer % 2] } else { Ref::NULL };
        for direction in 0..grads.network.directions {
            let pass = layer * grads.network.directions + direction;
            grads.pass(l, pass, dout, below)?;
        }
        dout = below;
    }
    Ok(())
}

impl Grads {
    /// The gradients of one pass from `dout`, that of what its layer gives; adds to `below`, that
    /// of what the layer below gives.
    fn pass(&self, l: &mut Lowering<'_>, pass: usize, dout: Ref, below: Ref) -> Outcome {
        let network = &self.network;
        let (size, layer) = (network.state(), pass / network.directions);
        let bytes = size * network.dtype.size();
        for (i, state) in self.states.iter().enumerate() {
            match self.dlast.get(i) {
                Some(given) => l.copy(network.plus(given.at, pass * size), *state, bytes),
                None => l.clear(*state, bytes),
            }
        }
        let kept = network.kept(self.reserve, pass);
        self.steps(l, pass, kept, dout)?;
        for (to, state) in self.dfirst.iter().zip(self.states) {
            if let Some(to) = to {
                l.copy(state, network.plus(to.at, pass * size), bytes);
            }
        }
        let input = match layer.checked_sub(1) {
            None => network.input.at,
            Some(below) => network.between(self.reserve, below),
        };
        self.weight_grads(l, pass, input, kept)?;
        let to = match (&self.dinput, layer) {
            (Some(dinput), 0) => dinput.at,
            (None, 0) => return Ok(()),
            _ => below,
        };
        let sizes = [network.rows(), network.input_width(pass), network.gate_width()];
        let (a, b) = (plain(self.gates[0]), plain(network.weight(pass, 0)));
        let beta = if pass.is_multiple_of(network.directions) { 0.0 } else { 1.0 };
        multiply(l, Product { beta, ..dense(float(network.dtype)?, sizes, a, b, to) })
    }

    /// The gradients of the gates, and those of the first states from those of the last.
    fn steps(&self, l: &mut Lowering<'_>, pass: usize, kept: Kept, dout: Ref) -> Outcome {
        let network = &self.network;
        let (size, width, hidden) = (network.state(), network.gate_width(), network.hidden);
        let first = network.first(pass);
        for turn in (0..network.time).rev() {
            let step = network.step(pass, turn);
            let before = turn.checked_sub(1).map(|turn| network.step(pass, turn) * size);
            let old_state = before.map_or(first[0], |at| network.plus(kept.states, at));
            let old_cell = match (before, kept.others) {
                (Some(at), Some(others)) if network.mode == Mode::Lstm => network.plus(others, at),
                _ => first[1],
            };
            let at = step * network.batch * width;
            let [of_input, of_hidden] = self.gates.map(|gates| network.plus(gates, at));
            let column = pass % network.directions * hidden;
            let given = step * network.batch * network.width() + column;
            let dout = if dout == Ref::NULL { dout } else { network.plus(dout, given) };
            let other = kept.others.map_or(Ref::NULL, |others| network.plus(others, step * size));
            let name = format!("rnn_cell_grad_{}", network.input.suffix()?);
            let launch = l.over(name, size).at(network.plus(kept.gates, at));
            let launch = launch.at(network.plus(kept.states, step * size)).at(other);
            let launch = launch.at(old_state).at(old_cell).at(dout).at(self.states[0]);
            let launch = launch.at(self.states[1]).at(of_input);
            let is_gru = network.mode == Mode::Gru;
            network.finish(launch.at(if is_gru { of_hidden } else { Ref::NULL }), step);
            let (a, b) = (plain(of_hidden), plain(network.weight(pass, 1)));
            let sizes = [network.batch, hidden, width];
            let one = dense(float(network.dtype)?, sizes, a, b, self.states[0]);
            multiply(l, Product { beta: 1.0, ..one })?;
        }
        Ok(())
    }

    /// The gradients of the weights and biases of one pass, whose input was `input`.
    fn weight_grads(&self, l: &mut Lowering<'_>, pass: usize, input: Ref, kept: Kept) -> Outcome {
        let network = &self.network;
        let (rows, width) = (network.rows(), network.gate_width());
        let (elements, dtype) = (float(network.dtype)?, network.dtype);
        let place = |side, is_bias| {
            let at = network.weight_at(pass, side, is_bias);
            self.dweights.get(at).and_then(Option::as_ref).map(|var| var.at)
        };
        if let Some(to) = place(0, false) {
            let sizes = [width, network.input_width(pass), rows];
            multiply(l, dense(elements, sizes, turned(self.gates[0]), plain(input), to))?;
        }
        if let Some(to) = place(1, false) {
            self.hidden_weight_grad(l, pass, kept, to)?;
        }
        for side in 0..2 {
            if let Some(to) = place(side, true) {
                let (at, columns) = (self.gates[side], width);
                let matrix = Matrix { at, dtype, rows, columns, pitch: width };
                column_sums(l, matrix, Ref::NULL, to, 1.0)?;
            }
        }
        Ok(())
    }

    /// The first step comes from the first state, all others from the states before them, which lie
    /// side by side.
    fn hidden_weight_grad(
        &self,
        l: &mut Lowering<'_>,
        pass: usize,
        kept: Kept,
        to: Ref,
    ) -> Outcome {
        let network = &self.network;
        let (width, hidden, batch) = (network.gate_width(), network.hidden, network.batch);
        let (elements, others) = (float(network.dtype)?, network.time - 1);
        let is_forth = pass.is_multiple_of(network.directions);
        let gates = |step: usize| network.plus(self.gates[1], step * batch * width);
        let states = |step: usize| network.plus(kept.states, step * network.state());
        let (first, rest, before) = if is_forth {
            (gates(0), gates(1), states(0))
        } else {
            (gates(others), gates(0), states(1))
        };
        let state = network.first(pass)[0];
        let sizes = [width, hidden, batch];
        multiply(l, dense(elements, sizes, turned(first), plain(state), to))?;
        if others > 0 {
            let sizes = [width, hidden, others * batch];
            let one = dense(elements, sizes, turned(rest), plain(before), to);
            multiply(l, Product { beta: 1.0, ..one })?;
        }
        Ok(())
    }
}
