//! A recurrent network, forward: the inputs of all steps times the weight as one product, then
//! step after step the product with the last state.
//!
//! Steps beyond the end of a sequence leave its state as it is, and give zeros.

use super::cell;
use super::sizes::{Mode, Part, Sizes};
use crate::gemm::{Matrix, Order, gemm, gemm_add};
use crate::ops::prelude::*;

/// What a network reads: its weights, its first states (of all passes), and the lengths.
pub(super) struct Given<'a, T, W> {
    pub(super) sizes: Sizes,
    /// A variable of `WeightList` by position.
    pub(super) weight: W,
    pub(super) states: [&'a [T]; 2],
    /// The length of each sequence.
    pub(super) lengths: &'a [usize],
}

/// What a pass has computed, in `Reserve`.
pub(super) struct Kept<'a, T> {
    pub(super) gates: &'a [T],
    pub(super) states: &'a [T],
    /// The cells of an LSTM, or the candidates' recurrent parts of a GRU.
    pub(super) others: &'a [T],
}

impl<'a, T> Kept<'a, T> {
    pub(super) fn of(sizes: &Sizes, region: &'a [T]) -> Kept<'a, T> {
        let (gates, rest) = region.split_at(sizes.gates());
        let (states, others) = rest.split_at(sizes.time * sizes.state());
        Kept { gates, states, others }
    }
}

impl<'a, T: Matrix + Real, W: Fn(usize) -> Result<&'a [T]>> Given<'a, T, W> {
    /// A weight of a pass.
    pub(super) fn weight(&self, pass: usize, part: Part) -> Result<&'a [T]> {
        (self.weight)(self.sizes.network.weight(pass, part))
    }

    /// The first states of a pass; the second one is empty unless it is an LSTM.
    pub(super) fn first(&self, pass: usize) -> [&'a [T]; 2] {
        let size = self.sizes.state();
        self.states.map(|all| all.get(pass * size..(pass + 1) * size).unwrap_or_default())
    }

    /// Runs pass `pass` on `input`: fills its `region` of `Reserve`, its columns of `out` and its
    /// last states.
    ///
    /// # Errors
    /// When a weight has another element type.
    pub(super) fn forward(
        &self,
        pass: usize,
        input: &[T],
        region: &mut [T],
        out: &mut [T],
        last: [&mut [T]; 2],
        recurrent: &mut [T],
    ) -> Result<()> {
        let Sizes { network, time, .. } = self.sizes;
        let size = self.sizes.state();
        let (gates, rest) = region.split_at_mut(self.sizes.gates());
        let (states, others) = rest.split_at_mut(time * size);
        self.input_products(pass, input, gates)?;
        let first = self.first(pass);
        for turn in 0..time {
            let step = self.sizes.step(pass, turn);
            let before = turn.checked_sub(1).map(|turn| self.sizes.step(pass, turn));
            let (last_state, state) = consecutive(states, size, before, step, first[0]);
            let gates = &mut gates[step * size * network.mode.gates()..];
            let gates = &mut gates[..size * network.mode.gates()];
            self.recurrent_product(pass, last_state, gates, recurrent)?;
            let (last_other, other) = match network.mode {
                Mode::Lstm => consecutive(others, size, before, step, first[1]),
                Mode::Gru => (&[][..], &mut others[step * size..(step + 1) * size]),
                Mode::Tanh | Mode::Relu => (&[][..], &mut others[..]),
            };
            let old = [last_state, last_other];
            self.activate(pass, step, gates, recurrent, old, [&mut *state, other])?;
            self.write_out(pass, step, state, out);
        }
        for ((last, all), first) in last.into_iter().zip([states, others]).zip(first) {
            // A GRU keeps something else beside its states.
            if !last.is_empty() {
                let end = time.checked_sub(1).map(|turn| self.sizes.step(pass, turn) * size);
                last.copy_from_slice(end.map_or(first, |end| &all[end..end + size]));
            }
        }
        Ok(())
    }

    /// The part of the gates that comes from the inputs and biases.
    fn input_products(&self, pass: usize, input: &[T], gates: &mut [T]) -> Result<()> {
        let network = self.sizes.network;
        let (width, hidden) = (network.gate_width(), network.hidden);
        let weight = self.weight(pass, Part::Input)?;
        let (rows, columns) = (self.sizes.rows(), network.input_width(pass));
        gemm(rows, width, columns, gates, input, Order::Plain, weight, Order::Transposed);
        let bias = self.weight(pass, Part::InputBias)?;
        let other = self.weight(pass, Part::HiddenBias)?;
        // The reset gate of a GRU multiplies the candidate's second bias too: it is added later.
        let both = if network.mode == Mode::Gru { width - hidden } else { width };
        for row in gates.chunks_exact_mut(width) {
            row.iter_mut().zip(bias).for_each(|(gate, bias)| *gate += *bias);
            row[..both].iter_mut().zip(other).for_each(|(gate, bias)| *gate += *bias);
        }
        Ok(())
    }

    /// The part of one step's gates that comes from the last state.
    fn recurrent_product(
        &self,
        pass: usize,
        state: &[T],
        gates: &mut [T],
        recurrent: &mut [T],
    ) -> Result<()> {
        let (network, batch) = (self.sizes.network, self.sizes.batch);
        let (width, hidden) = (network.gate_width(), network.hidden);
        let weight = self.weight(pass, Part::Hidden)?;
        let (product, out): (fn(_, _, _, &mut [T], _, _, _, _), _) = match network.mode {
            Mode::Gru => (gemm, recurrent),
            _ => (gemm_add, gates),
        };
        product(batch, width, hidden, out, state, Order::Plain, weight, Order::Transposed);
        Ok(())
    }

    fn activate(
        &self,
        pass: usize,
        step: usize,
        gates: &mut [T],
        recurrent: &[T],
        [last_state, last_other]: [&[T]; 2],
        [state, other]: [&mut [T]; 2],
    ) -> Result<()> {
        let network = self.sizes.network;
        let (width, hidden) = (network.gate_width(), network.hidden);
        let bias = &self.weight(pass, Part::HiddenBias)?[width - hidden..];
        vectorized(
            #[inline(always)]
            || {
                for (row, length) in self.lengths.iter().enumerate() {
                    let at = row * hidden..(row + 1) * hidden;
                    let wide = row * width..(row + 1) * width;
                    let gates = &mut gates[wide.clone()];
                    let (old, new) = (&last_state[at.clone()], &mut state[at.clone()]);
                    if step >= *length {
                        new.copy_from_slice(old);
                        match network.mode {
                            Mode::Lstm => other[at.clone()].copy_from_slice(&last_other[at]),
                            Mode::Gru => other[at].fill(T::ZERO),
                            Mode::Tanh | Mode::Relu => {}
                        }
                        continue;
                    }
                    match network.mode {
                        Mode::Lstm => {
                            cell::lstm(gates, &last_other[at.clone()], &mut other[at], new);
                        }
                        Mode::Gru => {
                            cell::gru(gates, &recurrent[wide], bias, old, &mut other[at], new);
                        }
                        Mode::Tanh => {
                            new.iter_mut().zip(&*gates).for_each(|(new, x)| *new = x.tanh());
                        }
                        Mode::Relu => new.iter_mut().zip(&*gates).for_each(|(new, x)| {
                            *new = if *x > T::ZERO { *x } else { T::ZERO };
                        }),
                    }
                }
            },
        );
        Ok(())
    }

    fn write_out(&self, pass: usize, step: usize, state: &[T], out: &mut [T]) {
        let Sizes { network, batch, .. } = self.sizes;
        let (width, hidden) = (network.width(), network.hidden);
        let column = network.direction(pass) * hidden;
        let out = out[step * batch * width..(step + 1) * batch * width].chunks_exact_mut(width);
        for ((out, state), length) in out.zip(state.chunks_exact(hidden)).zip(self.lengths) {
            let out = &mut out[column..column + hidden];
            if step < *length {
                out.copy_from_slice(state);
            } else {
                out.fill(T::ZERO);
            }
        }
    }
}

/// The values before and at `step`; before the first step there is `first`.
fn consecutive<'a, T>(
    all: &'a mut [T],
    size: usize,
    before: Option<usize>,
    step: usize,
    first: &'a [T],
) -> (&'a [T], &'a mut [T]) {
    match before {
        None => (first, &mut all[step * size..(step + 1) * size]),
        Some(before) if before < step => {
            let (low, high) = all.split_at_mut(step * size);
            (&low[before * size..], &mut high[..size])
        }
        Some(before) => {
            let (low, high) = all.split_at_mut(before * size);
            (&high[..size], &mut low[step * size..])
        }
    }
}
