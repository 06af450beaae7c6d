//! `rnn_grad`: the gradients of a recurrent network, layer by layer from the last.

use super::backward::Gates;
use super::forward::{Given, Kept};
use super::rnn::{ATTRS, Reads, scale};
use super::sizes::Part;
use crate::gemm::Matrix;
use crate::ops::prelude::*;

pub(super) const DEF: OpDef = OpDef::new("rnn_grad", kernel)
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

fn kernel(op: &OpView<'_>) -> Result<Kernel> {
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
    float_kernel!(op, "Input", |run, T| {
        let sizes = reads.sizes(run)?;
        reads.lengths(run, &sizes, &mut lengths)?;
        let given = reads.given::<T>(run, sizes, &lengths)?;
        grads.run(&given, run, run.get(reads.input)?)?;
    })
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
        for (out, state) in self.dpre.iter_mut().zip(&self.states) {
            if let Some(out) = out {
                run.set::<T>(out)?[at.clone()].copy_from_slice(state.as_slice()?);
            }
        }
        for part in [Part::Input, Part::Hidden, Part::InputBias, Part::HiddenBias] {
            if let Some(Some(out)) = self.dweights.get_mut(network.weight(pass, part)) {
                given.weight_grad(pass, part, input, kept, &gates, run.set(out)?);
            }
        }
        let add = network.direction(pass) > 0;
        if pass >= network.directions {
            given.input_grad(pass, &gates, self.layers[1].as_mut_slice()?, add)?;
        } else if let Some(dinput) = &mut self.dinput {
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
