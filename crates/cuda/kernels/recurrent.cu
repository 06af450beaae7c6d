// Cells of recurrent networks, forward and backward: one thread for each element of a state. The products
// around them are the library's.
#include "rows.cuh"

FILE_OWN {

/// Activations by Paddle's numbers, and their slopes from the value.
template <typename T> INLINE T activate(T x, int32_t kind) {
  return kind == 1 ? sigmoid_(x) : kind == 2 ? tanh_(x) : kind == 3 ? (x > T(0) ? x : T(0)) : x;
}
template <typename T> INLINE T activation_slope(T y, int32_t kind) {
  return kind == 1 ? y * (T(1) - y) : kind == 2 ? T(1) - y * y : kind == 3 ? sign_(y) : T(1);
}

/// The row and column of element `i` of a state.
struct Place {
  uint32_t row, column;
  INLINE Place(int64_t i, uint32_t hidden) {
    row = (uint32_t)i / hidden;
    column = (uint32_t)i - row * hidden;
  }
  /// Where part `part` of this element lies in rows of `parts` parts.
  INLINE int64_t in(uint32_t part, uint32_t parts, uint32_t hidden) const {
    return ((int64_t)row * parts + part) * hidden + column;
  }
};

/// Columns of `x`: input gate, forget gate, output gate, candidate.
template <typename T> struct LstmGates {
  T input, forget, output, candidate;
  INLINE LstmGates(const T* x, const Place& place, uint32_t hidden, T forget_bias) {
    input = sigmoid_(x[place.in(0, 4, hidden)]);
    forget = sigmoid_(x[place.in(1, 4, hidden)] + forget_bias);
    output = sigmoid_(x[place.in(2, 4, hidden)]);
    candidate = tanh_(x[place.in(3, 4, hidden)]);
  }
};

template <typename T>
INLINE void lstm_unit_grad(const T* x, const T* last, const T* cell, const T* dcell, const T* dstate, T* dx,
                           T* dlast, int64_t n, uint32_t hidden, T forget_bias) {
  FOR_EACH(i, n) {
    Place place(i, hidden);
    LstmGates<T> gates(x, place, hidden, forget_bias);
    T squashed = tanh_(cell[i]), to_state = dstate[i];
    T d = dcell[i] + to_state * gates.output * (T(1) - squashed * squashed);
    if (dx) {
      dx[place.in(0, 4, hidden)] = d * gates.candidate * gates.input * (T(1) - gates.input);
      dx[place.in(1, 4, hidden)] = d * last[i] * gates.forget * (T(1) - gates.forget);
      dx[place.in(2, 4, hidden)] = to_state * squashed * gates.output * (T(1) - gates.output);
      dx[place.in(3, 4, hidden)] = d * gates.input * (T(1) - gates.candidate * gates.candidate);
    }
    if (dlast) dlast[i] = d * gates.forget;
  }
}

}  // own

// `gru_unit` has rows of update gate, reset gate and candidate.
#define UNIT_KERNELS(T, suffix)                                                                            \
  KERNEL lstm_unit_##suffix(const T* x, const T* last, T* cell, T* state, int64_t n, int64_t hidden,       \
                            double forget_bias) {                                                          \
    FOR_EACH(i, n) {                                                                                       \
      LstmGates<T> gates(x, Place(i, (uint32_t)hidden), (uint32_t)hidden, (T)forget_bias);                 \
      T now = gates.forget * last[i] + gates.input * gates.candidate;                                      \
      cell[i] = now;                                                                                       \
      state[i] = gates.output * tanh_(now);                                                                \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(lstm_unit_##suffix)                                                                               \
  KERNEL lstm_unit_grad_##suffix(const T* x, const T* last, const T* cell, const T* dcell,                 \
                                 const T* dstate, T* dx, T* dlast, int64_t n, int64_t hidden,              \
                                 double forget_bias) {                                                     \
    lstm_unit_grad<T>(x, last, cell, dcell, dstate, dx, dlast, n, (uint32_t)hidden, (T)forget_bias);       \
  }                                                                                                        \
  EXPORT(lstm_unit_grad_##suffix)                                                                          \
  KERNEL gru_unit_input_##suffix(const T* input, const T* bias, T* gates, int64_t n, int64_t width) {      \
    FOR_EACH(i, n) gates[i] = input[i] + (bias ? bias[(uint32_t)i % (uint32_t)width] : T(0));              \
  }                                                                                                        \
  EXPORT(gru_unit_input_##suffix)                                                                          \
  KERNEL gru_unit_reset_##suffix(T* gates, const T* last, T* reset_last, int64_t n, int64_t hidden_,       \
                                 int32_t kind) {                                                           \
    uint32_t hidden = (uint32_t)hidden_;                                                                   \
    FOR_EACH(i, n) {                                                                                       \
      Place place(i, hidden);                                                                              \
      int64_t update = place.in(0, 3, hidden), reset = place.in(1, 3, hidden);                             \
      gates[update] = activate(gates[update], kind);                                                       \
      T now = activate(gates[reset], kind);                                                                \
      gates[reset] = now;                                                                                  \
      reset_last[i] = now * last[i];                                                                       \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(gru_unit_reset_##suffix)                                                                          \
  KERNEL gru_unit_state_##suffix(T* gates, const T* last, T* out, int64_t n, int64_t hidden_,              \
                                 int32_t kind, int32_t is_origin) {                                        \
    uint32_t hidden = (uint32_t)hidden_;                                                                   \
    FOR_EACH(i, n) {                                                                                       \
      Place place(i, hidden);                                                                              \
      int64_t at = place.in(2, 3, hidden);                                                                 \
      T update = gates[place.in(0, 3, hidden)], candidate = activate(gates[at], kind);                     \
      gates[at] = candidate;                                                                               \
      out[i] = last[i] + (is_origin ? T(1) - update : update) * (candidate - last[i]);                     \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(gru_unit_state_##suffix)                                                                          \
  /* The gradients of update gate and candidate, and what goes to the last state directly. */              \
  KERNEL gru_unit_grad_##suffix(const T* gates, const T* last, const T* ds, T* dgates, T* dlast,           \
                                int64_t n, int64_t hidden_, int32_t kind, int32_t gate_kind,               \
                                int32_t is_origin) {                                                       \
    uint32_t hidden = (uint32_t)hidden_;                                                                   \
    FOR_EACH(i, n) {                                                                                       \
      Place place(i, hidden);                                                                              \
      T update = gates[place.in(0, 3, hidden)], candidate = gates[place.in(2, 3, hidden)], d = ds[i];      \
      T share = is_origin ? T(1) - update : update, moved = d * (candidate - last[i]);                     \
      T slope = activation_slope(update, gate_kind);                                                       \
      dgates[place.in(0, 3, hidden)] = is_origin ? -moved * slope : moved * slope;                         \
      dgates[place.in(2, 3, hidden)] = d * share * activation_slope(candidate, kind);                      \
      dlast[i] = d * (T(1) - share);                                                                       \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(gru_unit_grad_##suffix)                                                                           \
  KERNEL gru_unit_reset_grad_##suffix(const T* gates, const T* last, const T* dreset, T* dgates,           \
                                      T* dlast, int64_t n, int64_t hidden_, int32_t gate_kind) {           \
    uint32_t hidden = (uint32_t)hidden_;                                                                   \
    FOR_EACH(i, n) {                                                                                       \
      int64_t at = Place(i, hidden).in(1, 3, hidden);                                                      \
      dgates[at] = dreset[i] * last[i] * activation_slope(gates[at], gate_kind);                           \
      dlast[i] += dreset[i] * gates[at];                                                                   \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(gru_unit_reset_grad_##suffix)
WIDE_FLOATS(UNIT_KERNELS)

FILE_OWN {

/// Cells of `rnn`.
const int LSTM = 0, GRU = 1, TANH = 2;

/// The lengths of sequences, as numbers of 4 or 8 bytes; all are full when there are none.
struct Lengths {
  const void* at;
  int32_t size;
  int64_t time;
  Complaint* complaints;
  uint32_t op;

  /// Whether sequence `row` has ended before `step`.
  INLINE bool is_over(uint32_t row, int64_t step) const {
    if (!at) return false;
    int64_t length = size == 8 ? ((const int64_t*)at)[row] : ((const int32_t*)at)[row];
    if (length < 0 || length > time) complain(complaints, op, OUT_OF_RANGE, length, row, time + 1);
    return step >= length;
  }
};

/// One step: activates the gates, which hold the products so far (a GRU's with the last state are in
/// `recurrent`), and computes the state, which goes to `out` as well. Beyond the end of a sequence its state
/// stays, and gives zeros. `other` is the cell of an LSTM, or what a GRU's candidate gets of the last state.
template <typename T>
INLINE void rnn_cell(T* gates, const T* recurrent, const T* input_bias, const T* hidden_bias,
                     const T* last_state, const T* last_other, T* state, T* other, T* out,
                     const Lengths& lengths, int64_t step, int64_t n, uint32_t hidden,
                     int64_t out_pitch, int32_t mode) {
  uint32_t parts = mode == LSTM ? 4 : mode == GRU ? 3 : 1;
  FOR_EACH(i, n) {
    Place place(i, hidden);
    bool is_over = lengths.is_over(place.row, step);
    T g[4];
    UNROLL for (uint32_t part = 0; part < 4; part++) {
      if (part >= parts) continue;
      uint32_t of = part * hidden + place.column;
      g[part] = gates[place.in(part, parts, hidden)] + input_bias[of];
      // The reset gate of a GRU multiplies the candidate's second bias too: it is added below.
      if (mode != GRU || part < 2) g[part] += hidden_bias[of];
    }
    T now = last_state[i], beside = mode == LSTM ? last_other[i] : T(0);
    if (!is_over && mode == LSTM) {
      g[0] = sigmoid_(g[0]), g[1] = sigmoid_(g[1]), g[2] = tanh_(g[2]), g[3] = sigmoid_(g[3]);
      beside = g[1] * beside + g[0] * g[2];
      now = g[3] * tanh_(beside);
    } else if (!is_over && mode == GRU) {
      g[0] = sigmoid_(g[0] + recurrent[place.in(0, 3, hidden)]);
      g[1] = sigmoid_(g[1] + recurrent[place.in(1, 3, hidden)]);
      beside = recurrent[place.in(2, 3, hidden)] + hidden_bias[2 * hidden + place.column];
      g[2] = tanh_(g[2] + g[0] * beside);
      now = g[1] * now + (T(1) - g[1]) * g[2];
    } else if (!is_over) {
      now = mode == TANH ? tanh_(g[0]) : g[0] > T(0) ? g[0] : T(0);
    }
    UNROLL for (uint32_t part = 0; part < 4; part++)
      if (part < parts) gates[place.in(part, parts, hidden)] = g[part];
    state[i] = now;
    if (other) other[i] = beside;
    out[place.row * out_pitch + place.column] = is_over ? T(0) : now;
  }
}

/// One step back: the gradients of the gates before activation (on the side of the hidden state too, where a
/// GRU differs), from those of the state and of what was given out. `dstate` becomes what goes to the last
/// state directly.
template <typename T>
INLINE void rnn_cell_grad(const T* gates, const T* state, const T* other, const T* old_state,
                          const T* old_cell, const T* dout, T* dstate, T* dcell, T* dgates, T* dhidden,
                          const Lengths& lengths, int64_t step, int64_t n, uint32_t hidden,
                          int64_t out_pitch, int32_t mode) {
  uint32_t parts = mode == LSTM ? 4 : mode == GRU ? 3 : 1;
  FOR_EACH(i, n) {
    Place place(i, hidden);
    bool is_over = lengths.is_over(place.row, step);
    T g[4], to[4];
    UNROLL for (uint32_t part = 0; part < 4; part++) {
      g[part] = part < parts ? gates[place.in(part, parts, hidden)] : T(0);
      to[part] = T(0);
    }
    T d = dstate[i], to_candidate = T(0);
    if (!is_over && dout) d += dout[place.row * out_pitch + place.column];
    if (!is_over && mode == LSTM) {
      T squashed = tanh_(other[i]), to_cell = dcell[i] + d * g[3] * (T(1) - squashed * squashed);
      to[0] = to_cell * g[2] * g[0] * (T(1) - g[0]);
      to[1] = to_cell * old_cell[i] * g[1] * (T(1) - g[1]);
      to[2] = to_cell * g[0] * (T(1) - g[2] * g[2]);
      to[3] = d * squashed * g[3] * (T(1) - g[3]);
      dcell[i] = to_cell * g[1];
      d = T(0);
    } else if (!is_over && mode == GRU) {
      to[2] = d * (T(1) - g[1]) * (T(1) - g[2] * g[2]);
      to_candidate = to[2] * g[0];
      to[0] = to[2] * other[i] * g[0] * (T(1) - g[0]);
      to[1] = d * (old_state[i] - g[2]) * g[1] * (T(1) - g[1]);
      d = d * g[1];
    } else if (!is_over) {
      to[0] = d * (mode == TANH ? T(1) - state[i] * state[i] : sign_(state[i]));
      d = T(0);
    }
    dstate[i] = d;
    UNROLL for (uint32_t part = 0; part < 4; part++) {
      if (part >= parts) continue;
      int64_t at = place.in(part, parts, hidden);
      dgates[at] = to[part];
      if (dhidden) dhidden[at] = part == 2 ? to_candidate : to[part];
    }
  }
}

}  // own

#define CELL_KERNELS(T, suffix)                                                                            \
  KERNEL rnn_cell_##suffix(T* gates, const T* recurrent, const T* input_bias, const T* hidden_bias,        \
                           const T* last_state, const T* last_other, T* state, T* other, T* out,           \
                           int64_t n, int64_t hidden, int64_t out_pitch, int32_t mode, int64_t step,       \
                           int64_t time, const void* lengths, int32_t length_size,                         \
                           Complaint* complaints, uint32_t op) {                                           \
    Lengths given = {lengths, length_size, time, complaints, op};                                          \
    rnn_cell<T>(gates, recurrent, input_bias, hidden_bias, last_state, last_other, state, other, out,      \
                given, step, n, (uint32_t)hidden, out_pitch, mode);                                        \
  }                                                                                                        \
  EXPORT(rnn_cell_##suffix)                                                                                \
  KERNEL rnn_cell_grad_##suffix(const T* gates, const T* state, const T* other, const T* old_state,        \
                                const T* old_cell, const T* dout, T* dstate, T* dcell, T* dgates,          \
                                T* dhidden, int64_t n, int64_t hidden, int64_t out_pitch, int32_t mode,    \
                                int64_t step, int64_t time, const void* lengths, int32_t length_size,      \
                                Complaint* complaints, uint32_t op) {                                      \
    Lengths given = {lengths, length_size, time, complaints, op};                                          \
    rnn_cell_grad<T>(gates, state, other, old_state, old_cell, dout, dstate, dcell, dgates, dhidden,       \
                     given, step, n, (uint32_t)hidden, out_pitch, mode);                                   \
  }                                                                                                        \
  EXPORT(rnn_cell_grad_##suffix)
WIDE_FLOATS(CELL_KERNELS)
