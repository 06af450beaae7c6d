//! `rnn`: the inputs of all steps times the weight as one product, then step after step the product
//! with the last state and a kernel for the cells.

use super::network::{Mode, Network};
use crate::lower::products::multiply::{dense, float, multiply, plain, turned};
use crate::lower::{Lowering, Outcome, Var};
use crate::work::{Product, Ref};

pub(super) fn forward(l: &mut Lowering<'_>) -> Outcome {
    let network = Network::of(l)?;
    let (out, last) = (l.output("Out")?, l.outputs("State"));
    let reserve = match l.maybe_output("Reserve") {
        Some(reserve) => reserve.at,
        None => l.scratch(network.reserve() * network.dtype.size()),
    };
    for layer in 0..network.layers {
        let input = match layer.checked_sub(1) {
            None => network.input.at,
            Some(below) => network.between(reserve, below),
        };
        let is_last = layer + 1 == network.layers;
        let to = if is_last { out.at } else { network.between(reserve, layer) };
        for pass in layer * network.directions..(layer + 1) * network.directions {
            forward_pass(l, &network, pass, [input, reserve, to], &last)?;
        }
    }
    Ok(())
}

fn forward_pass(
    l: &mut Lowering<'_>,
    network: &Network,
    pass: usize,
    [input, reserve, out]: [Ref; 3],
    last: &[Var],
) -> Outcome {
    let (kept, elements) = (network.kept(reserve, pass), float(network.dtype)?);
    let (width, hidden, size) = (network.gate_width(), network.hidden, network.state());
    let sizes = [network.rows(), width, network.input_width(pass)];
    multiply(l, dense(elements, sizes, plain(input), turned(network.weight(pass, 0)), kept.gates))?;
    let bytes = network.batch * width * network.dtype.size();
    let recurrent = if network.mode == Mode::Gru { l.scratch(bytes) } else { Ref::NULL };
    let mut old = network.first(pass);
    for turn in 0..network.time {
        let step = network.step(pass, turn);
        let gates = network.plus(kept.gates, step * network.batch * width);
        let is_gru = network.mode == Mode::Gru;
        let to = if is_gru { recurrent } else { gates };
        let sizes = [network.batch, width, hidden];
        let one = dense(elements, sizes, plain(old[0]), turned(network.weight(pass, 1)), to);
        multiply(l, Product { beta: if is_gru { 0.0 } else { 1.0 }, ..one })?;
        let state = network.plus(kept.states, step * size);
        let other = kept.others.map_or(Ref::NULL, |others| network.plus(others, step * size));
        let column = pass % network.directions * hidden;
        let out = network.plus(out, step * network.batch * network.width() + column);
        let launch = l.over(format!("rnn_cell_{}", network.input.suffix()?), size).at(gates);
        let launch = launch.at(recurrent).at(network.bias(pass, 0)).at(network.bias(pass, 1));
        let launch = launch.at(old[0]).at(old[1]).at(state).at(other).at(out);
        network.finish(launch, step);
        old = [state, other];
    }
    for (last, state) in last.iter().zip(old) {
        l.copy(state, network.plus(last.at, pass * size), size * network.dtype.size());
    }
    Ok(())
}
