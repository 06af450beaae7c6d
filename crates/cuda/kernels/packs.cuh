// Loops over elements that lie side by side. A thread moves 16 bytes at once where addresses allow it: with
// one element at a time a card does not keep enough loads under way to use its memory.
#pragma once
#include "prelude.cuh"

// A loop that is not unrolled: the rest of a loop over packs, which is rarely run and need not be compiled
// four times.
#ifdef EMULATED_CARD
#define ROLLED
#else
#define ROLLED _Pragma("unroll 1")
#endif
#define FOR_REST(i, start, n) \
  ROLLED for (int64_t i = (start) + thread_number(); i < (n); i += thread_count())

// Of each file that includes this: others may mean something else by the same names.
FILE_OWN {

/// Elements that are loaded and stored at once.
template <typename E, int N> struct Pack { E at[N]; };

/// How many elements of `E` that is.
template <typename E> struct Wide { static const int COUNT = 16 / sizeof(E); };

template <int BYTES> struct Words;
template <> struct Words<16> { typedef uint4 type; };
template <> struct Words<8> { typedef uint2 type; };
template <> struct Words<4> { typedef uint32_t type; };
template <> struct Words<2> { typedef uint16_t type; };
template <> struct Words<1> { typedef uint8_t type; };

template <int N, typename E> INLINE bool is_pack_aligned(const E* at) {
  return (uint64_t)at % (sizeof(E) * N) == 0;
}

template <int N, typename E> INLINE Pack<E, N> load_pack(const E* from) {
  typedef typename Words<sizeof(E) * N>::type W;
  W words = *(const W*)from;
  Pack<E, N> pack;
  memcpy(&pack, &words, sizeof(pack));
  return pack;
}

template <typename E, int N> INLINE void store_pack(E* to, const Pack<E, N>& pack) {
  typedef typename Words<sizeof(E) * N>::type W;
  W words;
  memcpy(&words, &pack, sizeof(pack));
  *(W*)to = words;
}

// What is left of a loop over packs goes element by element through the same code, which is then compiled
// once: as a pack of one element, of which only the first is stored. An operand that repeats is such a pack.
template <int N, typename E> INLINE Pack<E, N> load_unit(const E* from, bool is_pack) {
  if (is_pack) return load_pack<N>(from);
  Pack<E, N> pack;
  E one = *from;
  UNROLL for (int j = 0; j < N; j++) pack.at[j] = one;
  return pack;
}

template <typename E, int N> INLINE void store_unit(E* to, const Pack<E, N>& pack, bool is_pack) {
  if (is_pack) return store_pack(to, pack);
  *to = pack.at[0];
}

/// Writes `f(x)` for every element, `N` at once.
template <int N, typename E, typename R, typename F>
INLINE void map_each(const E* xs, R* out, int64_t n, F f) {
  int64_t packs = is_pack_aligned<N>(xs) && is_pack_aligned<N>(out) ? n / N : 0;
  ROLLED FOR_EACH(unit, packs + (n - packs * N)) {
    bool is_pack = unit < packs;
    int64_t i = is_pack ? unit * N : unit + packs * (N - 1);
    Pack<E, N> x = load_unit<N>(xs + i, is_pack);
    Pack<R, N> y;
    UNROLL for (int j = 0; j < N; j++) y.at[j] = Store<R>::of(f(load(x.at[j])));
    store_unit(out + i, y, is_pack);
  }
}

/// Writes `f(x, y)` for every pair of elements, `N` at once.
template <int N, typename E, typename F>
INLINE void map_pairs(const E* xs, const E* ys, E* out, int64_t n, F f) {
  bool is_aligned = is_pack_aligned<N>(xs) && is_pack_aligned<N>(ys) && is_pack_aligned<N>(out);
  int64_t packs = is_aligned ? n / N : 0;
  ROLLED FOR_EACH(unit, packs + (n - packs * N)) {
    bool is_pack = unit < packs;
    int64_t i = is_pack ? unit * N : unit + packs * (N - 1);
    Pack<E, N> x = load_unit<N>(xs + i, is_pack), y = load_unit<N>(ys + i, is_pack), z;
    UNROLL for (int j = 0; j < N; j++) z.at[j] = Store<E>::of(f(load(x.at[j]), load(y.at[j])));
    store_unit(out + i, z, is_pack);
  }
}

}  // own

/// What instantiates kernels for several element types: `KERNELS(…, type, suffix)`.
#define FOR_SINGLE_AND_DOUBLE(KERNELS, ...) \
  KERNELS(__VA_ARGS__, float, f32)          \
  KERNELS(__VA_ARGS__, double, f64)
#define FOR_HALVES(KERNELS, ...)    \
  KERNELS(__VA_ARGS__, bf16, bf16)  \
  KERNELS(__VA_ARGS__, f16, f16)
#define FOR_FLOATS(KERNELS, ...)              \
  FOR_SINGLE_AND_DOUBLE(KERNELS, __VA_ARGS__) \
  FOR_HALVES(KERNELS, __VA_ARGS__)
#define FOR_WHOLES(KERNELS, ...)        \
  KERNELS(__VA_ARGS__, int32_t, i32)    \
  KERNELS(__VA_ARGS__, int64_t, i64)
