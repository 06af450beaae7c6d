//! Recurrent units and networks: all cells, several layers, both directions, sequences that end early.

use bireme_engine::tensor::Tensor;
use bireme_ir::DType;

use crate::nets::{Net, net};

#[test]
fn units_take_one_step() {
    for dtype in [DType::F32, DType::F64] {
        for [rows, hidden] in [[3, 4], [70, 9], [1, 1]] {
            let lstm = net("lstm_unit").of(dtype).real("X", &[rows, 4 * hidden], -1.0, 1.0);
            let lstm = lstm.real("C_prev", &[rows, hidden], -1.0, 1.0).out(["C", "H"]);
            lstm.attr("forget_bias", 0.3f32).check();
            for (is_origin, activation, gate) in [(true, 2, 1), (false, 3, 1), (false, 0, 2)] {
                let gru = net("gru_unit").of(dtype).real("Input", &[rows, 3 * hidden], -1.0, 1.0);
                let gru = gru.real("HiddenPrev", &[rows, hidden], -1.0, 1.0);
                let gru = gru.real("Weight", &[hidden, 3 * hidden], -1.0, 1.0);
                let gru =
                    gru.real("Bias", &[1, 3 * hidden], -1.0, 1.0).attr("origin_mode", is_origin);
                let gru = gru.attr("activation", activation).attr("gate_activation", gate);
                gru.out(["Gate", "ResetHiddenPrev", "Hidden"]).check();
            }
        }
    }
}

const TIME: usize = 4;
const BATCH: usize = 3;

fn network(mode: &str, layers: usize, directions: usize) -> Net {
    let (input, hidden, passes) = (5, 6, layers * directions);
    let (gates, states) = match mode {
        "LSTM" => (4, 2),
        "GRU" => (3, 1),
        _ => (1, 1),
    };
    let mut net = net("rnn").attr("mode", mode).real("Input", &[TIME, BATCH, input], -1.0, 1.0);
    for _ in 0..states {
        net = net.real("PreState", &[passes, BATCH, hidden], -1.0, 1.0);
    }
    for pass in 0..passes {
        let width = if pass < directions { input } else { directions * hidden };
        net = net.real("WeightList", &[gates * hidden, width], -0.5, 0.5);
        net = net.real("WeightList", &[gates * hidden, hidden], -0.5, 0.5);
    }
    for _ in 0..2 * passes {
        net = net.real("WeightList", &[gates * hidden], -0.5, 0.5);
    }
    let net = net.attr("hidden_size", hidden as i32).attr("input_size", input as i32);
    let net = net.attr("num_layers", layers as i32).attr("is_bidirec", directions == 2);
    net.out(["Out", "Reserve", "DropoutState"]).outs("State", states)
}

#[test]
fn networks_go_through_sequences() {
    for mode in ["LSTM", "GRU", "RNN_TANH", "RNN_RELU"] {
        for (layers, directions) in [(1, 1), (1, 2), (2, 2), (3, 1)] {
            network(mode, layers, directions).check();
            let lengths = Tensor::from_slice([BATCH], &[4i64, 2, 0]).unwrap();
            network(mode, layers, directions).input("SequenceLength", lengths).check();
        }
    }
}

#[test]
fn a_sequence_is_not_longer_than_the_input() {
    let lengths = Tensor::from_slice([BATCH], &[4i32, 5, 1]).unwrap();
    let net = network("GRU", 1, 1).input("SequenceLength", lengths);
    net.refused("5 at position 1 lies outside 0..5");
}
