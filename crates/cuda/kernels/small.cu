// Products of small matrices, which a library for large ones leaves most of a card idle with. A block computes a tile, and
// where there are few tiles its threads share the terms of each sum. `fc` has all of its gradient in one launch.
#include "activations.cuh"

FILE_OWN {

const int TILE_THREADS = 512;

/// A matrix that is read as it lies; elements of a row are neighbours.
template <typename E> struct Plain {
  static const bool ROWS_ARE_NEAR = false;
  const E* at;
  uint32_t pitch;
  INLINE float get(uint32_t row, uint32_t column) const { return load(at[row * pitch + column]); }
};

/// A matrix, transposed.
template <typename E> struct Turned {
  static const bool ROWS_ARE_NEAR = true;
  Plain<E> matrix;
  INLINE float get(uint32_t row, uint32_t column) const { return matrix.get(column, row); }
};

/// A matrix, transposed, with a row of ones behind its `rows` rows.
template <typename E> struct TurnedAndOnes {
  static const bool ROWS_ARE_NEAR = true;
  Plain<E> matrix;
  uint32_t rows;
  INLINE float get(uint32_t row, uint32_t column) const { return row < rows ? matrix.get(column, row) : 1.0f; }
};

/// The gradient of `fc` before its activation, from that behind it.
template <typename E> struct Masked {
  static const bool ROWS_ARE_NEAR = false;
  const E *dout, *out;
  uint32_t pitch;
  int32_t act;
  INLINE float get(uint32_t row, uint32_t column) const {
    float d = load(dout[row * pitch + column]);
    return out ? fc_slope((float)load(out[row * pitch + column]), d, act) : d;
  }
};

/// A product: `rows x terms` times `terms x columns`.
struct Sizes {
  uint32_t rows, columns, terms;
};

/// A tile of `R x C` elements, each the work of `S` threads, which have `TERMS` of its terms at hand at once.
template <int R, int C, int S, int TERMS> struct Tile {
  static const int ROWS = R, COLUMNS = C;
  // How factors lie in shared memory, so that threads which read or write together do so in different banks.
  static const int LEFT_PITCH = TERMS + 4, RIGHT_PITCH = C + 1, STEP = 4;
  static const int LEFT = R * TERMS / TILE_THREADS, RIGHT = C * TERMS / TILE_THREADS, SHARE = TERMS / S;

  /// What a thread loads of the next terms while the block adds up those before.
  template <typename A, typename B> struct Ahead {
    float left[LEFT], right[RIGHT];

    /// Row and term of the left factor, and term and column of the right one, of element `i` of this thread: neighbours
    /// in memory belong to neighbouring threads.
    static INLINE void left_place(int i, uint32_t& row, uint32_t& term) {
      uint32_t at = i * TILE_THREADS + threadIdx.x;
      row = A::ROWS_ARE_NEAR ? at % R : at / TERMS;
      term = A::ROWS_ARE_NEAR ? at / R : at % TERMS;
    }
    static INLINE void right_place(int i, uint32_t& term, uint32_t& column) {
      uint32_t at = i * TILE_THREADS + threadIdx.x;
      term = B::ROWS_ARE_NEAR ? at % TERMS : at / C;
      column = B::ROWS_ARE_NEAR ? at / TERMS : at % C;
    }

    INLINE void load_terms(const A& a, const B& b, uint32_t row, uint32_t column, uint32_t first,
                           const Sizes& of) {
      uint32_t r, c, term;
      UNROLL for (int i = 0; i < LEFT; i++) {
        left_place(i, r, term);
        left[i] = row + r < of.rows && first + term < of.terms ? a.get(row + r, first + term) : 0.0f;
      }
      UNROLL for (int i = 0; i < RIGHT; i++) {
        right_place(i, term, c);
        right[i] = column + c < of.columns && first + term < of.terms ? b.get(first + term, column + c) : 0.0f;
      }
    }
    INLINE void store_terms(float* lefts, float* rights) const {
      uint32_t r, c, term;
      UNROLL for (int i = 0; i < LEFT; i++) {
        left_place(i, r, term);
        lefts[r * LEFT_PITCH + term] = left[i];
      }
      UNROLL for (int i = 0; i < RIGHT; i++) {
        right_place(i, term, c);
        rights[term * RIGHT_PITCH + c] = right[i];
      }
    }
  };

  /// The element of the tile at (`row`, `column`) of `a * b` that is this thread's, if it has one: those below `R * C`
  /// have element `threadIdx.x % C` of row `threadIdx.x / C`. What the threads of an element found is added up in
  /// their order.
  template <typename A, typename B>
  static INLINE float product(const A& a, const B& b, uint32_t row, uint32_t column, const Sizes& of) {
    __shared__ Pack<float, STEP> left_packs[R * LEFT_PITCH / STEP];
    __shared__ float rights[TERMS * RIGHT_PITCH > TILE_THREADS ? TERMS * RIGHT_PITCH : TILE_THREADS];
    float* lefts = left_packs[0].at;
    uint32_t c = threadIdx.x % C, r = threadIdx.x / C % R, own = threadIdx.x / (R * C) * SHARE;
    float sum = 0.0f;
    Ahead<A, B> ahead;
    ahead.load_terms(a, b, row, column, 0, of);
    ROLLED for (uint32_t first = 0; first < of.terms; first += TERMS) {
      ahead.store_terms(lefts, rights);
      __syncthreads();
      if (first + TERMS < of.terms) ahead.load_terms(a, b, row, column, first + TERMS, of);
      if (first + own < of.terms) {
        UNROLL for (int step = 0; step < SHARE; step += STEP) {
          Pack<float, STEP> left = left_packs[(r * LEFT_PITCH + own + step) / STEP];
          UNROLL for (int i = 0; i < STEP; i++)
            sum += left.at[i] * rights[(own + step + i) * RIGHT_PITCH + c];
        }
      }
      __syncthreads();
    }
    if (S == 1) return sum;
    rights[threadIdx.x] = sum;
    __syncthreads();
    float total = 0.0f;
    if (threadIdx.x < R * C)
      UNROLL for (int share = 0; share < S; share++) total += rights[share * R * C + threadIdx.x];
    return total;
  }
};

// Few tiles of many terms, of fewer terms, and many tiles of few terms.
typedef Tile<4, 16, 8, 256> Deep;
typedef Tile<4, 16, 8, 128> Middle;
typedef Tile<8, 32, 2, 64> Flat;

/// What a launch of `small_product` knows of its matrices.
struct Small {
  Sizes sizes;
  uint32_t a_pitch, b_pitch, out_pitch;
  float alpha;
  int32_t act;
};

template <typename Tile, typename E, typename A, typename B>
INLINE void small_product(const A& a, const B& b, const E* bias, E* out, const Small& by) {
  uint32_t row = blockIdx.y * Tile::ROWS, column = blockIdx.x * Tile::COLUMNS;
  float sum = Tile::product(a, b, row, column, by.sizes);
  row += threadIdx.x / Tile::COLUMNS;
  column += threadIdx.x % Tile::COLUMNS;
  bool is_own = threadIdx.x < Tile::ROWS * Tile::COLUMNS;
  if (!is_own || row >= by.sizes.rows || column >= by.sizes.columns) return;
  float added = bias ? (float)load(bias[column]) : 0.0f;
  out[(size_t)row * by.out_pitch + column] = Store<E>::of(fc_act(by.alpha * sum + added, by.act));
}

/// What a launch of `small_fc_grad` knows: `rows x k` times `k x n` was the product of `fc`.
struct SmallGrad {
  uint32_t rows, k, n, x_pitch, dx_pitch;
  /// Blocks of the gradient of `X`, which come first.
  uint32_t dx_blocks;
  /// The activation, and the one that made `X`.
  int32_t act, x_act;
};

template <typename Tile>
INLINE void place_of(uint32_t block, const Sizes& of, uint32_t& row, uint32_t& column) {
  uint32_t below = (of.rows + Tile::ROWS - 1) / Tile::ROWS, beside = block / below;
  row = (block - beside * below) * Tile::ROWS;
  column = beside * Tile::COLUMNS;
}

template <typename Tile, typename E>
INLINE void small_fc_grad(const E* x, const E* w, const E* out, const E* dout, E* dx, E* dw, E* dbias,
                          const SmallGrad& by) {
  Masked<E> dz = {dout, out, by.n, by.act};
  uint32_t row, column;
  if (blockIdx.x < by.dx_blocks) {
    Sizes sizes = {by.rows, by.k, by.n};
    place_of<Tile>(blockIdx.x, sizes, row, column);
    Turned<E> turned = {{w, by.n}};
    float sum = Tile::product(dz, turned, row, column, sizes);
    row += threadIdx.x / Tile::COLUMNS;
    column += threadIdx.x % Tile::COLUMNS;
    bool is_own = threadIdx.x < Tile::ROWS * Tile::COLUMNS;
    if (!is_own || row >= by.rows || column >= by.k) return;
    if (by.x_act) sum = fc_slope((float)load(x[(size_t)row * by.x_pitch + column]), sum, by.x_act);
    dx[(size_t)row * by.dx_pitch + column] = Store<E>::of(sum);
    return;
  }
  // The bias is the weight of a last input that is always one.
  Sizes sizes = {by.k + 1, by.n, by.rows};
  place_of<Flat>(blockIdx.x - by.dx_blocks, sizes, row, column);
  TurnedAndOnes<E> turned = {{x, by.x_pitch}, by.k};
  float sum = Flat::product(turned, dz, row, column, sizes);
  row += threadIdx.x / Flat::COLUMNS;
  column += threadIdx.x % Flat::COLUMNS;
  if (threadIdx.x >= Flat::ROWS * Flat::COLUMNS || row > by.k || column >= by.n) return;
  E* to = row == by.k ? dbias : dw ? dw + (size_t)row * by.n : dw;
  if (to) to[column] = Store<E>::of(sum);
}

}  // own

#define SMALL(E, suffix, tile, Tile, turns, A, B)                                                          \
  KERNEL __launch_bounds__(TILE_THREADS) small_product_##tile##_##turns##_##suffix(                        \
      const E* a, const E* b, const E* bias, E* out, BY_VALUE Small by) { IN_TURN;                         \
    A<E> x = {a, by.a_pitch};                                                                              \
    B<E> y = {b, by.b_pitch};                                                                              \
    small_product<Tile, E>(x, y, bias, out, by);                                                           \
  }                                                                                                        \
  EXPORT(small_product_##tile##_##turns##_##suffix)
#define SMALL_TURNS(E, suffix, tile, Tile)                                                                 \
  SMALL(E, suffix, tile, Tile, nn, Plain, Plain)                                                           \
  SMALL(E, suffix, tile, Tile, nt, Plain, Turned)                                                          \
  SMALL(E, suffix, tile, Tile, tn, Turned, Plain)                                                          \
  SMALL(E, suffix, tile, Tile, tt, Turned, Turned)
#define SMALL_FC_GRAD(E, suffix, tile, Tile)                                                               \
  KERNEL __launch_bounds__(TILE_THREADS) small_fc_grad_##tile##_##suffix(                                  \
      const E* x, const E* w, const E* out, const E* dout, E* dx, E* dw, E* dbias,                         \
      BY_VALUE SmallGrad by) { IN_TURN;                                                                    \
    small_fc_grad<Tile, E>(x, w, out, dout, dx, dw, dbias, by);                                            \
  }                                                                                                        \
  EXPORT(small_fc_grad_##tile##_##suffix)
#define SMALL_KERNELS(E, suffix)             \
  SMALL_TURNS(E, suffix, deep, Deep)         \
  SMALL_TURNS(E, suffix, middle, Middle)     \
  SMALL_TURNS(E, suffix, flat, Flat)         \
  SMALL_FC_GRAD(E, suffix, deep, Deep)       \
  SMALL_FC_GRAD(E, suffix, middle, Middle)
SMALL_KERNELS(float, f32)
SMALL_KERNELS(bf16, bf16)
SMALL_KERNELS(f16, f16)
