// Products that a library for large matrices is slow at: with a vector, of two vectors, and what `fc` needs
// around its products.
#include "activations.cuh"

FILE_OWN {

/// `out[row] = act(alpha * (a[row] · b) + bias)`, with another `b` for every `rows_per_b` rows.
template <typename E, int LANES, typename O>
INLINE void dot_rows(const E* a, const E* b, const E* bias, O* out, int64_t rows, int64_t width,
                     int64_t rows_per_b, double alpha, int32_t act) {
  typedef typename Math<E>::type T;
  const int ROWS = BLOCK / LANES;
  int lane = threadIdx.x % LANES;
  // All lanes of a warp stay in the loop, for the shuffles.
  for (int64_t base = (int64_t)blockIdx.x * ROWS; base < rows; base += (int64_t)gridDim.x * ROWS) {
    int64_t row = base + threadIdx.x / LANES;
    T sum = T(0);
    if (row < rows) {
      // A division of 64 bits costs as much as a short row.
      int64_t other = rows_per_b < rows ? row / rows_per_b : 0;
      const E *x = a + row * width, *y = b + other * width;
      for (int64_t i = lane; i < width; i += LANES) sum += T(load(x[i])) * T(load(y[i]));
    }
    for (int with = LANES / 2; with; with >>= 1) sum += __shfl_xor_sync(ALL_LANES, sum, with);
    if (row < rows && lane == 0) {
      T added = bias ? T(load(bias[0])) : T(0);
      out[row] = Store<O>::of(fc_act(T(alpha) * sum + added, act));
    }
  }
}

/// `out[i, j] = alpha * a[i] * b[j]`
template <typename E> INLINE void outer(const E* a, const E* b, E* out, int64_t n, uint32_t columns,
                                        double alpha) {
  typedef typename Math<E>::type T;
  FOR_EACH(i, n) {
    uint32_t row = (uint32_t)i / columns, column = (uint32_t)i - row * columns;
    out[i] = Store<E>::of(T(alpha) * T(load(a[row])) * T(load(b[column])));
  }
}

/// For every chunk of rows and every column, the sum of `x[row, column] * weights[row]`; all weights are 1
/// when there are none.
template <typename E>
INLINE void column_dot(const E* x, const E* weights, typename Math<E>::type* partials, int64_t rows,
                       int64_t columns, int64_t pitch, int64_t rows_per_chunk) {
  typedef typename Math<E>::type T;
  TileRows tile(rows, rows_per_chunk);
  T sum = T(0);
  if (tile.column < columns)
    for (int64_t row = tile.first; row < tile.end; row += TILE_LANES)
      sum += T(load(x[row * pitch + tile.column])) * (weights ? T(load(weights[row])) : T(1));
  tile_sum<1>(&sum);
  if (threadIdx.x < TILE && tile.column < columns) partials[blockIdx.y * columns + tile.column] = sum;
}

/// Column sums of chunks, and where the sums over all chunks go: those of the columns below `split` to `first`, the
/// others to `second`.
template <typename E> struct Unfinished {
  const typename Math<E>::type* partials;
  E *first, *second;
};
struct UnfinishedShape {
  int64_t chunks, width, split;
  double scale;
  uint32_t first_block, unused;
};
const int MANY_SUMS = 32;
template <typename E, int MAX> struct AllUnfinished {
  Unfinished<E> of[MAX];
};
template <int MAX> struct UnfinishedShapes {
  UnfinishedShape of[MAX];
};

/// Adds up the chunks of one or more matrices.
template <typename E, int MAX>
INLINE void finish_columns(const AllUnfinished<E, MAX>& all, const UnfinishedShapes<MAX>& shapes,
                           uint32_t count) {
  typedef typename Math<E>::type T;
  uint32_t which = 0;
  while (which + 1 < count && blockIdx.x >= shapes.of[which + 1].first_block) which++;
  const Unfinished<E>& sums = all.of[which];
  const UnfinishedShape& shape = shapes.of[which];
  int64_t column = (int64_t)(blockIdx.x - shape.first_block) * TILE + threadIdx.x % TILE;
  T sum = T(0);
  if (column < shape.width)
    for (int64_t chunk = threadIdx.x / TILE; chunk < shape.chunks; chunk += TILE_LANES)
      sum += sums.partials[chunk * shape.width + column];
  tile_sum<1>(&sum);
  if (threadIdx.x >= TILE || column >= shape.width) return;
  E* to = column < shape.split ? sums.first : sums.second;
  if (to) to[column < shape.split ? column : column - shape.split] = Store<E>::of(T(shape.scale) * sum);
}

/// `out[o, i]` is the sum of `x[o, ., i]` over its `count` elements.
template <typename E>
INLINE void sum_middle(const E* x, E* out, int64_t n, int64_t count, int64_t inner) {
  typedef typename Math<E>::type T;
  FOR_EACH(i, n) {
    int64_t outside = i / inner;
    const E* from = x + outside * count * inner + (i - outside * inner);
    T sum = T(0);
    for (int64_t at = 0; at < count; at++) sum += T(load(from[at * inner]));
    out[i] = Store<E>::of(sum);
  }
}

/// The gradient of `fc` before its activation, `dz`, and its column sums for every chunk of rows. Without
/// `out` there is no activation; without `dz` it is summed only.
template <typename E, int PACK>
INLINE void fc_mask(const E* out, const E* dout, E* dz, typename Math<E>::type* partials, int64_t rows,
                    int64_t columns, int64_t rows_per_chunk, int32_t act) {
  typedef typename Math<E>::type T;
  typedef Pack<E, PACK> Packed;
  TileRows tile(rows, rows_per_chunk);
  int64_t packs = columns / PACK;
  T sums[PACK];
  UNROLL for (int i = 0; i < PACK; i++) sums[i] = T(0);
  if (tile.column < packs) {
    for (int64_t row = tile.first; row < tile.end; row += TILE_LANES) {
      int64_t at = row * packs + tile.column;
      Packed d = ((const Packed*)dout)[at], y = d, z;
      if (out) y = ((const Packed*)out)[at];
      UNROLL for (int i = 0; i < PACK; i++) {
        T slope = T(load(d.at[i]));
        if (out) slope = fc_slope(T(load(y.at[i])), slope, act);
        sums[i] += slope;
        z.at[i] = Store<E>::of(slope);
      }
      if (dz) ((Packed*)dz)[at] = z;
    }
  }
  tile_sum<PACK>(sums);
  if (partials && threadIdx.x < TILE && tile.column < packs)
    UNROLL for (int i = 0; i < PACK; i++) partials[blockIdx.y * columns + tile.column * PACK + i] = sums[i];
}

/// All gradients of an `fc` of one column: `dx`, and the sums for `dw` and, behind them, the bias. `dx` is taken through the
/// activation `x_act` that made `x`.
template <typename E, typename D>
INLINE void fc_narrow_grad(const E* x, const E* w, const E* out, const D* dout, E* dx,
                           typename Math<E>::type* partials, int64_t rows, int64_t width,
                           int64_t rows_per_chunk, int32_t act, int32_t x_act) {
  typedef typename Math<E>::type T;
  TileRows tile(rows, rows_per_chunk);
  T sum = T(0);
  if (tile.column <= width) {
    // The bias is the weight of a last column of ones.
    bool is_bias = tile.column == width;
    T weight = is_bias ? T(0) : T(load(w[tile.column]));
    for (int64_t row = tile.first; row < tile.end; row += TILE_LANES) {
      T d = T(load(dout[row]));
      if (out) d = fc_slope(T(load(out[row])), d, act);
      int64_t at = row * width + tile.column;
      T input = is_bias ? T(1) : T(load(x[at]));
      sum += d * input;
      if (dx && !is_bias) dx[at] = Store<E>::of(fc_slope(input, d * weight, x_act));
    }
  }
  tile_sum<1>(&sum);
  if (threadIdx.x < TILE && tile.column <= width) partials[blockIdx.y * (width + 1) + tile.column] = sum;
}

}  // own

#define PRODUCT_KERNELS(E, suffix)                                                                         \
  KERNEL dot_rows_8_##suffix(const E* a, const E* b, const E* bias, E* out, int64_t rows, int64_t width,   \
                             int64_t rows_per_b, double alpha, int32_t act) { IN_TURN;                     \
    dot_rows<E, 8, E>(a, b, bias, out, rows, width, rows_per_b, alpha, act);                               \
  }                                                                                                        \
  EXPORT(dot_rows_8_##suffix)                                                                              \
  KERNEL dot_rows_32_##suffix(const E* a, const E* b, const E* bias, E* out, int64_t rows, int64_t width,  \
                              int64_t rows_per_b, double alpha, int32_t act) { IN_TURN;                    \
    dot_rows<E, 32, E>(a, b, bias, out, rows, width, rows_per_b, alpha, act);                              \
  }                                                                                                        \
  EXPORT(dot_rows_32_##suffix)                                                                             \
  KERNEL outer_##suffix(const E* a, const E* b, E* out, int64_t n, int64_t columns, double alpha) { IN_TURN; \
    outer<E>(a, b, out, n, (uint32_t)columns, alpha);                                                      \
  }                                                                                                        \
  EXPORT(outer_##suffix)                                                                                   \
  KERNEL column_dot_##suffix(const E* x, const E* weights, Math<E>::type* partials, int64_t rows,          \
                             int64_t columns, int64_t pitch, int64_t rows_per_chunk) { IN_TURN;            \
    column_dot<E>(x, weights, partials, rows, columns, pitch, rows_per_chunk);                             \
  }                                                                                                        \
  EXPORT(column_dot_##suffix)                                                                              \
  KERNEL finish_columns_##suffix(BY_VALUE AllUnfinished<E, 1> all, BY_VALUE UnfinishedShapes<1> shapes,     \
                                 uint32_t count) { IN_TURN;                                                \
    finish_columns<E, 1>(all, shapes, count);                                                              \
  }                                                                                                        \
  EXPORT(finish_columns_##suffix)                                                                          \
  KERNEL finish_many_columns_##suffix(BY_VALUE AllUnfinished<E, MANY_SUMS> all,                            \
                                      BY_VALUE UnfinishedShapes<MANY_SUMS> shapes, uint32_t count) { IN_TURN; \
    finish_columns<E, MANY_SUMS>(all, shapes, count);                                                      \
  }                                                                                                        \
  EXPORT(finish_many_columns_##suffix)                                                                     \
  KERNEL sum_middle_##suffix(const E* x, E* out, int64_t n, int64_t count, int64_t inner) { IN_TURN;       \
    sum_middle<E>(x, out, n, count, inner);                                                                \
  }                                                                                                        \
  EXPORT(sum_middle_##suffix)                                                                              \
  KERNEL fc_mask_1_##suffix(const E* out, const E* dout, E* dz, Math<E>::type* partials, int64_t rows,     \
                            int64_t columns, int64_t rows_per_chunk, int32_t act) { IN_TURN;               \
    fc_mask<E, 1>(out, dout, dz, partials, rows, columns, rows_per_chunk, act);                            \
  }                                                                                                        \
  EXPORT(fc_mask_1_##suffix)                                                                               \
  KERNEL fc_mask_4_##suffix(const E* out, const E* dout, E* dz, Math<E>::type* partials, int64_t rows,     \
                            int64_t columns, int64_t rows_per_chunk, int32_t act) { IN_TURN;               \
    fc_mask<E, 4>(out, dout, dz, partials, rows, columns, rows_per_chunk, act);                            \
  }                                                                                                        \
  EXPORT(fc_mask_4_##suffix)                                                                               \
  NARROW_GRAD(E, suffix, E, )
#define NARROW_GRAD(E, suffix, D, from)                                                                    \
  KERNEL fc_narrow_grad_##suffix##from(const E* x, const E* w, const E* out, const D* dout, E* dx,         \
                                       Math<E>::type* partials, int64_t rows, int64_t width,               \
                                       int64_t rows_per_chunk, int32_t act, int32_t x_act) { IN_TURN;      \
    fc_narrow_grad<E, D>(x, w, out, dout, dx, partials, rows, width, rows_per_chunk, act, x_act);          \
  }                                                                                                        \
  EXPORT(fc_narrow_grad_##suffix##from)
ALL_FLOATS(PRODUCT_KERNELS)

// An `fc` of 16 bits whose only column is of 32: the logit before a loss.
#define DOT_TO_WIDE(E, suffix, LANES)                                                                      \
  KERNEL dot_rows_##LANES##_##suffix##_to_f32(const E* a, const E* b, const E* bias, float* out,           \
                                              int64_t rows, int64_t width, int64_t rows_per_b,             \
                                              double alpha, int32_t act) { IN_TURN;                        \
    dot_rows<E, LANES, float>(a, b, bias, out, rows, width, rows_per_b, alpha, act);                       \
  }                                                                                                        \
  EXPORT(dot_rows_##LANES##_##suffix##_to_f32)
#define WIDE_LOGIT(E, suffix)                 \
  DOT_TO_WIDE(E, suffix, 8)                   \
  DOT_TO_WIDE(E, suffix, 32)                  \
  NARROW_GRAD(E, suffix, float, _from_f32)
WIDE_LOGIT(bf16, bf16)
WIDE_LOGIT(f16, f16)

FILE_OWN {

/// `dot`: inner products of rows, of any numbers.
template <typename E> INLINE void dot_pairs(const E* x, const E* y, E* out, int64_t rows, int64_t width) {
  typedef typename Math<E>::type T;
  typedef Team<WARP_SIZE> Warp;
  FOR_EACH_ROW(Warp, row, rows) {
    T sum = T(0);
    for (int64_t i = Warp::rank(); i < width; i += WARP_SIZE)
      sum += T(load(x[row * width + i])) * T(load(y[row * width + i]));
    sum = warp_sum(sum);
    if (Warp::rank() == 0) out[row] = Store<E>::of(sum);
  }
}

}  // own
#define DOT_KERNELS(E, suffix)                                                                             \
  KERNEL dot_##suffix(const E* x, const E* y, E* out, int64_t rows, int64_t width) { IN_TURN;              \
    dot_pairs<E>(x, y, out, rows, width);                                                                  \
  }                                                                                                        \
  EXPORT(dot_##suffix)
ALL_FLOATS(DOT_KERNELS)
DOT_KERNELS(int32_t, i32)
DOT_KERNELS(int64_t, i64)

/// The gradients of `dot`: the other operand, each row times its product's gradient.
#define DOT_GRAD_KERNELS(E, suffix)                                                                        \
  KERNEL dot_grad_##suffix(const E* x, const E* y, const E* ds, E* dx, E* dy, int64_t n, int64_t width) { IN_TURN; \
    typedef Math<E>::type T;                                                                               \
    FOR_EACH(i, n) {                                                                                       \
      T d = T(load(ds[(uint32_t)i / (uint32_t)width]));                                                    \
      if (dx) dx[i] = Store<E>::of(T(load(y[i])) * d);                                                     \
      if (dy) dy[i] = Store<E>::of(T(load(x[i])) * d);                                                     \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(dot_grad_##suffix)
ALL_FLOATS(DOT_GRAD_KERNELS)

FILE_OWN {

/// `cos_sim`: the cosine of the angle between rows; `y` has as many rows as `x`, or one.
template <typename T>
INLINE void cos_sim(const T* x, const T* y, T* out, T* x_norm, T* y_norm, int64_t rows, int64_t y_rows,
                    int64_t width) {
  typedef Team<WARP_SIZE> Warp;
  FOR_EACH_ROW(Warp, row, rows) {
    int64_t other = y_rows == 1 ? 0 : row;
    T xx = T(0), yy = T(0), xy = T(0);
    for (int64_t i = Warp::rank(); i < width; i += WARP_SIZE) {
      T a = x[row * width + i], b = y[other * width + i];
      xx += a * a, yy += b * b, xy += a * b;
    }
    xx = sqrt_(warp_sum(xx)), yy = sqrt_(warp_sum(yy)), xy = warp_sum(xy);
    if (Warp::rank() == 0) {
      out[row] = xy / xx / yy;
      x_norm[row] = xx;
      if (y_rows != 1 || row == 0) y_norm[other] = yy;
    }
  }
}

/// What a row of `cos_sim` gives to the gradient of `to`, which stands beside `other`.
template <typename T> INLINE T cos_sim_slope(T to, T other, T out, T d, T own_norm, T other_norm) {
  return other * (d / (own_norm * other_norm)) - to * (d * out / (own_norm * own_norm));
}

}  // own

#define COS_SIM_KERNELS(T, suffix)                                                                         \
  KERNEL cos_sim_##suffix(const T* x, const T* y, T* out, T* x_norm, T* y_norm, int64_t rows,              \
                          int64_t y_rows, int64_t width) { IN_TURN;                                        \
    cos_sim<T>(x, y, out, x_norm, y_norm, rows, y_rows, width);                                            \
  }                                                                                                        \
  EXPORT(cos_sim_##suffix)                                                                                 \
  KERNEL cos_sim_grad_##suffix(const T* x, const T* y, const T* out, const T* x_norm, const T* y_norm,     \
                               const T* ds, T* dx, T* dy, int64_t n, int64_t y_rows, int64_t width) { IN_TURN; \
    FOR_EACH(i, n) {                                                                                       \
      uint32_t row = (uint32_t)i / (uint32_t)width, column = (uint32_t)i - row * (uint32_t)width;          \
      uint32_t other = y_rows == 1 ? 0 : row, at = other * (uint32_t)width + column;                       \
      if (dx) dx[i] = cos_sim_slope(x[i], y[at], out[row], ds[row], x_norm[row], y_norm[other]);           \
      if (dy) dy[i] = cos_sim_slope(y[at], x[i], out[row], ds[row], y_norm[other], x_norm[row]);           \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(cos_sim_grad_##suffix)
WIDE_FLOATS(COS_SIM_KERNELS)
