// Normalisation: by channels over the batch, by rows, and by statistics of all data seen so far.
#include "rows.cuh"
#include "tables.cuh"

// --- batch_norm: a tensor seen as `[outer, channels, inner]`.
//
// Sums per channel are made in double precision around a number close to the mean, so that one pass over the
// input is enough for a variance.

FILE_OWN {

/// Two sums a channel. Forward (`d` is null) of `x - shift` and of its square, backward of `d` and `d * (x -
/// shift)`.
template <typename T> INLINE void channel_terms(const T* d, T x, T shift, int64_t at, double* sums) {
  double away = (double)x - (double)shift;
  if (d) {
    sums[0] += (double)d[at];
    sums[1] += (double)d[at] * away;
  } else {
    sums[0] += away;
    sums[1] += away * away;
  }
}

/// Channels last: a tile of channels and a chunk of rows for a block. `shifts` is null forward, where the
/// first row is used. Partial sums lie chunk by chunk for each channel, two and two.
template <typename T>
INLINE void channel_sums_last(const T* x, const T* d, const T* shifts, double* partials, int64_t rows,
                              int64_t channels, int64_t rows_per_chunk) {
  TileRows tile(rows, rows_per_chunk);
  double sums[2] = {0, 0};
  if (tile.column < channels) {
    T shift = shifts ? shifts[tile.column] : rows > 0 ? x[tile.column] : T(0);
    for (int64_t row = tile.first; row < tile.end; row += TILE_LANES) {
      int64_t at = row * channels + tile.column;
      channel_terms(d, x[at], shift, at, sums);
    }
  }
  tile_sum<2>(sums);
  if (threadIdx.x < TILE && tile.column < channels) {
    int64_t to = (tile.column * gridDim.y + blockIdx.y) * 2;
    partials[to] = sums[0], partials[to + 1] = sums[1];
  }
}

/// Channels first: a channel and a chunk of its elements for a block.
template <typename T>
INLINE void channel_sums_first(const T* x, const T* d, const T* shifts, double* partials, uint32_t samples,
                               uint32_t channels, uint32_t inner, uint32_t per_chunk) {
  uint32_t channel = blockIdx.x, start = blockIdx.y * per_chunk;
  uint32_t end = start + per_chunk < samples ? start + per_chunk : samples;
  T shift = shifts ? shifts[channel] : samples > 0 ? x[(int64_t)channel * inner] : T(0);
  double sums[2] = {0, 0};
  for (uint32_t i = start + threadIdx.x; i < end; i += BLOCK) {
    uint32_t image = i / inner;
    int64_t at = ((int64_t)image * channels + channel) * inner + (i - image * inner);
    channel_terms(d, x[at], shift, at, sums);
  }
  double first = block_sum(sums[0]), second = block_sum(sums[1]);
  if (threadIdx.x == 0) {
    int64_t to = ((int64_t)channel * gridDim.y + blockIdx.y) * 2;
    partials[to] = first, partials[to + 1] = second;
  }
}

/// What is done with a channel: `factor * a + slope * (b - shift) + offset`.
template <typename T> struct Line { T factor, slope, shift, offset; };

/// The totals of a channel, by a warp.
INLINE void channel_totals(const double* partials, int64_t channel, int64_t chunks, double* totals) {
  totals[0] = totals[1] = 0;
  for (int64_t chunk = threadIdx.x % WARP_SIZE; chunk < chunks; chunk += WARP_SIZE)
    for (int i = 0; i < 2; i++) totals[i] += partials[(channel * chunks + chunk) * 2 + i];
  totals[0] = warp_sum(totals[0]), totals[1] = warp_sum(totals[1]);
}

/// The statistics of the batch (or the running ones, if `is_global`), what is kept of them, and the line that
/// normalises. A single sample has no variance, and passes unchanged.
template <typename T>
INLINE void channel_statistics(const double* partials, const T* x, int64_t inner, const T* scale,
                               const T* bias, const T* mean_in, const T* variance_in, const T* momentum_at,
                               T* mean_out, T* variance_out, T* saved_mean, T* saved_inverse, Line<T>* lines,
                               int64_t channels, int64_t chunks, int64_t samples, double epsilon,
                               double momentum_, int32_t is_global) {
  typedef Team<WARP_SIZE> Warp;
  FOR_EACH_ROW(Warp, channel, channels) {
    double totals[2] = {0, 0};
    if (!is_global) channel_totals(partials, channel, chunks, totals);
    if (Warp::rank() != 0) continue;
    T mean = mean_in[channel], variance = variance_in[channel];
    T momentum = momentum_at ? momentum_at[0] : (T)momentum_;
    T new_mean = mean, new_variance = variance;
    bool is_single = samples == 1 && !is_global;
    if (!is_global) {
      double count = samples > 0 ? (double)samples : 1.0, away = totals[0] / count;
      double spread = totals[1] / count - away * away;
      T old_mean = mean, old_variance = variance;
      mean = samples > 0 ? (T)((double)x[channel * inner] + away) : T(0);
      variance = (T)(spread > 0 || spread != spread ? spread : 0);
      if (!is_single) {
        new_mean = old_mean * momentum + mean * (T(1) - momentum);
        new_variance = old_variance * momentum + variance * (T(1) - momentum);
      }
    }
    T inverse = T(1) / sqrt_(variance + (T)epsilon);
    mean_out[channel] = new_mean;
    variance_out[channel] = new_variance;
    if (saved_mean) saved_mean[channel] = mean;
    if (saved_inverse) saved_inverse[channel] = inverse;
    T slope = inverse * (scale ? scale[channel] : T(1)), offset = bias ? bias[channel] : T(0);
    Line<T> line = {T(0), slope, mean, offset};
    if (is_single) line = {T(1), T(0), mean, T(0)};
    lines[channel] = line;
  }
}

/// The gradients of scale and bias, and the line that gives that of the input. `spread` is the running
/// variance if `is_global`, else the inverse deviation of the batch.
template <typename T>
INLINE void channel_slopes(const double* partials, const T* scale, const T* mean, const T* spread, T* dscale,
                           T* dbias, Line<T>* lines, int64_t channels, int64_t chunks, int64_t samples,
                           double epsilon, int32_t is_global) {
  typedef Team<WARP_SIZE> Warp;
  FOR_EACH_ROW(Warp, channel, channels) {
    double totals[2];
    channel_totals(partials, channel, chunks, totals);
    if (Warp::rank() != 0) continue;
    bool is_single = samples == 1 && !is_global;
    T inverse = is_global ? T(1) / sqrt_(spread[channel] + (T)epsilon) : spread[channel];
    T to_bias = (T)totals[0], to_scale = (T)totals[1] * inverse;
    if (dscale) dscale[channel] = is_single ? T(0) : to_scale;
    if (dbias) dbias[channel] = is_single ? T(0) : to_bias;
    T factor = (scale ? scale[channel] : T(1)) * inverse;
    // Statistics that are constants of the batch pass no gradient on.
    T share = is_global ? T(0) : T(1) / (T)(samples > 0 ? samples : 1);
    T slope = -(factor * inverse * share) * to_scale, offset = -(factor * share) * to_bias;
    Line<T> line = {factor, slope, mean[channel], offset};
    if (is_single) line = {T(1), T(0), T(0), T(0)};
    lines[channel] = line;
  }
}

}  // own

#define CHANNEL_KERNELS(T, suffix)                                                                         \
  KERNEL channel_sums_last_##suffix(const T* x, const T* d, const T* shifts, double* partials,             \
                                    int64_t rows, int64_t channels, int64_t rows_per_chunk) {              \
    channel_sums_last<T>(x, d, shifts, partials, rows, channels, rows_per_chunk);                          \
  }                                                                                                        \
  EXPORT(channel_sums_last_##suffix)                                                                       \
  KERNEL channel_sums_first_##suffix(const T* x, const T* d, const T* shifts, double* partials,            \
                                     int64_t samples, int64_t channels, int64_t inner,                     \
                                     int64_t per_chunk) {                                                  \
    channel_sums_first<T>(x, d, shifts, partials, (uint32_t)samples, (uint32_t)channels, (uint32_t)inner,  \
                          (uint32_t)per_chunk);                                                            \
  }                                                                                                        \
  EXPORT(channel_sums_first_##suffix)                                                                      \
  KERNEL channel_statistics_##suffix(                                                                      \
      const double* partials, const T* x, int64_t inner, const T* scale, const T* bias, const T* mean_in,  \
      const T* variance_in, const T* momentum_at, T* mean_out, T* variance_out, T* saved_mean,             \
      T* saved_inverse, void* lines, int64_t channels, int64_t chunks, int64_t samples, double epsilon,    \
      double momentum, int32_t is_global) {                                                                \
    channel_statistics<T>(partials, x, inner, scale, bias, mean_in, variance_in, momentum_at, mean_out,    \
                          variance_out, saved_mean, saved_inverse, (Line<T>*)lines, channels, chunks,      \
                          samples, epsilon, momentum, is_global);                                          \
  }                                                                                                        \
  EXPORT(channel_statistics_##suffix)                                                                      \
  KERNEL channel_slopes_##suffix(const double* partials, const T* scale, const T* mean, const T* spread,   \
                                 T* dscale, T* dbias, void* lines, int64_t channels, int64_t chunks,       \
                                 int64_t samples, double epsilon, int32_t is_global) {                     \
    channel_slopes<T>(partials, scale, mean, spread, dscale, dbias, (Line<T>*)lines, channels, chunks,     \
                      samples, epsilon, is_global);                                                        \
  }                                                                                                        \
  EXPORT(channel_slopes_##suffix)                                                                          \
  KERNEL channel_lines_##suffix(const T* a, const T* b, const void* lines, T* out, int64_t n,              \
                                Divider channels, Divider inner) {                                         \
    FOR_EACH(i, n) {                                                                                       \
      uint32_t plane = inner.quotient((uint32_t)i), image = channels.quotient(plane);                      \
      Line<T> line = ((const Line<T>*)lines)[plane - image * channels.by];                                 \
      out[i] = line.factor * a[i] + line.slope * (b[i] - line.shift) + line.offset;                        \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(channel_lines_##suffix)
WIDE_FLOATS(CHANNEL_KERNELS)

// --- layer_norm: rows of `width` elements.

FILE_OWN {

template <typename T, int SIZE>
INLINE void layer_norm(const T* xs, const T* scale, const T* bias, T* ys, T* means, T* variances,
                       int64_t rows, int64_t width, double epsilon) {
  typedef Team<SIZE> Members;
  FOR_EACH_ROW(Members, row, rows) {
    const T* x = xs + row * width;
    T* y = ys + row * width;
    T sum = T(0), squares = T(0);
    for (int64_t i = Members::rank(); i < width; i += SIZE) sum += x[i];
    T mean = Members::sum(sum) / (T)width;
    for (int64_t i = Members::rank(); i < width; i += SIZE) squares += (x[i] - mean) * (x[i] - mean);
    T variance = Members::sum(squares) / (T)width, factor = T(1) / sqrt_(variance + (T)epsilon);
    for (int64_t i = Members::rank(); i < width; i += SIZE)
      y[i] = (x[i] - mean) * factor * (scale ? scale[i] : T(1)) + (bias ? bias[i] : T(0));
    if (Members::rank() == 0) {
      if (means) means[row] = mean;
      if (variances) variances[row] = variance;
    }
  }
}

/// With `g = d * scale` and `n` the normalised row: `factor * (g - mean(g) - n * mean(g * n))`.
template <typename T, int SIZE>
INLINE void layer_norm_grad(const T* xs, const T* scale, const T* means, const T* variances, const T* ds,
                            T* dxs, int64_t rows, int64_t width, double epsilon) {
  typedef Team<SIZE> Members;
  FOR_EACH_ROW(Members, row, rows) {
    const T *x = xs + row * width, *d = ds + row * width;
    T mean = means[row], factor = T(1) / sqrt_(variances[row] + (T)epsilon);
    T sum = T(0), slope = T(0);
    for (int64_t i = Members::rank(); i < width; i += SIZE) {
      T g = d[i] * (scale ? scale[i] : T(1));
      sum += g, slope += g * ((x[i] - mean) * factor);
    }
    sum = Members::sum(sum) / (T)width, slope = Members::sum(slope) / (T)width;
    for (int64_t i = Members::rank(); i < width; i += SIZE) {
      T g = d[i] * (scale ? scale[i] : T(1));
      dxs[row * width + i] = factor * (g - sum - (x[i] - mean) * factor * slope);
    }
  }
}

/// For every chunk of rows: the sums for the gradient of the scale, then those for the bias.
template <typename T>
INLINE void layer_norm_sums(const T* xs, const T* means, const T* variances, const T* ds, T* partials,
                            int64_t rows, int64_t width, int64_t rows_per_chunk, double epsilon) {
  TileRows tile(rows, rows_per_chunk);
  T sums[2] = {T(0), T(0)};
  if (tile.column < width)
    for (int64_t row = tile.first; row < tile.end; row += TILE_LANES) {
      int64_t at = row * width + tile.column;
      T d = ds[at];
      sums[0] += d * ((xs[at] - means[row]) * (T(1) / sqrt_(variances[row] + (T)epsilon)));
      sums[1] += d;
    }
  tile_sum<2>(sums);
  if (threadIdx.x < TILE && tile.column < width) {
    partials[blockIdx.y * 2 * width + tile.column] = sums[0];
    partials[blockIdx.y * 2 * width + width + tile.column] = sums[1];
  }
}

}  // own

#define LAYER_NORM_KERNELS_OF(SIZE, T, suffix)                                                             \
  KERNEL layer_norm_##SIZE##_##suffix(const T* x, const T* scale, const T* bias, T* y, T* means,           \
                                      T* variances, int64_t rows, int64_t width, double epsilon) {         \
    layer_norm<T, SIZE>(x, scale, bias, y, means, variances, rows, width, epsilon);                        \
  }                                                                                                        \
  EXPORT(layer_norm_##SIZE##_##suffix)                                                                     \
  KERNEL layer_norm_grad_##SIZE##_##suffix(const T* x, const T* scale, const T* means, const T* variances, \
                                           const T* d, T* dx, int64_t rows, int64_t width,                 \
                                           double epsilon) {                                               \
    layer_norm_grad<T, SIZE>(x, scale, means, variances, d, dx, rows, width, epsilon);                     \
  }                                                                                                        \
  EXPORT(layer_norm_grad_##SIZE##_##suffix)
#define LAYER_NORM_KERNELS(T, suffix)                                                                      \
  LAYER_NORM_KERNELS_OF(32, T, suffix)                                                                     \
  LAYER_NORM_KERNELS_OF(256, T, suffix)                                                                    \
  KERNEL layer_norm_sums_##suffix(const T* x, const T* means, const T* variances, const T* d, T* partials, \
                                  int64_t rows, int64_t width, int64_t rows_per_chunk, double epsilon) {   \
    layer_norm_sums<T>(x, means, variances, d, partials, rows, width, rows_per_chunk, epsilon);            \
  }                                                                                                        \
  EXPORT(layer_norm_sums_##suffix)
WIDE_FLOATS(LAYER_NORM_KERNELS)
