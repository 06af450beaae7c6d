//! The sizes of a recurrent network, and where each part of it lies in `Reserve`: as the engine's
//! `ops/recurrent/sizes.rs` has it, so that either place can take over from the other.
//!
//! A *pass* is one layer in one direction. `Reserve` holds, pass by pass, the activated gates of
//! every step, the states after it, and what lies beside them; then the inputs of all layers but
//! the first.

use bireme_ir::DType;

use crate::lower::lowering::Launch;
use crate::lower::{Lowering, Outcome, Var, host};
use crate::work::Ref;

/// The most steps of all passes; a graph of more is not worth its memory.
const MAX_STEPS: usize = 4096;

/// Cells, as `recurrent.cu` numbers them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mode {
    /// Gates: input, forget, candidate, output.
    Lstm,
    /// Gates: reset, update, candidate.
    Gru,
    Tanh,
    Relu,
}

/// A network on a batch.
pub(super) struct Network {
    pub(super) mode: Mode,
    pub(super) layers: usize,
    pub(super) directions: usize,
    pub(super) hidden: usize,
    pub(super) time: usize,
    pub(super) batch: usize,
    pub(super) dtype: DType,
    pub(super) input: Var,
    first: Vec<Var>,
    weights: Vec<Var>,
    lengths: Option<Var>,
}

impl Network {
    /// Declines dropout between layers, which draws random numbers, and what is too long.
    pub(super) fn of(l: &Lowering<'_>) -> Outcome<Network> {
        let op = l.op;
        let mode = match op.string("mode")?.as_str() {
            "LSTM" => Mode::Lstm,
            "GRU" => Mode::Gru,
            "RNN_TANH" => Mode::Tanh,
            "RNN_RELU" => Mode::Relu,
            _ => return host(),
        };
        let size = |name: &str| usize::try_from(op.i64(name)?).or_else(|_| host());
        let (layers, hidden) = (size("num_layers")?, size("hidden_size")?);
        let directions = if op.bool("is_bidirec")? { 2 } else { 1 };
        let drops = layers > 1 && !op.bool("is_test")? && op.f64("dropout_prob")? > 0.0;
        let input = l.input("Input")?.dense()?;
        let [time, batch, _] = input.dims[..] else { return host() };
        let dtype = input.dtype;
        let (first, weights) = (l.inputs("PreState"), l.inputs("WeightList"));
        let lengths = l.maybe_input("SequenceLength");
        let is_wide = matches!(dtype, DType::F32 | DType::F64);
        let is_typed = first.iter().chain(&weights).all(|var| var.dtype == dtype);
        let counts = |var: &Var| matches!(var.dtype, DType::I32 | DType::I64);
        let fits = is_wide && is_typed && lengths.as_ref().is_none_or(counts);
        let passes = layers * directions;
        let has_all =
            weights.len() == 4 * passes && first.len() == if mode == Mode::Lstm { 2 } else { 1 };
        let steps = time * passes;
        if drops || !fits || !has_all || steps > MAX_STEPS || steps * batch == 0 {
            return host();
        }
        let network = Network {
            mode,
            layers,
            directions,
            hidden,
            time,
            batch,
            dtype,
            input,
            first,
            weights,
            lengths,
        };
        if i32::try_from(network.reserve()).is_ok() { Ok(network) } else { host() }
    }

    /// Columns of the gates.
    pub(super) fn gate_width(&self) -> usize {
        self.hidden * [4, 3, 1, 1][self.mode as usize]
    }

    /// Columns of what a layer gives.
    pub(super) fn width(&self) -> usize {
        self.directions * self.hidden
    }

    /// Columns of the input of pass `pass`.
    pub(super) fn input_width(&self, pass: usize) -> usize {
        let below = if pass < self.directions { self.input.dims.last().copied() } else { None };
        below.unwrap_or(self.width())
    }

    /// Steps times rows.
    pub(super) fn rows(&self) -> usize {
        self.time * self.batch
    }

    /// Elements of one state of one pass.
    pub(super) fn state(&self) -> usize {
        self.batch * self.hidden
    }

    /// Elements of what a layer gives.
    pub(super) fn layer(&self) -> usize {
        self.rows() * self.width()
    }

    /// Elements that a pass keeps.
    fn pass(&self) -> usize {
        let kept = if matches!(self.mode, Mode::Lstm | Mode::Gru) { 2 } else { 1 };
        self.rows() * self.gate_width() + kept * self.time * self.state()
    }

    /// Elements of `Reserve`.
    pub(super) fn reserve(&self) -> usize {
        self.layers * self.directions * self.pass() + (self.layers - 1) * self.layer()
    }

    /// So many elements behind a place.
    pub(super) fn plus(&self, at: Ref, elements: usize) -> Ref {
        at.plus(elements * self.dtype.size())
    }

    /// What a pass keeps in `reserve`.
    pub(super) fn kept(&self, reserve: Ref, pass: usize) -> Kept {
        let gates = self.plus(reserve, pass * self.pass());
        let states = self.plus(gates, self.rows() * self.gate_width());
        let has_others = matches!(self.mode, Mode::Lstm | Mode::Gru);
        let others = has_others.then(|| self.plus(states, self.time * self.state()));
        Kept { gates, states, others }
    }

    /// What layer `layer` (not the last one) gives, in `reserve`.
    pub(super) fn between(&self, reserve: Ref, layer: usize) -> Ref {
        let passes = self.layers * self.directions * self.pass();
        self.plus(reserve, passes + layer * self.layer())
    }

    /// The step that pass `pass` takes at its turn `turn`.
    pub(super) fn step(&self, pass: usize, turn: usize) -> usize {
        if pass.is_multiple_of(self.directions) { turn } else { self.time - 1 - turn }
    }

    /// The position in `WeightList` of weight (0: of the input, 1: of the state) of a pass; its
    /// bias lies behind all weights.
    pub(super) fn weight_at(&self, pass: usize, side: usize, is_bias: bool) -> usize {
        let biases = if is_bias { 2 * self.layers * self.directions } else { 0 };
        biases + 2 * pass + side
    }

    pub(super) fn weight(&self, pass: usize, side: usize) -> Ref {
        self.weights[self.weight_at(pass, side, false)].at
    }

    pub(super) fn bias(&self, pass: usize, side: usize) -> Ref {
        self.weights[self.weight_at(pass, side, true)].at
    }

    /// The first states of a pass: hidden state, and the cell of an LSTM.
    pub(super) fn first(&self, pass: usize) -> [Ref; 2] {
        let place = |var: &Var| self.plus(var.at, pass * self.state());
        [0, 1].map(|i| self.first.get(i).map_or(Ref::NULL, place))
    }

    /// Adds what all cell kernels end with: sizes, the cell, the step and the lengths.
    pub(super) fn finish(&self, launch: Launch<'_>, step: usize) {
        let lengths = self.lengths.as_ref();
        let size = lengths.map_or(0, |var| var.dtype.size() as i32);
        let launch = launch.size(self.state()).size(self.hidden).size(self.width());
        let launch = launch.value(self.mode as i32).size(step).size(self.time);
        launch.maybe(lengths).value(size).complaint().launch();
    }
}

/// Where a pass keeps what its gradient reads.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    pub(super) gates: Ref,
    pub(super) states: Ref,
    /// The cells of an LSTM, or what a GRU's candidates got of the last state.
    pub(super) others: Option<Ref>,
}
