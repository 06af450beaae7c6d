//! `rnn`: a network of recurrent layers over a batch of sequences, time first; what `nn.LSTM`,
//! `nn.GRU` and `nn.SimpleRNN` are made of.
//!
//! Masks of the dropout between layers are kept in `DropoutState`, everything else that the
//! gradient needs in `Reserve`.

use super::forward::Given;
use super::sizes::{Network, Sizes};
use crate::gemm::Matrix;
use crate::ops::prelude::*;
use crate::random::Philox;

pub(super) const ATTRS: &[AttrSpec] = &[
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
    .grad(GradRule::Op(&[
        "Input",
        "PreState",
        "WeightList",
        "SequenceLength",
        "Out",
        "DropoutState",
        "Reserve",
    ]));

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
pub(super) struct Reads {
    network: Network,
    pub(super) input: In,
    states: Vec<In>,
    weights: Vec<In>,
    lengths: Option<In>,
}

impl Reads {
    pub(super) fn of(op: &OpView<'_>) -> Result<Reads> {
        Ok(Reads {
            network: Network::of(op)?,
            input: op.input("Input")?,
            states: op.inputs("PreState"),
            weights: op.inputs("WeightList"),
            lengths: op.maybe_input("SequenceLength"),
        })
    }

    pub(super) fn sizes(&self, run: &Run<'_>) -> Result<Sizes> {
        let dims = run.dims(self.input)?;
        Ok(Sizes { network: self.network, time: dims[0], batch: dims[1] })
    }

    /// Reads the lengths of the sequences; all are full when none are given.
    pub(super) fn lengths(
        &self,
        run: &Run<'_>,
        sizes: &Sizes,
        lengths: &mut Vec<usize>,
    ) -> Result<()> {
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

    /// # Errors
    /// When a state has another element type.
    #[expect(clippy::type_complexity, reason = "a closure has no shorter name")]
    pub(super) fn given<'a, T: Matrix + Real>(
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
        let stream = Philox::new(seed, &op.output_key("Out"));
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
pub(super) fn scale<T: Real>(drop: f32) -> T {
    // With probability 1 nothing is kept; the factor must only not be infinite.
    if drop < 1.0 { T::from_f64(1.0 / (1.0 - f64::from(drop))) } else { T::ZERO }
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
    float_kernel!(op, "Input", |run, T| {
        let sizes = reads.sizes(run)?;
        reads.lengths(run, &sizes, &mut lengths)?;
        let given = reads.given::<T>(run, sizes, &lengths)?;
        forward(&given, run, run.get(reads.input)?, &mut writes, dropout)?;
    })
}

fn forward<'a, T: Matrix + Real, W: Fn(usize) -> Result<&'a [T]>>(
    given: &Given<'a, T, W>,
    run: &Run<'_>,
    input: &[T],
    writes: &mut Writes,
    dropout: Option<Dropout>,
) -> Result<()> {
    let (sizes, network) = (&given.sizes, given.sizes.network);
    let reserve = match &mut writes.reserve {
        Some(reserve) => run.set::<T>(reserve)?,
        None => {
            writes.own_reserve.resize(T::DTYPE, [sizes.reserve()]);
            writes.own_reserve.as_mut_slice()?
        }
    };
    writes.recurrent.resize(T::DTYPE, [sizes.batch, network.gate_width()]);
    let recurrent = writes.recurrent.as_mut_slice::<T>()?;
    let masks = match &mut writes.masks {
        Some(masks) => run.set::<u8>(masks)?,
        None => {
            let gaps = if dropout.is_some() { network.layers - 1 } else { 0 };
            writes.own_masks.resize(gaps * sizes.layer(), 0);
            &mut writes.own_masks[..]
        }
    };
    let mut states = writes.states.iter_mut();
    let mut state = || states.next().map_or(Ok(Default::default()), |state| run.set::<T>(state));
    let [last_state, last_cell] = [state()?, state()?];
    let (passes, inputs) = reserve.split_at_mut(network.passes() * sizes.pass());
    let (layer_size, state_size) = (sizes.layer(), sizes.state());
    for layer in 0..network.layers {
        // What the layers below gave lies before what this one gives.
        let (below, above) = inputs.split_at_mut(layer * layer_size);
        let input = if layer == 0 { input } else { &below[(layer - 1) * layer_size..] };
        let last = layer + 1 == network.layers;
        let out = if last { run.set::<T>(&mut writes.out)? } else { &mut above[..layer_size] };
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
