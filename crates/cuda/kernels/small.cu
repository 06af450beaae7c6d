// Products of small matrices, which a library for large ones leaves most of a card idle with: a block for each tile of
// 8 x 32 elements, whose warps share the sum among them. `fc` has all of its gradient in one launch.
#include "activations.cuh"

FILE_OWN {

const int TILE_ROWS = 8, SUM_WARPS = 16, SUM_THREADS = SUM_WARPS * WARP_SIZE, STEP = 4;

/// A matrix that is read as it lies.
template <typename E> struct Plain {
  typedef typename Math<E>::type T;
  const E* at;
  int64_t pitch;
  INLINE T get(int64_t row, int64_t column) const { return T(load(at[row * pitch + column])); }
};

/// The gradient of `fc` before its activation, from that behind it.
template <typename E> struct Masked {
  typedef typename Math<E>::type T;
  const E *dout, *out;
  int64_t pitch;
  int32_t act;
  INLINE T get(int64_t row, int64_t column) const {
    T d = T(load(dout[row * pitch + column]));
    return out ? fc_slope(T(load(out[row * pitch + column])), d, act) : d;
  }
};

/// A matrix, transposed.
template <typename E> struct Turned {
  typedef typename Math<E>::type T;
  Plain<E> matrix;
  INLINE T get(int64_t row, int64_t column) const { return matrix.get(column, row); }
};

/// A matrix, transposed, with a row of ones behind its `rows` rows.
template <typename E> struct TurnedAndOnes {
  typedef typename Math<E>::type T;
  Plain<E> matrix;
  int64_t rows;
  INLINE T get(int64_t row, int64_t column) const { return row < rows ? matrix.get(column, row) : T(1); }
};

/// The element of tile (`row`, `column`) of `a * b` that is this thread's, if it has one: threads below 256 have those of
/// row `threadIdx.x / 32`. Columns of `a` and rows of `b` are dealt out to the warps, whose sums are added up in their
/// order.
template <typename A, typename B>
INLINE typename A::T tile_product(const A& a, const B& b, int64_t row, int64_t column, int64_t rows,
                                  int64_t columns, int64_t count) {
  typedef typename A::T T;
  __shared__ T sums[SUM_WARPS][TILE_ROWS][WARP_SIZE];
  int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE;
  int64_t share = (count + SUM_WARPS * STEP - 1) / (SUM_WARPS * STEP) * STEP;
  int64_t first = warp * share, end = first + share < count ? first + share : count;
  int64_t mine = column + lane;
  T sum[TILE_ROWS];
  UNROLL for (int r = 0; r < TILE_ROWS; r++) sum[r] = T(0);
  for (int64_t k = first; k < end; k += STEP) {
    T left[TILE_ROWS][STEP], right[STEP];
    UNROLL for (int i = 0; i < STEP; i++) {
      bool is_there = k + i < end;
      right[i] = is_there && mine < columns ? b.get(k + i, mine) : T(0);
      UNROLL for (int r = 0; r < TILE_ROWS; r++)
        left[r][i] = is_there && row + r < rows ? a.get(row + r, k + i) : T(0);
    }
    UNROLL for (int i = 0; i < STEP; i++)
      UNROLL for (int r = 0; r < TILE_ROWS; r++) sum[r] += left[r][i] * right[i];
  }
  UNROLL for (int r = 0; r < TILE_ROWS; r++) sums[warp][r][lane] = sum[r];
  __syncthreads();
  T total = T(0);
  if (threadIdx.x < TILE_ROWS * WARP_SIZE)
    UNROLL for (int w = 0; w < SUM_WARPS; w++) total += sums[w][threadIdx.x / WARP_SIZE][lane];
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
  typedef typename Math<E>::type T;
  int64_t row = (int64_t)blockIdx.y * TILE_ROWS, column = (int64_t)blockIdx.x * WARP_SIZE;
  T sum = tile_product(a, b, row, column, by.m, by.n, by.k);
  row += threadIdx.x / WARP_SIZE;
  column += threadIdx.x % WARP_SIZE;
  if (threadIdx.x >= TILE_ROWS * WARP_SIZE || row >= by.m || column >= by.n) return;
  T added = bias ? T(load(bias[column])) : T(0);
  out[row * by.out_pitch + column] = Store<E>::of(fc_act(T(by.alpha) * sum + added, by.act));
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
  typedef typename Math<E>::type T;
  Masked<E> dz = {dout, out, by.n, by.act};
  bool is_of_x = blockIdx.x < by.dx_blocks;
  uint32_t block = is_of_x ? blockIdx.x : blockIdx.x - by.dx_blocks;
  // The bias is the weight of a last input that is always one.
  int64_t rows = is_of_x ? by.rows : by.k + 1, columns = is_of_x ? by.k : by.n;
  uint32_t below = (uint32_t)((rows + TILE_ROWS - 1) / TILE_ROWS), beside = block / below;
  int64_t row = (int64_t)(block - beside * below) * TILE_ROWS, column = (int64_t)beside * WARP_SIZE;
  T sum;
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
ALL_FLOATS(SMALL_KERNELS)
