// Sorting pairs of a key and a position: tiles in shared memory, then runs merged two by two.
//
// A position makes each pair unlike all others, so there is one order, and equal keys keep theirs.
#pragma once
#include "walk.cuh"

const uint32_t TILE_PAIRS = 2048;

/// A key of 32 bits above its position; or one of 64 bits beside it.
typedef uint64_t ShortPair;
struct LongPair {
  uint64_t key;
  uint32_t at, unused;
};

template <typename P> struct Pairs;
template <> struct Pairs<ShortPair> {
  static INLINE ShortPair of(uint32_t key, uint32_t at) { return (uint64_t)key << 32 | at; }
  static INLINE uint32_t at(ShortPair pair) { return (uint32_t)pair; }
  /// Comes behind all others.
  static INLINE ShortPair last() { return ~0ull; }
};
template <> struct Pairs<LongPair> {
  static INLINE LongPair of(uint64_t key, uint32_t at) { return LongPair{key, at, 0}; }
  static INLINE uint32_t at(LongPair pair) { return pair.at; }
  static INLINE LongPair last() { return LongPair{~0ull, ~0u, 0}; }
};

INLINE uint32_t key_of(ShortPair pair) { return (uint32_t)(pair >> 32); }
INLINE bool comes_before(ShortPair a, ShortPair b) { return a < b; }
INLINE bool comes_before(const LongPair& a, const LongPair& b) {
  return a.key != b.key ? a.key < b.key : a.at < b.at;
}

/// Sorts each `segment` (a power of two) of a tile; all threads of the block take part.
template <typename P> INLINE void sort_tile(P* tile, uint32_t segment) {
  __syncthreads();
  for (uint32_t size = 2; size <= segment; size *= 2) {
    for (uint32_t gap = size / 2; gap; gap /= 2) {
      for (uint32_t i = threadIdx.x; i < TILE_PAIRS / 2; i += blockDim.x) {
        uint32_t low = 2 * i - (i & (gap - 1)), high = low + gap;
        // Runs go up and down in turn, but whole segments up.
        bool up = (low & size & (segment - 1)) == 0;
        P a = tile[low], b = tile[high];
        if (comes_before(b, a) == up) tile[low] = b, tile[high] = a;
      }
      __syncthreads();
    }
  }
}

/// Merges sorted runs of `run` pairs (a power of two) in lanes of `len`: each pair goes as far as there are
/// pairs in front of it in its own run and in the one beside it.
template <typename P>
INLINE void merge_runs(const P* from, P* to, uint32_t count, const Divider& len, uint32_t run) {
  FOR_EACH_SHORT(i, count) {
    uint32_t lane = i, at = split(lane, len), begin = i - at;
    uint32_t own = at & ~(run - 1), beside = own ^ run, target = at;
    P pair = from[i];
    if (beside < len.by) {
      uint32_t low = beside, high = beside + run < len.by ? beside + run : len.by;
      while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (comes_before(from[begin + middle], pair)) low = middle + 1;
        else high = middle;
      }
      target = (own < beside ? own : beside) + (at - own) + (low - beside);
    }
    to[begin + target] = pair;
  }
}
