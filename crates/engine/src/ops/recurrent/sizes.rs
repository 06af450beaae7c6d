//! The sizes of a recurrent network, and where each part of it lies in `Reserve`.
//!
//! A *pass* is one layer in one direction. `Reserve` holds, pass by pass, the activated gates of
//! every step and the states after it; then the inputs of all layers but the first.

use crate::ops::prelude::*;

/// What kind of cell the network is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Long short-term memory; gates: input, forget, candidate, output.
    Lstm,
    /// Gated recurrent unit; gates: reset, update, candidate.
    Gru,
    /// One hyperbolic tangent.
    Tanh,
    /// One rectifier.
    Relu,
}

impl Mode {
    fn of(op: &OpView<'_>) -> Result<Mode> {
        match op.string("mode")?.as_str() {
            "LSTM" => Ok(Mode::Lstm),
            "GRU" => Ok(Mode::Gru),
            "RNN_TANH" => Ok(Mode::Tanh),
            "RNN_RELU" => Ok(Mode::Relu),
            other => Err(Error::kernel(format!(
                "attribute `mode` must be LSTM, GRU, RNN_TANH or RNN_RELU, not `{other}`"
            ))),
        }
    }

    /// Blocks of `hidden` rows in a weight.
    pub(super) fn gates(self) -> usize {
        match self {
            Mode::Lstm => 4,
            Mode::Gru => 3,
            Mode::Tanh | Mode::Relu => 1,
        }
    }

    /// Values of `hidden` elements that a step keeps beside its gates: the hidden state, then the
    /// cell of an LSTM or the candidate's recurrent part of a GRU.
    fn kept(self) -> usize {
        match self {
            Mode::Lstm | Mode::Gru => 2,
            Mode::Tanh | Mode::Relu => 1,
        }
    }

    /// States that go in and come out.
    fn states(self) -> usize {
        if self == Mode::Lstm { 2 } else { 1 }
    }
}

/// The parts of `WeightList` that belong to one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The weight of the input, `[gates * hidden, input]`.
    Input,
    /// The weight of the hidden state, `[gates * hidden, hidden]`.
    Hidden,
    /// The bias beside the weight of the input.
    InputBias,
    /// The bias beside the weight of the hidden state.
    HiddenBias,
}

/// The network as its attributes describe it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network {
    pub(super) mode: Mode,
    pub(super) layers: usize,
    pub(super) directions: usize,
    pub(super) hidden: usize,
    pub(super) input: usize,
    /// The probability to drop an element between layers; 0 outside of training.
    pub(super) drop: f32,
}

impl Network {
    /// # Errors
    /// When an attribute has no meaning.
    pub(super) fn of(op: &OpView<'_>) -> Result<Network> {
        let positive = |name: &str| match op.i64(name)? {
            value @ 1.. => Ok(value as usize),
            value => {
                Err(Error::kernel(format!("attribute `{name}` must be positive, not {value}")))
            }
        };
        let drop = op.f32("dropout_prob")?;
        if !(0.0..=1.0).contains(&drop) {
            return Err(Error::kernel(format!("`dropout_prob` must lie in [0, 1], not {drop}")));
        }
        let layers = positive("num_layers")?;
        let trains = layers > 1 && !op.bool("is_test")?;
        Ok(Network {
            mode: Mode::of(op)?,
            layers,
            directions: if op.bool("is_bidirec")? { 2 } else { 1 },
            hidden: positive("hidden_size")?,
            input: positive("input_size")?,
            drop: if trains { drop } else { 0.0 },
        })
    }

    /// The number of passes.
    pub(super) fn passes(&self) -> usize {
        self.layers * self.directions
    }

    /// The direction of a pass: 0 forth, 1 back.
    pub(super) fn direction(&self, pass: usize) -> usize {
        pass % self.directions
    }

    /// Columns of what all directions of a layer give.
    pub(super) fn width(&self) -> usize {
        self.directions * self.hidden
    }

    /// Columns of the gates.
    pub(super) fn gate_width(&self) -> usize {
        self.mode.gates() * self.hidden
    }

    /// Columns of the input of pass `pass`.
    pub(super) fn input_width(&self, pass: usize) -> usize {
        if pass < self.directions { self.input } else { self.width() }
    }

    /// The position in `WeightList`: first all weights, then all biases, two of each a pass.
    pub(super) fn weight(&self, pass: usize, part: Part) -> usize {
        let biases = 2 * self.passes();
        match part {
            Part::Input => 2 * pass,
            Part::Hidden => 2 * pass + 1,
            Part::InputBias => biases + 2 * pass,
            Part::HiddenBias => biases + 2 * pass + 1,
        }
    }

    /// Checks all shapes; returns steps and rows of the batch, -1 where unknown.
    ///
    /// # Errors
    /// When one does not fit.
    pub(super) fn check(&self, cx: &Infer<'_>) -> Result<[i64; 2]> {
        let input = cx.input("Input")?;
        let [time, batch, columns] = input.dims[..] else {
            let given = &input.dims;
            return Err(Error::kernel(format!(
                "`Input` must have shape [time, batch, input_size], not {given:?}"
            )));
        };
        fits("Input", 0, input, &[time, batch, self.input as i64])?;
        same_dim(columns, self.input as i64)?;
        let states = cx.inputs("PreState");
        if states.len() != self.mode.states() {
            return Err(Error::kernel(format!(
                "`PreState` must hold {} variables, not {}",
                self.mode.states(),
                states.len()
            )));
        }
        for (i, state) in states.iter().enumerate() {
            fits("PreState", i, state, &[self.passes() as i64, batch, self.hidden as i64])?;
        }
        let weights = cx.inputs("WeightList");
        if weights.len() != 4 * self.passes() {
            return Err(Error::kernel(format!(
                "`WeightList` must hold {} variables (4 for each layer and direction), not {}",
                4 * self.passes(),
                weights.len()
            )));
        }
        for pass in 0..self.passes() {
            let rows = self.gate_width() as i64;
            for (part, dims) in [
                (Part::Input, &[rows, self.input_width(pass) as i64][..]),
                (Part::Hidden, &[rows, self.hidden as i64]),
                (Part::InputBias, &[rows]),
                (Part::HiddenBias, &[rows]),
            ] {
                let at = self.weight(pass, part);
                fits("WeightList", at, weights[at], dims)?;
            }
        }
        if let Some(lengths) = cx.maybe_input("SequenceLength") {
            fits("SequenceLength", 0, lengths, &[batch])?;
        }
        Ok([time, batch])
    }
}

fn fits(slot: &str, at: usize, given: &Meta, want: &[i64]) -> Result<()> {
    let same = given.rank() == want.len()
        && given.dims.iter().zip(want).all(|(given, want)| same_dim(*given, *want).is_ok());
    if same {
        return Ok(());
    }
    let given = &given.dims;
    Err(Error::kernel(format!("`{slot}` {at} must have shape {want:?} (-1: any), not {given:?}")))
}

/// A network on a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) network: Network,
    pub(super) time: usize,
    pub(super) batch: usize,
}

impl Sizes {
    /// Steps times rows.
    pub(super) fn rows(&self) -> usize {
        self.time * self.batch
    }

    /// Elements of one state of one pass.
    pub(super) fn state(&self) -> usize {
        self.batch * self.network.hidden
    }

    /// Elements of all gates of a pass.
    pub(super) fn gates(&self) -> usize {
        self.rows() * self.network.gate_width()
    }

    /// Elements that a pass keeps.
    pub(super) fn pass(&self) -> usize {
        self.gates() + self.network.mode.kept() * self.time * self.state()
    }

    /// Elements of what a layer gives.
    pub(super) fn layer(&self) -> usize {
        self.rows() * self.network.width()
    }

    /// Elements of `Reserve`.
    pub(super) fn reserve(&self) -> usize {
        self.network.passes() * self.pass() + (self.network.layers - 1) * self.layer()
    }

    /// The step that pass `pass` takes at its turn `turn`.
    pub(super) fn step(&self, pass: usize, turn: usize) -> usize {
        if self.network.direction(pass) == 0 { turn } else { self.time - 1 - turn }
    }
}
