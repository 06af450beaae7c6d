//! A recurrent network, backward: step after step from the end for the gradients of the gates,
//! then one product each for the gradients of weights and inputs.

use super::cell;
use super::forward::{Given, Kept};
use super::sizes::{Mode, Part, Sizes};
use crate::gemm::{Matrix, Order, gemm, gemm_add};
use crate::ops::prelude::*;

/// Gradients of the gates of one pass, before activation.
pub(super) struct Gates<'a, T> {
    /// On the side of the input.
    input: &'a mut [T],
    /// On the side of the hidden state, where a GRU differs; else empty.
    hidden: &'a mut [T],
}

impl<'a, T> Gates<'a, T> {
    /// The elements that they need.
    pub(super) fn elements(sizes: &Sizes) -> usize {
        let sides = if sizes.network.mode == Mode::Gru { 2 } else { 1 };
        sides * sizes.gates()
    }

    pub(super) fn of(sizes: &Sizes, memory: &'a mut [T]) -> Gates<'a, T> {
        let (input, hidden) = memory.split_at_mut(sizes.gates());
        Gates { input, hidden }
    }

    fn hidden(&self) -> &[T] {
        if self.hidden.is_empty() { self.input } else { self.hidden }
    }
}

impl<'a, T: Matrix + Real, W: Fn(usize) -> Result<&'a [T]>> Given<'a, T, W> {
    /// Computes the gradients of the gates of pass `pass` from `dout`, the gradient of what its
    /// layer gives. `dstates` are those of the last states; they become those of the first.
    ///
    /// # Errors
    /// When a weight has another element type.
    pub(super) fn backward(
        &self,
        pass: usize,
        kept: &Kept<'_, T>,
        dout: &[T],
        [dstate, dcell]: [&mut [T]; 2],
        gates: &mut Gates<'_, T>,
    ) -> Result<()> {
        let Sizes { network, time, batch } = self.sizes;
        let (size, width) = (self.sizes.state(), network.gate_width());
        let weight = self.weight(pass, Part::Hidden)?;
        let first = self.first(pass);
        for turn in (0..time).rev() {
            let step = self.sizes.step(pass, turn);
            let before = turn.checked_sub(1).map(|turn| self.sizes.step(pass, turn) * size);
            let old_state = before.map_or(first[0], |at| &kept.states[at..at + size]);
            let old_cell = match before {
                Some(at) if network.mode == Mode::Lstm => &kept.others[at..at + size],
                _ => first[1],
            };
            let old = [old_state, old_cell];
            self.step_grad(pass, step, kept, dout, old, [&mut *dstate, &mut *dcell], gates);
            let dgates = &gates.hidden()[step * batch * width..(step + 1) * batch * width];
            let hidden = network.hidden;
            gemm_add(batch, hidden, width, dstate, dgates, Order::Plain, weight, Order::Plain);
        }
        Ok(())
    }

    /// One step, without the product with the weight. Rows beyond the end of their sequence pass
    /// the gradients of their states on.
    #[expect(clippy::too_many_arguments, reason = "what a step reads and writes")]
    fn step_grad(
        &self,
        pass: usize,
        step: usize,
        kept: &Kept<'_, T>,
        dout: &[T],
        [old_state, old_cell]: [&[T]; 2],
        [dstate, dcell]: [&mut [T]; 2],
        gates: &mut Gates<'_, T>,
    ) {
        let Sizes { network, batch, .. } = self.sizes;
        let (hidden, width) = (network.hidden, network.gate_width());
        let column = network.direction(pass) * hidden;
        vectorized(
            #[inline(always)]
            || {
                for (row, length) in self.lengths.iter().enumerate() {
                    let number = step * batch + row;
                    let here = row * hidden..(row + 1) * hidden;
                    let all = number * hidden..(number + 1) * hidden;
                    let wide = number * width..(number + 1) * width;
                    let dgates = &mut gates.input[wide.clone()];
                    if step >= *length {
                        dgates.fill(T::ZERO);
                        if network.mode == Mode::Gru {
                            gates.hidden[wide].fill(T::ZERO);
                        }
                        continue;
                    }
                    let dout = &dout[number * network.width() + column..][..hidden];
                    let dstate = &mut dstate[here.clone()];
                    dstate.iter_mut().zip(dout).for_each(|(sum, dout)| *sum += *dout);
                    let (values, state) = (&kept.gates[wide.clone()], &kept.states[all.clone()]);
                    match network.mode {
                        Mode::Lstm => {
                            let cells = [&old_cell[here.clone()], &kept.others[all]];
                            cell::lstm_grad(values, cells, dstate, &mut dcell[here], dgates);
                            dstate.fill(T::ZERO);
                        }
                        Mode::Gru => {
                            let others = [&old_state[here], &kept.others[all]];
                            let hidden = &mut gates.hidden[wide];
                            cell::gru_grad(values, others, dstate, dgates, hidden);
                        }
                        Mode::Tanh => plain_grad(state, dstate, dgates, |y| T::ONE - y * y),
                        Mode::Relu => plain_grad(state, dstate, dgates, |y| y.sign()),
                    }
                }
            },
        );
    }

    /// Adds to `dinput` (or sets it) the gradient of the input of pass `pass`.
    ///
    /// # Errors
    /// When a weight has another element type.
    pub(super) fn input_grad(
        &self,
        pass: usize,
        gates: &Gates<'_, T>,
        dinput: &mut [T],
        add: bool,
    ) -> Result<()> {
        let network = self.sizes.network;
        let weight = self.weight(pass, Part::Input)?;
        let product = if add { gemm_add } else { gemm };
        let (m, n, k) = (self.sizes.rows(), network.input_width(pass), network.gate_width());
        product(m, n, k, dinput, gates.input, Order::Plain, weight, Order::Plain);
        Ok(())
    }

    /// The gradient of one weight or bias of pass `pass`, whose input was `input`.
    pub(super) fn weight_grad(
        &self,
        pass: usize,
        part: Part,
        input: &[T],
        kept: &Kept<'_, T>,
        gates: &Gates<'_, T>,
        dweight: &mut [T],
    ) {
        let Sizes { network, time, batch } = self.sizes;
        let (rows, width) = (self.sizes.rows(), network.gate_width());
        let (turned, plain) = (Order::Transposed, Order::Plain);
        match part {
            Part::Input => {
                let columns = network.input_width(pass);
                gemm(width, columns, rows, dweight, gates.input, turned, input, plain);
            }
            Part::Hidden => {
                let (size, step) = (self.sizes.state(), batch * width);
                let others = time.saturating_sub(1);
                let forth = network.direction(pass) == 0;
                // The gradients of each step but the first, and the states before them.
                let (gates, states) = (gates.hidden(), kept.states);
                let (first, rest, states) = if forth {
                    let (first, rest) = gates.split_at(gates.len() - others * step);
                    (first, rest, &states[..others * size])
                } else {
                    let (rest, first) = gates.split_at(others * step);
                    (first, rest, &states[states.len() - others * size..])
                };
                let hidden = network.hidden;
                gemm(width, hidden, others * batch, dweight, rest, turned, states, plain);
                if time > 0 {
                    let state = self.first(pass)[0];
                    gemm_add(width, hidden, batch, dweight, first, turned, state, plain);
                }
            }
            Part::InputBias => sum_rows(gates.input, dweight),
            Part::HiddenBias => sum_rows(gates.hidden(), dweight),
        }
    }
}

/// The gradient of a cell with one gate, whose state is its activation; nothing goes to the last
/// state directly.
#[inline(always)]
fn plain_grad<T: Real>(state: &[T], dstate: &mut [T], dgate: &mut [T], slope: impl Fn(T) -> T) {
    for ((dgate, state), dstate) in dgate.iter_mut().zip(state).zip(dstate) {
        *dgate = *dstate * slope(*state);
        *dstate = T::ZERO;
    }
}

fn sum_rows<T: Real>(rows: &[T], sums: &mut [T]) {
    sums.fill(T::ZERO);
    for row in rows.chunks_exact(sums.len()) {
        sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += *x);
    }
}
