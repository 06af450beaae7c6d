// Random numbers, dropout, and orders drawn at random.
#include "philox.cuh"

/// `x * y + z` in two roundings, as the host does it.
INLINE float scaled(float x, float y, float z) { return __fadd_rn(__fmul_rn(x, y), z); }

template <typename E> struct Real { static INLINE E of(double x) { return Store<E>::of((float)x); } };
template <> struct Real<double> { static INLINE double of(double x) { return x; } };

// Four elements a thread: they share the words of a block. `first` is where the tensor begins in its stream.
#define FOR_EACH_BLOCK(block, first, n)                                                                    \
  for (uint64_t block = (first) / 4 + thread_number(); block * 4 < (first) + (n); block += thread_count())
#define FOR_EACH_OF_BLOCK(word, i, block, first, n)                                                        \
  for (int word = 0; word < 4; word++)                                                                     \
    if (uint64_t i = block * 4 + word - (first); i < (n))

#define DRAWS(E, suffix)                                                                                   \
  KERNEL uniform_##suffix(E* out, uint64_t n, uint64_t first, float low, float range, Draw draw,           \
                          const int64_t* step) {                                                           \
    Philox philox = philox_of(draw, step);                                                                 \
    FOR_EACH_BLOCK(block, first, n) {                                                                      \
      Words words = words_at(philox, block);                                                               \
      UNROLL FOR_EACH_OF_BLOCK(word, i, block, first, n)                                                   \
        out[i] = Store<E>::of(scaled(range, unit(words.at[word]), low));                                   \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(uniform_##suffix)                                                                                 \
  KERNEL gaussian_##suffix(E* out, uint64_t n, uint64_t first, double mean, double deviation, Draw draw,   \
                           const int64_t* step) {                                                          \
    Philox philox = philox_of(draw, step);                                                                 \
    FOR_EACH_BLOCK(block, first, n) {                                                                      \
      Words words = words_at(philox, block);                                                               \
      Normals low = normals_of(words.at[0], words.at[1]), high = normals_of(words.at[2], words.at[3]);      \
      float normals[4] = {low.even, low.odd, high.even, high.odd};                                         \
      UNROLL FOR_EACH_OF_BLOCK(word, i, block, first, n)                                                   \
        out[i] = Real<E>::of(mean + deviation * (double)normals[word]);                                    \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(gaussian_##suffix)                                                                                \
  KERNEL truncated_##suffix(E* out, uint64_t n, uint64_t first, double mean, double deviation, Draw draw,  \
                            const int64_t* step) {                                                         \
    Philox philox = philox_of(draw, step);                                                                 \
    FOR_EACH(i, (int64_t)n) out[i] = Real<E>::of(mean + deviation * truncated_at(philox, first + i));      \
  }                                                                                                        \
  EXPORT(truncated_##suffix)
DRAWS(float, f32)
DRAWS(double, f64)
DRAWS(bf16, bf16)
DRAWS(f16, f16)

// Whole numbers below `count` from `low` on; they go through a real number, as on the host.
#define INTEGERS(E, suffix)                                                                                \
  KERNEL randint_##suffix(E* out, int64_t n, int64_t low, uint64_t count, Draw draw, const int64_t* step) { \
    Philox philox = philox_of(draw, step);                                                                 \
    FOR_EACH(i, n) out[i] = (E)(double)(int64_t)((uint64_t)low + below(bits_at(philox, i), count));        \
  }                                                                                                        \
  EXPORT(randint_##suffix)
INTEGERS(float, f32)
INTEGERS(double, f64)
INTEGERS(int32_t, i32)
INTEGERS(int64_t, i64)

// Coins that fall with the probabilities that `x` holds.
#define COINS(E, suffix)                                                                                   \
  KERNEL bernoulli_##suffix(const E* x, E* out, uint64_t n, Draw draw, const int64_t* step,                \
                            Complaint* complaint, uint32_t op) {                                           \
    Philox philox = philox_of(draw, step);                                                                 \
    FOR_EACH_BLOCK(block, 0, n) {                                                                          \
      Words words = words_at(philox, block);                                                               \
      UNROLL FOR_EACH_OF_BLOCK(word, i, block, 0, n) {                                                     \
        double p = (double)x[i];                                                                           \
        if (p != p) complain(complaint, op, NOT_FINITE, 0, (int64_t)i, 0);                                 \
        else if (p < 0.0) complain(complaint, op, OUT_OF_RANGE, (int64_t)floor(p), (int64_t)i, 1);         \
        else if (p > 1.0) complain(complaint, op, OUT_OF_RANGE, (int64_t)ceil(p), (int64_t)i, 1);          \
        out[i] = (E)((double)unit(words.at[word]) < p);                                                    \
      }                                                                                                    \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(bernoulli_##suffix)
COINS(float, f32)
COINS(double, f64)

/// What dropout draws from: the op's own key, or a seed that a tensor holds.
struct Dropout {
  Draw draw;
  /// What the name of the output counts for.
  uint64_t hash;
  float drop;
  uint32_t unused;
  double scale;
};

INLINE Philox philox_of(const Dropout& dropout, const int32_t* seed, const int64_t* step) {
  // A seed of 0 says nothing.
  if (seed && *seed) return philox_of_seed(dropout.hash, (uint32_t)*seed);
  return philox_of(dropout.draw, step);
}

#define DROPOUTS(E, suffix)                                                                                \
  KERNEL dropout_##suffix(const E* x, E* out, uint8_t* mask, uint64_t n, Dropout dropout,                  \
                          const int32_t* seed, const int64_t* step) {                                      \
    typedef Math<E>::type T;                                                                               \
    Philox philox = philox_of(dropout, seed, step);                                                        \
    T scale = (T)dropout.scale;                                                                            \
    FOR_EACH_BLOCK(block, 0, n) {                                                                          \
      Words words = words_at(philox, block);                                                               \
      UNROLL FOR_EACH_OF_BLOCK(word, i, block, 0, n) {                                                     \
        bool is_kept = unit(words.at[word]) >= dropout.drop;                                               \
        out[i] = Store<E>::of(is_kept ? load(x[i]) * scale : T(0));                                        \
        if (mask) mask[i] = is_kept;                                                                       \
      }                                                                                                    \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(dropout_##suffix)                                                                                 \
  /* By a mask, or all of them. */                                                                         \
  KERNEL dropout_scale_##suffix(const E* x, const uint8_t* mask, E* out, int64_t n, double scale) {        \
    typedef Math<E>::type T;                                                                               \
    FOR_EACH(i, n) out[i] = Store<E>::of((mask ? (T)mask[i] : T(1)) * load(x[i]) * (T)scale);              \
  }                                                                                                        \
  EXPORT(dropout_scale_##suffix)
DROPOUTS(float, f32)
DROPOUTS(double, f64)
DROPOUTS(bf16, bf16)
DROPOUTS(f16, f16)

KERNEL fill_ones(uint8_t* out, int64_t n) { FOR_EACH(i, n) out[i] = 1; }
EXPORT(fill_ones)

// Fisher and Yates: numbers are drawn by all threads, and swapped by one, as each swap follows the others.
const int MOST_SHUFFLED = 11264;
INLINE void shuffle(const Philox& philox, uint16_t* order, uint16_t* with, int count) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    order[i] = (uint16_t)i;
    with[i] = (uint16_t)below(bits_at(philox, i), (uint64_t)i + 1);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int last = count - 1; last > 0; last--) {
      uint16_t swapped = order[last];
      order[last] = order[with[last]];
      order[with[last]] = swapped;
    }
  }
  __syncthreads();
}

#define PERMUTATIONS(E, suffix)                                                                            \
  KERNEL randperm_##suffix(E* out, int32_t count, Draw draw, const int64_t* step) {                        \
    __shared__ uint16_t order[MOST_SHUFFLED], with[MOST_SHUFFLED];                                         \
    shuffle(philox_of(draw, step), order, with, count);                                                    \
    for (int i = threadIdx.x; i < count; i += blockDim.x) out[i] = (E)order[i];                            \
  }                                                                                                        \
  EXPORT(randperm_##suffix)
PERMUTATIONS(float, f32)
PERMUTATIONS(double, f64)
PERMUTATIONS(int32_t, i32)
PERMUTATIONS(int64_t, i64)

// Where each row of a batch goes. A seed in a tensor is the key, and the next one follows from it as in the
// standard library of C++; without one the step decides.
struct Shuffle {
  Draw draw;
  uint64_t hash;
  int64_t startup;
};
KERNEL shuffle_rows(int64_t* index, int32_t count, const int64_t* seed, int64_t* next_seed, Shuffle shuffled,
                    const int64_t* step) {
  __shared__ uint16_t order[MOST_SHUFFLED], with[MOST_SHUFFLED];
  int64_t key = seed ? *seed : shuffled.startup;
  // Everybody has read the seed before it is overwritten.
  __syncthreads();
  Philox philox = seed ? philox_of_seed(shuffled.hash, (uint64_t)key) : philox_of(shuffled.draw, step);
  shuffle(philox, order, with, count);
  for (int i = threadIdx.x; i < count; i += blockDim.x) index[i] = order[i];
  if (threadIdx.x == 0 && next_seed) {
    const int64_t modulus = (1ll << 31) - 1;
    int64_t rest = (key % modulus + modulus) % modulus;
    *next_seed = 16807 * (rest > 1 ? rest : 1) % modulus;
  }
}
EXPORT(shuffle_rows)
