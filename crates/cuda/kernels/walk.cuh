// Positions in strided tensors, from the number of an element.
#pragma once
#include "divider.cuh"

// A loop whose body is not repeated for several turns at once: it would only be more code.
#ifndef ROLLED
#ifdef EMULATED_CARD
#define ROLLED
#else
#define ROLLED _Pragma("unroll 1")
#endif
#endif

/// Divides `x`, and gives what is left.
INLINE uint32_t split(uint32_t& x, const Divider& divider) {
  uint32_t quotient = divider.quotient(x), rest = x - quotient * divider.by;
  x = quotient;
  return rest;
}

/// The number of this thread, and how many there are, where 31 bits suffice.
#define FOR_EACH_SHORT(i, n)                                                                               \
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, i##_step = gridDim.x * blockDim.x; i < (n);     \
       i += i##_step)

const int MAX_AXES = 8;

/// Axes, outermost first, and how far one step along each leads on two sides.
struct Walk {
  int32_t rank;
  int32_t unused;
  int64_t from, to;
  Divider dims[MAX_AXES];
  int32_t from_steps[MAX_AXES];
  int32_t to_steps[MAX_AXES];
};

/// Where element `i` lies on both sides.
INLINE void locate(const Walk& walk, uint32_t i, int64_t& from, int64_t& to) {
  from = walk.from, to = walk.to;
  ROLLED for (int axis = walk.rank - 1; axis >= 0; axis--) {
    int32_t position = (int32_t)(axis ? split(i, walk.dims[axis]) : i);
    from += (int64_t)position * walk.from_steps[axis];
    to += (int64_t)position * walk.to_steps[axis];
  }
}

/// Element `i` of an index tensor, of 32 or of 64 bits.
INLINE int64_t index_at(const void* index, int32_t wide, int64_t i) {
  return wide ? ((const int64_t*)index)[i] : (int64_t)((const int32_t*)index)[i];
}
