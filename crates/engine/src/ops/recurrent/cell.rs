//! One step of one row of a recurrent cell, forward and backward: plain loops over slices of
//! `hidden` elements.

use crate::ops::prelude::*;

/// The parts of a row of gates.
#[inline(always)]
fn parts<T, const N: usize>(row: &[T], hidden: usize) -> [&[T]; N] {
    std::array::from_fn(|i| &row[i * hidden..(i + 1) * hidden])
}

/// The parts of a row of gates, to be changed.
#[inline(always)]
fn parts_mut<T, const N: usize>(row: &mut [T], hidden: usize) -> [&mut [T]; N] {
    let mut parts = row.chunks_exact_mut(hidden);
    std::array::from_fn(|_| parts.next().expect("a row of gates has its parts"))
}

/// Activates the gates of an LSTM, and computes its states.
#[inline(always)]
pub(super) fn lstm<T: Real>(gates: &mut [T], last_cell: &[T], cell: &mut [T], state: &mut [T]) {
    let hidden = state.len();
    let [input, forget, candidate, output] = parts_mut::<T, 4>(gates, hidden);
    let last_cell = &last_cell[..hidden];
    let cell = &mut cell[..hidden];
    for j in 0..hidden {
        input[j] = input[j].sigmoid();
        forget[j] = forget[j].sigmoid();
        candidate[j] = candidate[j].tanh();
        output[j] = output[j].sigmoid();
        cell[j] = forget[j] * last_cell[j] + input[j] * candidate[j];
        state[j] = output[j] * cell[j].tanh();
    }
}

/// From the gradient of the state, and that of the cell in `dcell`: the gradients of the gates
/// before activation, and that of the last cell in `dcell`.
#[inline(always)]
pub(super) fn lstm_grad<T: Real>(
    gates: &[T],
    [last_cell, cell]: [&[T]; 2],
    dstate: &[T],
    dcell: &mut [T],
    dgates: &mut [T],
) {
    let hidden = dstate.len();
    let [input, forget, candidate, output] = parts::<T, 4>(gates, hidden);
    let [dinput, dforget, dcandidate, doutput] = parts_mut::<T, 4>(dgates, hidden);
    let (last_cell, cell, dcell) = (&last_cell[..hidden], &cell[..hidden], &mut dcell[..hidden]);
    for j in 0..hidden {
        let squashed = cell[j].tanh();
        let d = dcell[j] + dstate[j] * output[j] * (T::ONE - squashed * squashed);
        doutput[j] = dstate[j] * squashed * output[j] * (T::ONE - output[j]);
        dinput[j] = d * candidate[j] * input[j] * (T::ONE - input[j]);
        dforget[j] = d * last_cell[j] * forget[j] * (T::ONE - forget[j]);
        dcandidate[j] = d * input[j] * (T::ONE - candidate[j] * candidate[j]);
        dcell[j] = d * forget[j];
    }
}

/// Activates the gates of a GRU, whose recurrent part is in `recurrent`, and computes its state;
/// `kept` gets the candidate's recurrent part.
#[inline(always)]
pub(super) fn gru<T: Real>(
    gates: &mut [T],
    recurrent: &[T],
    candidate_bias: &[T],
    last: &[T],
    kept: &mut [T],
    state: &mut [T],
) {
    let hidden = state.len();
    let [reset, update, candidate] = parts_mut::<T, 3>(gates, hidden);
    let [to_reset, to_update, to_candidate] = parts::<T, 3>(recurrent, hidden);
    let (bias, last, kept) = (&candidate_bias[..hidden], &last[..hidden], &mut kept[..hidden]);
    for j in 0..hidden {
        reset[j] = (reset[j] + to_reset[j]).sigmoid();
        update[j] = (update[j] + to_update[j]).sigmoid();
        kept[j] = to_candidate[j] + bias[j];
        candidate[j] = (candidate[j] + reset[j] * kept[j]).tanh();
        state[j] = update[j] * last[j] + (T::ONE - update[j]) * candidate[j];
    }
}

/// From the gradient of the state: the gradients of the gates before activation, on the side of
/// the input and of the hidden state. `dstate` becomes what goes to the last state directly.
#[inline(always)]
pub(super) fn gru_grad<T: Real>(
    gates: &[T],
    [last, kept]: [&[T]; 2],
    dstate: &mut [T],
    dgates: &mut [T],
    drecurrent: &mut [T],
) {
    let hidden = dstate.len();
    let [reset, update, candidate] = parts::<T, 3>(gates, hidden);
    let [dreset, dupdate, dcandidate] = parts_mut::<T, 3>(dgates, hidden);
    let [to_reset, to_update, to_candidate] = parts_mut::<T, 3>(drecurrent, hidden);
    let (last, kept) = (&last[..hidden], &kept[..hidden]);
    for j in 0..hidden {
        let d = dstate[j];
        let before = d * (T::ONE - update[j]) * (T::ONE - candidate[j] * candidate[j]);
        dcandidate[j] = before;
        to_candidate[j] = before * reset[j];
        dreset[j] = before * kept[j] * reset[j] * (T::ONE - reset[j]);
        to_reset[j] = dreset[j];
        dupdate[j] = d * (last[j] - candidate[j]) * update[j] * (T::ONE - update[j]);
        to_update[j] = dupdate[j];
        dstate[j] = d * update[j];
    }
}
