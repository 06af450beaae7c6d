// Elements along an axis in order: argsort, top_k, arg_max and arg_min.
//
// Order is total, as on the host: not-a-number is larger than every number, and of equal elements the one
// with the smaller index comes first, both ways up.
#include "pairs.cuh"

#define MERGE(P, suffix)                                                                                   \
  KERNEL merge_pairs_##suffix(const P* from, P* to, uint32_t count, Divider len, uint32_t run) {           \
    merge_runs(from, to, count, len, run);                                                                 \
  }                                                                                                        \
  EXPORT(merge_pairs_##suffix)
MERGE(ShortPair, 32)
MERGE(LongPair, 64)

/// Elements as unsigned numbers of the same order.
INLINE uint32_t rank_of(float x) {
  if (x != x) return ~0u;
  // Both zeros are equal.
  uint32_t bits = x == 0.0f ? 0u : __float_as_uint(x);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
INLINE uint64_t rank_of(double x) {
  if (x != x) return ~0ull;
  union { double real; uint64_t bits; } both;
  both.real = x;
  uint64_t bits = x == 0.0 ? 0ull : both.bits, sign = 1ull << 63;
  return bits & sign ? ~bits : bits | sign;
}
INLINE uint32_t rank_of(int32_t x) { return (uint32_t)x ^ 0x80000000u; }
INLINE uint64_t rank_of(int64_t x) { return (uint64_t)x ^ (1ull << 63); }
INLINE uint32_t rank_of(uint8_t x) { return x; }

/// Lanes of `len` elements along an axis, `inner` apart, of which the first `keep` in order are wanted.
struct Lanes {
  uint32_t count, len, keep, descending;
  Divider inner;
  /// Tiles of a lane, and how many pairs of a tile are sorted together.
  uint32_t tiles, segment;
};

/// Where a lane starts in a tensor whose axis has `len`.
INLINE int64_t start_of(const Lanes& lanes, uint32_t lane, uint32_t len) {
  uint32_t outer = lane, inner = split(outer, lanes.inner);
  return (int64_t)outer * len * lanes.inner.by + inner;
}

template <typename E>
INLINE void write_kept(const Lanes& lanes, const E* x, E* out, int64_t* indices, uint32_t lane, uint32_t at,
                       uint32_t index) {
  int64_t target = start_of(lanes, lane, lanes.keep) + (int64_t)at * lanes.inner.by;
  out[target] = x[start_of(lanes, lane, lanes.len) + (int64_t)index * lanes.inner.by];
  indices[target] = index;
}

// Short lanes are sorted and written at once, several of them in a block; long ones leave sorted tiles.
template <typename P, typename E>
INLINE void sort_lanes(const E* x, E* out, int64_t* indices, P* pairs, const Lanes& lanes) {
  __shared__ P tile[TILE_PAIRS];
  uint32_t per_block = TILE_PAIRS / lanes.segment;
  for (uint32_t slot = threadIdx.x; slot < TILE_PAIRS; slot += blockDim.x) {
    uint32_t lane = lanes.tiles == 1 ? blockIdx.x * per_block + slot / lanes.segment : blockIdx.x / lanes.tiles;
    uint32_t at = slot % lanes.segment + blockIdx.x % lanes.tiles * TILE_PAIRS;
    tile[slot] = Pairs<P>::last();
    if (lane < lanes.count && at < lanes.len) {
      auto rank = rank_of(x[start_of(lanes, lane, lanes.len) + (int64_t)at * lanes.inner.by]);
      tile[slot] = Pairs<P>::of(lanes.descending ? ~rank : rank, at);
    }
  }
  sort_tile(tile, lanes.segment);
  for (uint32_t slot = threadIdx.x; slot < TILE_PAIRS; slot += blockDim.x) {
    if (lanes.tiles == 1) {
      uint32_t lane = blockIdx.x * per_block + slot / lanes.segment, at = slot % lanes.segment;
      if (lane < lanes.count && at < lanes.keep)
        write_kept(lanes, x, out, indices, lane, at, Pairs<P>::at(tile[slot]));
    } else {
      uint32_t at = blockIdx.x % lanes.tiles * TILE_PAIRS + slot;
      if (at < lanes.len) pairs[(int64_t)(blockIdx.x / lanes.tiles) * lanes.len + at] = tile[slot];
    }
  }
}

#define SORTS(P, E, suffix)                                                                                \
  KERNEL sort_lanes_##suffix(const E* x, E* out, int64_t* indices, P* pairs, Lanes lanes) {                \
    sort_lanes<P>(x, out, indices, pairs, lanes);                                                          \
  }                                                                                                        \
  EXPORT(sort_lanes_##suffix)                                                                              \
  KERNEL write_lanes_##suffix(const E* x, E* out, int64_t* indices, const P* pairs, Lanes lanes,           \
                              Divider keep) {                                                              \
    FOR_EACH_SHORT(i, lanes.count * lanes.keep) {                                                          \
      uint32_t lane = i, at = split(lane, keep);                                                           \
      write_kept(lanes, x, out, indices, lane, at, Pairs<P>::at(pairs[(int64_t)lane * lanes.len + at]));   \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(write_lanes_##suffix)
SORTS(ShortPair, float, f32)
SORTS(ShortPair, int32_t, i32)
SORTS(ShortPair, uint8_t, u8)
SORTS(LongPair, double, f64)
SORTS(LongPair, int64_t, i64)

// The extreme of each lane; the first one of equals. Not-a-number never wins, unless it stands in front:
// then nothing wins over it.
template <typename T> struct Best {
  T value;
  uint32_t at;
};
const uint32_t NOWHERE = ~0u;

template <typename T> INLINE bool beats(const Best<T>& a, const Best<T>& b, bool largest) {
  if (a.at == NOWHERE || b.at == NOWHERE) return b.at == NOWHERE && a.at != NOWHERE;
  if (a.value == b.value) return a.at < b.at;
  return largest ? a.value > b.value : a.value < b.value;
}

template <typename T>
INLINE Best<T> best_of(const T* x, int64_t step, uint32_t first, uint32_t len, uint32_t by, bool largest) {
  Best<T> best = {T(0), NOWHERE};
  for (uint32_t i = first; i < len; i += by) {
    Best<T> next = {x[(int64_t)i * step], i};
    if (next.value == next.value && beats(next, best, largest)) best = next;
  }
  return best;
}

INLINE void write_index(void* out, int32_t wide, uint32_t lane, uint32_t index) {
  if (wide) ((int64_t*)out)[lane] = index;
  else ((int32_t*)out)[lane] = (int32_t)index;
}

template <typename T>
INLINE void write_best(const T* x, const Best<T>& best, void* out, int32_t wide, uint32_t lane) {
  write_index(out, wide, lane, x[0] != x[0] || best.at == NOWHERE ? 0 : best.at);
}

template <typename T>
INLINE void extreme_of_block(const T* x, void* out, int32_t wide, int32_t largest, const Lanes& lanes) {
  __shared__ T values[1024];
  __shared__ uint32_t places[1024];
  uint32_t lane = blockIdx.x, i = threadIdx.x;
  x += start_of(lanes, lane, lanes.len);
  Best<T> best = best_of(x, lanes.inner.by, i, lanes.len, blockDim.x, largest);
  values[i] = best.value, places[i] = best.at;
  for (uint32_t half = blockDim.x / 2; half; half /= 2) {
    __syncthreads();
    if (i < half) {
      Best<T> other = {values[i + half], places[i + half]};
      if (beats(other, best, largest)) best = other;
      values[i] = best.value, places[i] = best.at;
    }
  }
  if (i == 0) write_best(x, best, out, wide, lane);
}

#define EXTREMES(T, suffix)                                                                                \
  KERNEL arg_extreme_##suffix(const T* x, void* out, int32_t wide, int32_t largest, Lanes lanes) {         \
    FOR_EACH_SHORT(lane, lanes.count) {                                                                    \
      const T* begin = x + start_of(lanes, lane, lanes.len);                                               \
      write_best(begin, best_of(begin, lanes.inner.by, 0, lanes.len, 1, largest), out, wide, lane);        \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(arg_extreme_##suffix)                                                                             \
  KERNEL __launch_bounds__(1024)                                                                           \
  arg_extreme_block_##suffix(const T* x, void* out, int32_t wide, int32_t largest, Lanes lanes) {          \
    extreme_of_block(x, out, wide, largest, lanes);                                                        \
  }                                                                                                        \
  EXPORT(arg_extreme_block_##suffix)
EXTREMES(float, f32)
EXTREMES(double, f64)
EXTREMES(int32_t, i32)
EXTREMES(int64_t, i64)
