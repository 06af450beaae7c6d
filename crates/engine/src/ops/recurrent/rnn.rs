//! `rnn`: a network of recurrent layers over a batch of sequences, time first; what `nn.LSTM`,
//! `nn.GRU` and `nn.SimpleRNN` are made of.
//!
//! Masks of the dropout between layers are kept in `DropoutState`, everything else that the
//! gradient needs in `Reserve`.

use bireme_ir::{AttrSpec, DType};

use super::backward::Gates;
use super::forward::{Given, Kept};
use super::sizes::{Network, Part, Sizes};
use crate::gemm::Matrix;
use crate::op::{GradRule, In, Infer, Kernel, Meta, OpDef, OpView, Out, Run, Slot, attr};
use crate::ops::math::number::Real;
use crate::ops::real::not_float;
use crate::random::Philox;
use crate::tensor::Tensor;
use crate::{Error, Result, dispatch};

const ATTRS: &[AttrSpec] = &[
    attr::str("mode", "RNN_TANH"),
    attr::int("input_size", 10),
    attr::int("hidden_size", 100),
    attr::int("num_layers", 1),
    attr::bool("is_bidirec", false),
    attr::float("dropout_prob", 0.0),
    attr::bool("is_test", false),
    attr::int("seed", 0),
];

pub(super) const DEF: OpDef = OpDef::new("rnn", kernel)
    .inputs(&[
        Slot::one("Input"),
        Slot::many("PreState"),
        Slot::many("WeightList"),
        Slot::maybe("SequenceLength"),
    ])
    .outputs(&[
        Slot::one("Out"),
        Slot::maybe("DropoutState"),
        Slot::many("State"),
        Slot::maybe("Reserve"),
    ])
    .attrs(ATTRS)
    .infer(infer)
    .grad(GradRule::Op {
        inputs: &["Input", "PreState", "WeightList", "SequenceLength"],
        outputs: &["Out", "DropoutState", "Reserve"],
    });

pub(super) const GRAD: OpDef = OpDef::new("rnn_grad", grad_kernel)
    .inputs(&[
        Slot::one("Input"),
        Slot::many("PreState"),
        Slot::many("WeightList"),
        Slot::maybe("SequenceLength"),
        Slot::maybe("Out"),
        Slot::maybe("DropoutState"),
        Slot::one("Reserve"),
        Slot::maybe("Out@GRAD"),
        Slot::any("State@GRAD"),
    ])
    .outputs(&[Slot::maybe("Input@GRAD"), Slot::any("PreState@GRAD"), Slot::any("WeightList@GRAD")])
    .attrs(ATTRS)
    .like(&[
        ("Input@GRAD", "Input"),
        ("PreState@GRAD", "PreState"),
        ("WeightList@GRAD", "WeightList"),
    ]);

/// Random numbers drawn at a time; they stay in the first-level cache.
const BLOCK: usize = 256;

fn infer(cx: &mut Infer<'_>) -> Result<()> {
    let network = Network::of(cx.op())?;
    let [time, batch] = network.check(cx)?;
    let (input, states) = (cx.input("Input")?, cx.inputs("PreState"));
    let dtype = input.dtype;
    for state in states.iter().chain(&cx.inputs("WeightList")) {
        if state.dtype != dtype {
            let other = state.dtype;
            return Err(Error::kernel(format!(
                "`Input` is {dtype}, but a state or weight is {other}: all must be of one type"
            )));
        }
    }
    let known = time >= 0 && batch >= 0;
    let sizes = Sizes { network, time: time.max(0) as usize, batch: batch.max(0) as usize };
    let reserve = if known { sizes.reserve() as i64 } else { -1 };
    let gaps = network.layers as i64 - 1;
    let width = network.width() as i64;
    let masks = if network.drop > 0.0 { vec![gaps, time, batch, width] } else { vec![0] };
    let state = Meta::new(dtype, [network.passes() as i64, batch, network.hidden as i64]);
    cx.set("Out", Meta::new(dtype, [time, batch, width]));
    cx.set("State", state);
    cx.set("Reserve", Meta::new(dtype, [reserve]));
    cx.set("DropoutState", Meta::new(DType::U8, masks));
    Ok(())
}

/// Where the inputs are.
struct Reads {
    network: Network,
    input: In,
    states: Vec<In>,
    weights: Vec<In>,
    lengths: Option<In>,
}

impl Reads {
    fn of(op: &OpView<'_>) -> Result<Reads> {
        Ok(Reads {
            network: Network::of(op)?,
            input: op.input("Input")?,
            states: op.inputs("PreState"),
            weights: op.inputs("WeightList"),
            lengths: op.maybe_input("SequenceLength"),
        })
    }

    fn sizes(&self, run: &Run<'_>) -> Result<Sizes> {
        let dims = run.dims(self.input)?;
        Ok(Sizes { network: self.network, time: dims[0], batch: dims[1] })
    }

    /// Reads the lengths of the sequences; all are full when none are given.
    fn lengths(&self, run: &Run<'_>, sizes: &Sizes, lengths: &mut Vec<usize>) -> Result<()> {
        lengths.clear();
        let Some(input) = self.lengths else {
            lengths.resize(sizes.batch, sizes.time);
            return Ok(());
        };
        let tensor = run.tensor(input)?;
        dispatch!(tensor.dtype(), T in [i32, i64] => {
            for length in tensor.as_slice::<T>()? {
                match usize::try_from(*length) {
                    Ok(fits) if fits <= sizes.time => lengths.push(fits),
                    _ => return Err(Error::kernel(format!(
                        "`SequenceLength` {} is {length}, which is not in 0 to {} (the steps of \
                         `Input`)",
                        lengths.len(),
                        sizes.time
                    ))),
                }
            }
            Ok(())
        }, else => {
            let dtype = tensor.dtype();
            Err(Error::kernel(format!("`SequenceLength` must be int32 or int64, not {dtype}")))
        })
    }

    fn given<'a, T: Matrix + Real>(
        &'a self,
        run: &'a Run<'a>,
        sizes: Sizes,
        lengths: &'a [usize],
    ) -> Result<Given<'a, T, impl Fn(usize) -> Result<&'a [T]>>> {
        let state = |i: usize| self.states.get(i).map_or(Ok(&[][..]), |state| run.get::<T>(*state));
        let states = [state(0)?, state(1)?];
        Ok(Given { sizes, weight: |at: usize| run.get(self.weights[at]), states, lengths })
    }
}

/// The dropout between layers.
#[derive(Clone, Copy)]
struct Dropout {
    stream: Philox,
    drop: f32,
}

impl Dropout {
    fn of(op: &OpView<'_>, network: &Network) -> Result<Option<Dropout>> {
        let seed = match op.i64("seed")? {
            0 => op.seed,
            seed => seed as u64,
        };
        let stream = Philox::new(seed, op.output_name("Out"));
        Ok((network.drop > 0.0).then_some(Dropout { stream, drop: network.drop }))
    }

    /// Draws the mask of gap `gap`, and drops elements of `values`.
    fn apply<T: Real>(&self, step: u64, gap: usize, values: &mut [T], mask: &mut [u8]) {
        let (stream, scale) = (self.stream.stream(step), scale::<T>(self.drop));
        let mut numbers = [0.0; BLOCK];
        let mut at = (gap * values.len()) as u64;
        for (values, mask) in values.chunks_mut(BLOCK).zip(mask.chunks_mut(BLOCK)) {
            let numbers = &mut numbers[..values.len()];
            stream.fill_uniform(at, 0.0, 1.0, numbers);
            at += numbers.len() as u64;
            for ((value, mask), number) in values.iter_mut().zip(mask).zip(numbers) {
                *mask = u8::from(*number >= self.drop);
                *value = if *mask == 1 { *value * scale } else { T::ZERO };
            }
        }
    }
}

/// What a kept element is multiplied by.
fn scale<T: Real>(drop: f32) -> T {
    // With probability 1 nothing is kept; the factor must only not be infinite.
    if drop < 1.0 { T::of(1.0 / (1.0 - f64::from(drop))) } else { T::ZERO }
}

/// Where the outputs are, and memory for those that nobody asked for.
struct Writes {
    out: Out,
    states: Vec<Out>,
    reserve: Option<Out>,
    masks: Option<Out>,
    own_reserve: Tensor,
    own_masks: Vec<u8>,
    recurrent: Tensor,
}

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
    let reads = Reads::of(op)?;
    let mut lengths = Vec::new();
    let mut writes = Writes {
        out: op.output("Out")?,
        states: op.outputs("State"),
        reserve: op.maybe_output("Reserve"),
        masks: op.maybe_output("DropoutState"),
        own_reserve: Tensor::empty(DType::F32),
        own_masks: Vec::new(),
        recurrent: Tensor::empty(DType::F32),
    };
    let dropout = Dropout::of(op, &reads.network)?;
    Ok(Box::new(move |run| {
        let sizes = reads.sizes(run)?;
        reads.lengths(run, &sizes, &mut lengths)?;
        let dtype = run.tensor(reads.input)?.dtype();
        dispatch!(dtype, T in [f32, f64] => {
            let given = reads.given::<T>(run, sizes, &lengths)?;
            forward(&given, run, run.get(reads.input)?, &mut writes, dropout)
        }, else => Err(not_float("Input", dtype)))
    }))
}

fn forward<'a, T: Matrix + Real, W: Fn(usize) -> Result<&'a [T]>>(
    given: &Given<'a, T, W>,
    run: &Run<'_>,
    input: &[T],
    writes: &mut Writes,
    dropout: Option<Dropout>,
) -> Result<()> {
    let (sizes, network) = (&given.sizes, given.sizes.network);
    let reserve = match writes.reserve {
        Some(reserve) => run.set::<T>(reserve)?,
        None => {
            writes.own_reserve.resize(T::DTYPE, [sizes.reserve()]);
            writes.own_reserve.as_mut_slice()?
        }
    };
    writes.recurrent.resize(T::DTYPE, [sizes.batch, network.gate_width()]);
    let recurrent = writes.recurrent.as_mut_slice::<T>()?;
    let masks = match writes.masks {
        Some(masks) => run.set::<u8>(masks)?,
        None => {
            let gaps = if dropout.is_some() { network.layers - 1 } else { 0 };
            writes.own_masks.resize(gaps * sizes.layer(), 0);
            &mut writes.own_masks[..]
        }
    };
    let state = |i: usize| -> Result<&mut [T]> {
        writes.states.get(i).map_or(Ok(&mut []), |state| run.set::<T>(*state))
    };
    let [last_state, last_cell] = [state(0)?, state(1)?];
    let (passes, inputs) = reserve.split_at_mut(network.passes() * sizes.pass());
    let (layer_size, state_size) = (sizes.layer(), sizes.state());
    for layer in 0..network.layers {
        // What the layers below gave lies before what this one gives.
        let (below, above) = inputs.split_at_mut(layer * layer_size);
        let input = if layer == 0 { input } else { &below[(layer - 1) * layer_size..] };
        let last = layer + 1 == network.layers;
        let out = if last { run.set::<T>(writes.out)? } else { &mut above[..layer_size] };
        for pass in layer * network.directions..(layer + 1) * network.directions {
            let region = &mut passes[pass * sizes.pass()..(pass + 1) * sizes.pass()];
            let at = pass * state_size..(pass + 1) * state_size;
            let ends = [
                last_state.get_mut(at.clone()).unwrap_or_default(),
                last_cell.get_mut(at).unwrap_or_default(),
            ];
            given.forward(pass, input, region, out, ends, recurrent)?;
        }
        if let (Some(dropout), false) = (dropout, last) {
            let mask = &mut masks[layer * layer_size..(layer + 1) * layer_size];
            dropout.apply(run.step, layer, out, mask);
        }
    }
    Ok(())
}

/// Where the gradients are, and memory that is used again every step.
struct Grads {
    masks: Option<In>,
    reserve: In,
    dout: Option<In>,
    dstates: Vec<In>,
    dinput: Option<Out>,
    dpre: Vec<Option<Out>>,
    dweights: Vec<Option<Out>>,
    gates: Tensor,
    /// Gradients of the states of one pass.
    states: [Tensor; 2],
    /// Gradients of what a layer gives, and of what the layer below gives.
    layers: [Tensor; 2],
}

fn grad_kernel(op: &OpView<'_>) -> Result<Kernel> {
    let reads = Reads::of(op)?;
    let mut lengths = Vec::new();
    let empty = || Tensor::empty(DType::F32);
    let wanted = |slot: &str| -> Vec<Option<Out>> {
        let outs = op.outputs(slot).into_iter().zip(op.op.outputs_of(slot));
        outs.map(|(out, name)| (name != bireme_ir::EMPTY_VAR).then_some(out)).collect()
    };
    let mut grads = Grads {
        masks: op.maybe_input("DropoutState"),
        reserve: op.input("Reserve")?,
        dout: op.maybe_input("Out@GRAD"),
        dstates: op.inputs("State@GRAD"),
        dinput: op.maybe_output("Input@GRAD"),
        dpre: wanted("PreState@GRAD"),
        dweights: wanted("WeightList@GRAD"),
        gates: empty(),
        states: [empty(), empty()],
        layers: [empty(), empty()],
    };
    Ok(Box::new(move |run| {
        let sizes = reads.sizes(run)?;
        reads.lengths(run, &sizes, &mut lengths)?;
        let dtype = run.tensor(reads.input)?.dtype();
        dispatch!(dtype, T in [f32, f64] => {
            let given = reads.given::<T>(run, sizes, &lengths)?;
            grads.run(&given, run, run.get(reads.input)?)
        }, else => Err(not_float("Input", dtype)))
    }))
}

impl Grads {
    fn run<'a, T: Matrix + Real, W: Fn(usize) -> Result<&'a [T]>>(
        &mut self,
        given: &Given<'a, T, W>,
        run: &Run<'_>,
        input: &[T],
    ) -> Result<()> {
        let (sizes, network) = (&given.sizes, given.sizes.network);
        let reserve = run.get::<T>(self.reserve)?;
        if reserve.len() != sizes.reserve() {
            return Err(Error::kernel("`Reserve` does not come from an `rnn` op of this shape"));
        }
        let (passes, inputs) = reserve.split_at(network.passes() * sizes.pass());
        self.gates.resize(T::DTYPE, [Gates::<T>::elements(sizes)]);
        self.layers.iter_mut().for_each(|layer| layer.resize(T::DTYPE, [sizes.layer()]));
        match self.dout {
            Some(dout) => self.layers[0].as_mut_slice()?.copy_from_slice(run.get::<T>(dout)?),
            None => self.layers[0].as_mut_slice::<T>()?.fill(T::ZERO),
        }
        for layer in (0..network.layers).rev() {
            let input = match layer.checked_sub(1) {
                None => input,
                Some(below) => &inputs[below * sizes.layer()..(below + 1) * sizes.layer()],
            };
            for direction in 0..network.directions {
                let pass = layer * network.directions + direction;
                let region = &passes[pass * sizes.pass()..(pass + 1) * sizes.pass()];
                self.pass(given, run, pass, input, &Kept::of(sizes, region))?;
            }
            if layer > 0 {
                self.through_dropout::<T>(run, network.drop, layer - 1)?;
                self.layers.swap(0, 1);
            }
        }
        Ok(())
    }

    /// The gradients of one pass; `layers[0]` is that of its layer's output.
    fn pass<'a, T: Matrix + Real, W: Fn(usize) -> Result<&'a [T]>>(
        &mut self,
        given: &Given<'a, T, W>,
        run: &Run<'_>,
        pass: usize,
        input: &[T],
        kept: &Kept<'_, T>,
    ) -> Result<()> {
        let (sizes, network) = (&given.sizes, given.sizes.network);
        let size = sizes.state();
        let at = pass * size..(pass + 1) * size;
        for (i, state) in self.states.iter_mut().enumerate() {
            state.resize(T::DTYPE, [size]);
            let state = state.as_mut_slice::<T>()?;
            match self.dstates.get(i) {
                Some(given) => state.copy_from_slice(&run.get::<T>(*given)?[at.clone()]),
                None => state.fill(T::ZERO),
            }
        }
        let [dstate, dcell] = &mut self.states;
        let mut gates = Gates::of(sizes, self.gates.as_mut_slice()?);
        let dstates = [dstate.as_mut_slice::<T>()?, dcell.as_mut_slice::<T>()?];
        given.backward(pass, kept, self.layers[0].as_slice()?, dstates, &mut gates)?;
        for (out, state) in self.dpre.iter().zip(&self.states) {
            if let Some(out) = out {
                run.set::<T>(*out)?[at.clone()].copy_from_slice(state.as_slice()?);
            }
        }
        for part in [Part::Input, Part::Hidden, Part::InputBias, Part::HiddenBias] {
            if let Some(Some(out)) = self.dweights.get(network.weight(pass, part)) {
                given.weight_grad(pass, part, input, kept, &gates, run.set(*out)?);
            }
        }
        let add = pass % network.directions > 0;
        if pass >= network.directions {
            given.input_grad(pass, &gates, self.layers[1].as_mut_slice()?, add)?;
        } else if let Some(dinput) = self.dinput {
            given.input_grad(pass, &gates, run.set(dinput)?, add)?;
        }
        Ok(())
    }

    /// Makes `layers[1]`, the gradient of a layer's input, that of what the layer below gave.
    fn through_dropout<T: Real>(&mut self, run: &Run<'_>, drop: f32, gap: usize) -> Result<()> {
        if drop == 0.0 {
            return Ok(());
        }
        let masks =
            self.masks.ok_or_else(|| Error::kernel("input slot `DropoutState` is empty"))?;
        let (masks, values) = (run.get::<u8>(masks)?, self.layers[1].as_mut_slice::<T>()?);
        let mask = masks.get(gap * values.len()..(gap + 1) * values.len());
        let mask = mask.ok_or_else(|| {
            Error::kernel("`DropoutState` does not come from an `rnn` op of this shape")
        })?;
        let scale = scale::<T>(drop);
        for (value, mask) in values.iter_mut().zip(mask) {
            *value = if *mask == 1 { *value * scale } else { T::ZERO };
        }
        Ok(())
    }
}
