// Products of small matrices, which a library for large ones leaves most of a card idle with: a block for each tile of
// 8 x 32 elements, whose warps share the sum among them. `fc` has all of its gradient in one launch.
#include "activations.cuh"

FILE_OWN {

const int TILE_ROWS = 8, SUM_WARPS = 16, SUM_THREADS = SUM_WARPS * WARP_SIZE;
// Terms of the sums that a block has at hand at once, and how they lie in shared memory, so that threads that read or
// write together do so in different banks.
const int TERMS = 256, LEFT_PITCH = TERMS + 4, RIGHT_PITCH = WARP_SIZE + 1, STEP = 4;

/// A matrix that is read as it lies; elements of a row are neighbours.
template <typename E> struct Plain {
  static const bool ROWS_ARE_NEAR = false;
  const E* at;
  int64_t pitch;
  INLINE float get(int64_t row, int64_t column) const { return load(at[row * pitch + column]); }
};

/// A matrix, transposed.
template <typename E> struct Turned {
  static const bool ROWS_ARE_NEAR = true;
  Plain<E> matrix;
  INLINE float get(int64_t row, int64_t column) const { return matrix.get(column, row); }
};

/// A matrix, transposed, with a row of ones behind its `rows` rows.
template <typename E> struct TurnedAndOnes {
  static const bool ROWS_ARE_NEAR = true;
  Plain<E> matrix;
  int64_t rows;
  INLINE float get(int64_t row, int64_t column) const { return row < rows ? matrix.get(column, row) : 1.0f; }
};

/// The gradient of `fc` before its activation, from that behind it.
template <typename E> struct Masked {
  static const bool ROWS_ARE_NEAR = false;
  const E *dout, *out;
  int64_t pitch;
  int32_t act;
  INLINE float get(int64_t row, int64_t column) const {
    float d = load(dout[row * pitch + column]);
    return out ? fc_slope((float)load(out[row * pitch + column]), d, act) : d;
  }
};

/// What a thread loads of the next terms while the block adds up those before.
template <typename A, typename B> struct Ahead {
  static const int LEFT = TILE_ROWS * TERMS / SUM_THREADS, RIGHT = WARP_SIZE * TERMS / SUM_THREADS;
  float left[LEFT], right[RIGHT];

  /// Row and term of the left tile, and term and column of the right one, of element `i` of this thread: neighbours
  /// in memory belong to neighbouring threads.
  static INLINE void left_place(int i, int& row, int& term) {
    int at = i * SUM_THREADS + threadIdx.x;
    row = A::ROWS_ARE_NEAR ? at % TILE_ROWS : at / TERMS;
    term = A::ROWS_ARE_NEAR ? at / TILE_ROWS : at % TERMS;
  }
  static INLINE void right_place(int i, int& term, int& column) {
    int at = i * SUM_THREADS + threadIdx.x;
    term = B::ROWS_ARE_NEAR ? at % TERMS : at / WARP_SIZE;
    column = B::ROWS_ARE_NEAR ? at / TERMS : at % WARP_SIZE;
  }

  INLINE void load_terms(const A& a, const B& b, int64_t row, int64_t column, int64_t rows, int64_t columns,
                         int64_t first, int64_t count) {
    int r, c, term;
    UNROLL for (int i = 0; i < LEFT; i++) {
      left_place(i, r, term);
      left[i] = row + r < rows && first + term < count ? a.get(row + r, first + term) : 0.0f;
    }
    UNROLL for (int i = 0; i < RIGHT; i++) {
      right_place(i, term, c);
      right[i] = column + c < columns && first + term < count ? b.get(first + term, column + c) : 0.0f;
    }
  }
  INLINE void store_terms(float* lefts, float* rights) const {
    int r, c, term;
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

/// The element of the tile of `a * b` at (`row`, `column`) that is this thread's, if it has one: those below 256 have
/// element `threadIdx.x % 32` of row `threadIdx.x / 32`. Terms are dealt out to the warps, whose sums are added up in
/// their order.
template <typename A, typename B>
INLINE float tile_product(const A& a, const B& b, int64_t row, int64_t column, int64_t rows, int64_t columns,
                          int64_t count) {
  __shared__ Pack<float, STEP> left_packs[TILE_ROWS * LEFT_PITCH / STEP];
  __shared__ float rights[TERMS * RIGHT_PITCH];
  float* lefts = left_packs[0].at;
  const int EACH = TERMS / SUM_WARPS;
  int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE;
  float sum[TILE_ROWS];
  UNROLL for (int r = 0; r < TILE_ROWS; r++) sum[r] = 0.0f;
  Ahead<A, B> ahead;
  ahead.load_terms(a, b, row, column, rows, columns, 0, count);
  ROLLED for (int64_t first = 0; first < count; first += TERMS) {
    ahead.store_terms(lefts, rights);
    __syncthreads();
    if (first + TERMS < count) ahead.load_terms(a, b, row, column, rows, columns, first + TERMS, count);
    if (first + warp * EACH < count) {
      UNROLL for (int step = 0; step < EACH; step += STEP) {
        int term = warp * EACH + step;
        float right[STEP];
        UNROLL for (int i = 0; i < STEP; i++) right[i] = rights[(term + i) * RIGHT_PITCH + lane];
        UNROLL for (int r = 0; r < TILE_ROWS; r++) {
          Pack<float, STEP> left = left_packs[(r * LEFT_PITCH + term) / STEP];
          UNROLL for (int i = 0; i < STEP; i++) sum[r] += left.at[i] * right[i];
        }
      }
    }
    __syncthreads();
  }
  float* sums = rights;
  UNROLL for (int r = 0; r < TILE_ROWS; r++) sums[(warp * TILE_ROWS + r) * WARP_SIZE + lane] = sum[r];
  __syncthreads();
  float total = 0.0f;
  if (threadIdx.x < TILE_ROWS * WARP_SIZE)
    UNROLL for (int w = 0; w < SUM_WARPS; w++) total += sums[w * TILE_ROWS * WARP_SIZE + threadIdx.x];
  return total;
}

/// What a launch of `small_product` knows of its matrices: `m x k` times `k x n`.
struct Small {
  int64_t m, n, k, a_pitch, b_pitch, out_pitch;
  double alpha;
  int32_t act, unused;
};

template <typename E, typename A, typename B>
INLINE void small_product(const A& a, const B& b, const E* bias, E* out, const Small& by) {
  int64_t row = (int64_t)blockIdx.y * TILE_ROWS, column = (int64_t)blockIdx.x * WARP_SIZE;
  float sum = tile_product(a, b, row, column, by.m, by.n, by.k);
  row += threadIdx.x / WARP_SIZE;
  column += threadIdx.x % WARP_SIZE;
  if (threadIdx.x >= TILE_ROWS * WARP_SIZE || row >= by.m || column >= by.n) return;
  float added = bias ? (float)load(bias[column]) : 0.0f;
  out[row * by.out_pitch + column] = Store<E>::of(fc_act((float)by.alpha * sum + added, by.act));
}

/// The matrices of the gradient of `fc`: `rows x k` times `k x n` was its product.
struct SmallGrad {
  int64_t rows, k, n, x_pitch, dx_pitch;
  /// Blocks of the gradient of `X`, which come first; those below one another of both gradients are neighbours.
  uint32_t dx_blocks;
  int32_t act;
};

template <typename E>
INLINE void small_fc_grad(const E* x, const E* w, const E* out, const E* dout, E* dx, E* dw, E* dbias,
                          const SmallGrad& by) {
  Masked<E> dz = {dout, out, by.n, by.act};
  bool is_of_x = blockIdx.x < by.dx_blocks;
  uint32_t block = is_of_x ? blockIdx.x : blockIdx.x - by.dx_blocks;
  // The bias is the weight of a last input that is always one.
  int64_t rows = is_of_x ? by.rows : by.k + 1, columns = is_of_x ? by.k : by.n;
  uint32_t below = (uint32_t)((rows + TILE_ROWS - 1) / TILE_ROWS), beside = block / below;
  int64_t row = (int64_t)(block - beside * below) * TILE_ROWS, column = (int64_t)beside * WARP_SIZE;
  float sum;
  if (is_of_x) {
    Turned<E> turned = {{w, by.n}};
    sum = tile_product(dz, turned, row, column, rows, columns, by.n);
  } else {
    TurnedAndOnes<E> turned = {{x, by.x_pitch}, by.k};
    sum = tile_product(turned, dz, row, column, rows, columns, by.rows);
  }
  row += threadIdx.x / WARP_SIZE;
  column += threadIdx.x % WARP_SIZE;
  if (threadIdx.x >= TILE_ROWS * WARP_SIZE || row >= rows || column >= columns) return;
  if (is_of_x) {
    dx[row * by.dx_pitch + column] = Store<E>::of(sum);
  } else if (row == by.k) {
    if (dbias) dbias[column] = Store<E>::of(sum);
  } else if (dw) {
    dw[row * by.n + column] = Store<E>::of(sum);
  }
}

}  // own

#define SMALL(E, suffix, turns, A, B)                                                                      \
  KERNEL __launch_bounds__(SUM_THREADS) small_product_##turns##_##suffix(                                  \
      const E* a, const E* b, const E* bias, E* out, BY_VALUE Small by) {                                  \
    A<E> x = {a, by.a_pitch};                                                                              \
    B<E> y = {b, by.b_pitch};                                                                              \
    small_product<E>(x, y, bias, out, by);                                                                 \
  }                                                                                                        \
  EXPORT(small_product_##turns##_##suffix)
#define SMALL_KERNELS(E, suffix)                                                                           \
  SMALL(E, suffix, nn, Plain, Plain)                                                                       \
  SMALL(E, suffix, nt, Plain, Turned)                                                                      \
  SMALL(E, suffix, tn, Turned, Plain)                                                                      \
  SMALL(E, suffix, tt, Turned, Turned)                                                                     \
  KERNEL __launch_bounds__(SUM_THREADS) small_fc_grad_##suffix(                                            \
      const E* x, const E* w, const E* out, const E* dout, E* dx, E* dw, E* dbias,                         \
      BY_VALUE SmallGrad by) {                                                                             \
    small_fc_grad<E>(x, w, out, dout, dx, dw, dbias, by);                                                  \
  }                                                                                                        \
  EXPORT(small_fc_grad_##suffix)
SMALL_KERNELS(float, f32)
SMALL_KERNELS(bf16, bf16)
SMALL_KERNELS(f16, f16)
