// Loops over a shape in which two operands may repeat along some axes (lower/broadcast.rs makes it).
#pragma once
#include "packs.cuh"

const int MAX_AXES = 9;

/// Some axes, outermost first, and how far each of two operands moves along them (0 where it repeats).
/// Lengths are divided by with a multiplication: `i / dims` is `(hi(i * multipliers) + i) >> shifts`.
struct Axes {
  int32_t rank;
  uint32_t dims[MAX_AXES];
  uint32_t multipliers[MAX_AXES];
  uint32_t shifts[MAX_AXES];
  uint32_t steps[2][MAX_AXES];
};

/// A full shape. When it is one axis, it may have any length; else less than 2^31 elements.
struct Broadcast {
  Axes axes;
  /// Whether as many neighbours as 16 bytes hold always lie in the same innermost line.
  int32_t is_wide;
};

FILE_OWN {

/// Adds to `at` where the operands of element `i` lie.
INLINE void add_offsets(const Axes& axes, uint32_t i, uint32_t* at) {
  ROLLED for (int axis = axes.rank - 1; axis > 0; axis--) {
    uint32_t rest = (__umulhi(i, axes.multipliers[axis]) + i) >> axes.shifts[axis];
    uint32_t position = i - rest * axes.dims[axis];
    at[0] += position * axes.steps[0][axis];
    at[1] += position * axes.steps[1][axis];
    i = rest;
  }
  at[0] += i * axes.steps[0][0];
  at[1] += i * axes.steps[1][0];
}

/// Where the operands of element `i` lie.
struct Places {
  int64_t x, y;
};

INLINE Places find_places(const Axes& axes, int64_t i) {
  if (axes.rank == 1) return Places{i * axes.steps[0][0], i * axes.steps[1][0]};
  uint32_t at[2] = {0, 0};
  add_offsets(axes, (uint32_t)i, at);
  return Places{at[0], at[1]};
}

/// Whether operand `which` moves along the innermost axis.
INLINE bool moves(const Broadcast& shape, int which) {
  return shape.axes.steps[which][shape.axes.rank - 1] != 0;
}

/// Whether `N` neighbours of an operand can be loaded at once.
template <int N, typename E> INLINE bool is_operand_aligned(const E* from, bool is_moving) {
  return !is_moving || is_pack_aligned<N>(from);
}

/// Writes `f(x, y)` for every element of the shape.
template <int N, typename E, typename R, typename F>
INLINE void map_broadcast(const E* xs, const E* ys, R* out, int64_t n, const Broadcast& shape, F f) {
  bool x_moves = moves(shape, 0), y_moves = moves(shape, 1);
  bool is_wide = shape.is_wide && is_operand_aligned<N>(xs, x_moves) && is_operand_aligned<N>(ys, y_moves) &&
                 is_pack_aligned<N>(out);
  int64_t packs = is_wide ? n / N : 0, rest = n - packs * N;
  ROLLED FOR_EACH(unit, packs + rest) {
    bool is_pack = unit < packs;
    int64_t i = is_pack ? unit * N : unit + packs * (N - 1);
    Places at = find_places(shape.axes, i);
    if (is_pack) {
      Pack<E, N> x = load_unit<N>(xs + at.x, x_moves), y = load_unit<N>(ys + at.y, y_moves);
      Pack<R, N> z;
      UNROLL for (int j = 0; j < N; j++) z.at[j] = Store<R>::of(f(load(x.at[j]), load(y.at[j])));
      store_pack(out + i, z);
    } else {
      out[i] = Store<R>::of(f(load(xs[at.x]), load(ys[at.y])));
    }
  }
}

/// Writes `f(x, y, d)`, where `d` is an operand in the full shape.
template <int N, typename E, typename F>
INLINE void map_broadcast(const E* xs, const E* ys, const E* ds, E* out, int64_t n, const Broadcast& shape,
                          F f) {
  bool x_moves = moves(shape, 0), y_moves = moves(shape, 1);
  bool is_wide = shape.is_wide && is_operand_aligned<N>(xs, x_moves) && is_operand_aligned<N>(ys, y_moves) &&
                 is_pack_aligned<N>(ds) && is_pack_aligned<N>(out);
  int64_t packs = is_wide ? n / N : 0, rest = n - packs * N;
  ROLLED FOR_EACH(unit, packs + rest) {
    bool is_pack = unit < packs;
    int64_t i = is_pack ? unit * N : unit + packs * (N - 1);
    Places at = find_places(shape.axes, i);
    if (is_pack) {
      Pack<E, N> x = load_unit<N>(xs + at.x, x_moves), y = load_unit<N>(ys + at.y, y_moves);
      Pack<E, N> d = load_pack<N>(ds + i), z;
      UNROLL for (int j = 0; j < N; j++)
        z.at[j] = Store<E>::of(f(load(x.at[j]), load(y.at[j]), load(d.at[j])));
      store_pack(out + i, z);
    } else {
      out[i] = Store<E>::of(f(load(xs[at.x]), load(ys[at.y]), load(ds[i])));
    }
  }
}

}  // own
