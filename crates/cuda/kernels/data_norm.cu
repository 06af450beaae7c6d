// `data_norm`: columns normalised by statistics of all data seen so far. With slots of `slot` columns (0:
// none), a slot whose first column is 0 was not shown: it yields 0 and counts nowhere.
#include "rows.cuh"
#include "tables.cuh"

FILE_OWN {

/// Whether the slot of this column was shown in the row that begins at `x`.
template <typename T> INLINE bool is_shown(const T* x, uint32_t column, uint32_t slot) {
  return !slot || abs_(x[column / slot * slot]) >= T(1e-7);
}

/// What the rows of a chunk say of a column: how many there are, their sum, the sum of squared distances from
/// the mean, and the gradients of weight and bias.
const int FOUND = 5;

template <typename T>
INLINE void data_norm_sums(const T* xs, const T* ds, const T* means, const T* scales, double* partials,
                           int64_t rows, int64_t columns, int64_t rows_per_chunk, uint32_t slot) {
  TileRows tile(rows, rows_per_chunk);
  double sums[FOUND] = {0, 0, 0, 0, 0};
  if (tile.column < columns) {
    T mean = means[tile.column], scale = scales[tile.column];
    for (int64_t row = tile.first; row < tile.end; row += TILE_LANES) {
      int64_t at = row * columns + tile.column;
      if (!is_shown(xs + row * columns, (uint32_t)tile.column, slot)) continue;
      double away = (double)xs[at] - (double)mean;
      sums[0] += 1;
      sums[1] += (double)xs[at];
      sums[2] += away * away;
      sums[3] += (double)((xs[at] - mean) * scale * ds[at]);
      sums[4] += (double)ds[at];
    }
  }
  tile_sum<FOUND>(sums);
  if (threadIdx.x < TILE && tile.column < columns)
    for (int i = 0; i < FOUND; i++) partials[(blockIdx.y * columns + tile.column) * FOUND + i] = sums[i];
}

/// Adds up the chunks. With slots, a batch counts as one sample. What is not wanted is null; without weight
/// and bias (`is_shifted`) their gradients are 0.
template <typename T>
INLINE void data_norm_finish(const double* partials, T* dsize, T* dsum, T* dsquare, T* dscale, T* dbias,
                             int64_t columns, int64_t chunks, uint32_t slot, int32_t is_shifted,
                             double epsilon) {
  FOR_EACH(column, columns) {
    double found[FOUND] = {0, 0, 0, 0, 0};
    for (int64_t chunk = 0; chunk < chunks; chunk++)
      for (int i = 0; i < FOUND; i++) found[i] += partials[(chunk * columns + column) * FOUND + i];
    double count = found[0], total = found[1], square = found[2];
    bool is_seen = !slot || count >= 1;
    double by = slot && is_seen ? count : 1;
    if (dsize) dsize[column] = (T)(slot ? (is_seen ? 1.0 : 0.0) : count);
    if (dsum) dsum[column] = (T)(is_seen ? total / by : 0.0);
    if (dsquare) dsquare[column] = (T)(is_seen ? square / by + count * epsilon : 0.0);
    if (dscale) dscale[column] = (T)(is_shifted ? found[3] : 0.0);
    if (dbias) dbias[column] = (T)(is_shifted ? found[4] : 0.0);
  }
}

}  // own

#define DATA_NORM_KERNELS(T, suffix)                                                                       \
  KERNEL data_norm_statistics_##suffix(const T* size, const T* total, const T* square, T* means,           \
                                       T* scales, int64_t columns) {                                       \
    FOR_EACH(i, columns) {                                                                                 \
      means[i] = total[i] / size[i];                                                                       \
      scales[i] = sqrt_(size[i] / square[i]);                                                              \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(data_norm_statistics_##suffix)                                                                    \
  KERNEL data_norm_##suffix(const T* xs, const T* means, const T* scales, const T* weight, const T* bias,  \
                            T* ys, int64_t n, Divider columns, int64_t slot) {                             \
    FOR_EACH(i, n) {                                                                                       \
      uint32_t row = columns.quotient((uint32_t)i), column = (uint32_t)i - row * columns.by;               \
      T y = (xs[i] - means[column]) * scales[column];                                                      \
      if (weight) y = y * weight[column] + bias[column];                                                   \
      ys[i] = is_shown(xs + (i - column), column, (uint32_t)slot) ? y : T(0);                              \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(data_norm_##suffix)                                                                               \
  /* Slots that were not shown pass no gradient on, but only where there is a weight. */                   \
  KERNEL data_norm_grad_##suffix(const T* xs, const T* ds, const T* scales, const T* weight, T* dx,        \
                                 int64_t n, Divider columns, int64_t slot) {                               \
    FOR_EACH(i, n) {                                                                                       \
      uint32_t row = columns.quotient((uint32_t)i), column = (uint32_t)i - row * columns.by;               \
      T d = ds[i] * scales[column];                                                                        \
      if (weight) d = is_shown(xs + (i - column), column, (uint32_t)slot) ? d * weight[column] : T(0);     \
      dx[i] = d;                                                                                           \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(data_norm_grad_##suffix)                                                                          \
  KERNEL data_norm_sums_##suffix(const T* xs, const T* ds, const T* means, const T* scales,                \
                                 double* partials, int64_t rows, int64_t columns, int64_t rows_per_chunk,  \
                                 int64_t slot) {                                                           \
    data_norm_sums<T>(xs, ds, means, scales, partials, rows, columns, rows_per_chunk, (uint32_t)slot);     \
  }                                                                                                        \
  EXPORT(data_norm_sums_##suffix)                                                                          \
  KERNEL data_norm_finish_##suffix(const double* partials, T* dsize, T* dsum, T* dsquare, T* dscale,       \
                                   T* dbias, int64_t columns, int64_t chunks, int64_t slot,                \
                                   int32_t is_shifted, double epsilon) {                                   \
    data_norm_finish<T>(partials, dsize, dsum, dsquare, dscale, dbias, columns, chunks, (uint32_t)slot,    \
                        is_shifted, epsilon);                                                              \
  }                                                                                                        \
  EXPORT(data_norm_finish_##suffix)
WIDE_FLOATS(DATA_NORM_KERNELS)
