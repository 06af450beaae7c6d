// Activations that `fc` has in its own kernels.
#pragma once
#include "rows.cuh"

FILE_OWN {

/// Activations of `fc`, and their slopes from the output `y`.
const int RELU = 1, SIGMOID = 2, TANH = 3;
template <typename T> INLINE T fc_act(T x, int32_t act) {
  return act == RELU ? (x > T(0) ? x : T(0)) : act == SIGMOID ? sigmoid_(x) : act == TANH ? tanh_(x) : x;
}
template <typename T> INLINE T fc_slope(T y, T d, int32_t act) {
  if (act == RELU) return y > T(0) ? d : T(0);
  return act == SIGMOID ? d * y * (T(1) - y) : act == TANH ? d * (T(1) - y * y) : d;
}

}  // own
