// Counter-based random numbers, the same as the host draws: Philox 4x32-10 (Salmon et al., 2011). See
// `random.rs` of the engine: a number depends on its key, the step and its position alone.
#pragma once
#include "walk.cuh"

/// What a random op draws from.
struct Draw {
  /// The key made of seed and name; or, where the seed lies in a tensor, what the name counts for.
  uint64_t key;
  /// Whether every step draws the same numbers.
  uint32_t is_fixed, unused;
};

struct Philox {
  uint64_t key, stream;
};
struct Words {
  uint32_t at[4];
};

INLINE uint64_t mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/// The numbers of this step.
INLINE Philox philox_of(const Draw& draw, const int64_t* step) {
  return Philox{draw.key, draw.is_fixed ? 0 : (uint64_t)*step};
}

/// The numbers of a seed that was found in a tensor, for a variable whose name counts `hash`.
INLINE Philox philox_of_seed(uint64_t hash, uint64_t seed) { return Philox{mix(hash ^ mix(seed)), 0}; }

/// The four words at position `block` of the stream.
INLINE Words words_at(const Philox& philox, uint64_t block) {
  uint32_t a = (uint32_t)block, b = (uint32_t)(block >> 32);
  uint32_t c = (uint32_t)philox.stream, d = (uint32_t)(philox.stream >> 32);
  uint32_t low = (uint32_t)philox.key, high = (uint32_t)(philox.key >> 32);
  UNROLL for (int round = 0; round < 10; round++) {
    uint64_t first = (uint64_t)a * 0xd2511f53u, second = (uint64_t)c * 0xcd9e8d57u;
    a = (uint32_t)(second >> 32) ^ b ^ low;
    b = (uint32_t)second;
    c = (uint32_t)(first >> 32) ^ d ^ high;
    d = (uint32_t)first;
    low += 0x9e3779b9u;
    high += 0xbb67ae85u;
  }
  return Words{{a, b, c, d}};
}

/// 24 random bits as a number in [0, 1).
INLINE float unit(uint32_t word) { return (float)(word >> 8) * 5.9604644775390625e-8f; }

/// Element `index` of the stream as 64 bits.
INLINE uint64_t bits_at(const Philox& philox, uint64_t index) {
  Words words = words_at(philox, index / 2);
  uint64_t first = (uint64_t)words.at[1] << 32 | words.at[0];
  uint64_t second = (uint64_t)words.at[3] << 32 | words.at[2];
  return index % 2 ? second : first;
}

/// The two independent normals, of mean 0 and variance 1, that a pair of words gives (Box and Muller).
struct Normals {
  float even, odd;
};
static __device__ __noinline__ Normals normals_of(uint32_t first, uint32_t second) {
  double radius = sqrt(-2.0 * log(1.0 - (double)unit(first)));
  double angle = 6.283185307179586476925286766559 * (double)unit(second);
  return Normals{(float)(radius * cos(angle)), (float)(radius * sin(angle))};
}

/// Element `index` of the stream, normal.
INLINE float normal_at(const Philox& philox, uint64_t index) {
  Words words = words_at(philox, index / 4);
  bool is_second = index % 4 >= 2;
  Normals normals = normals_of(is_second ? words.at[2] : words.at[0], is_second ? words.at[3] : words.at[1]);
  return index % 2 ? normals.odd : normals.even;
}

/// Element `index`, normal but within two deviations: a draw outside is replaced by one from far away.
INLINE double truncated_at(const Philox& philox, uint64_t index) {
  ROLLED for (uint64_t attempt = 0; attempt < 16; attempt++) {
    float x = normal_at(philox, index + (attempt << 40));
    if (x <= 2.0f && x >= -2.0f) return x;
  }
  return 0.0;
}

/// A number below `bound` from 64 random bits: the upper half of their product.
INLINE uint64_t below(uint64_t bits, uint64_t bound) { return __umul64hi(bits, bound); }
