// Convolution of images: windows as columns of a matrix for products, and directly where each channel has few
// filters of its own.
#include "rows.cuh"

FILE_OWN {

/// One axis of a sliding window. Output `o` sees input `o * stride + tap * dilation - before` through tap
/// `tap`.
struct Axis {
  uint32_t input, output, window, stride, dilation, before;
};

/// The images: strides of image, channel, line and element, in elements.
struct Images {
  uint32_t count, channels;
  Axis y, x;
  uint32_t steps[4];
};

/// What output `at` sees through `tap`; more than there is where that is padding.
INLINE uint32_t seen(const Axis& axis, uint32_t at, uint32_t tap) {
  return at * axis.stride + tap * axis.dilation - axis.before;
}

/// The output that sees `at` through `tap`; more than there are where none does.
INLINE uint32_t seer(const Axis& axis, uint32_t at, uint32_t tap) {
  uint32_t away = at + axis.before - tap * axis.dilation;
  // What lies before the first window wraps around to a large number.
  if (away > at + axis.before || away % axis.stride) return axis.output;
  return away / axis.stride;
}

INLINE int64_t place(const Images& images, uint32_t image, uint32_t channel, uint32_t y, uint32_t x) {
  int64_t plane = (int64_t)image * images.steps[0] + (int64_t)channel * images.steps[1];
  return plane + (int64_t)y * images.steps[2] + (int64_t)x * images.steps[3];
}

/// Writes the windows out: a row for each channel and tap, a column for each output position. Rows are
/// `row_step` apart, the columns of images `image_step`.
template <typename E>
INLINE void to_columns(const E* x, E* columns, const Images& images, int64_t n, int64_t row_step,
                       int64_t image_step) {
  uint32_t outputs = images.y.output * images.x.output, taps = images.y.window * images.x.window;
  FOR_EACH(i, n) {
    uint32_t rest = (uint32_t)i / outputs, position = (uint32_t)i - rest * outputs;
    uint32_t row = rest / images.count, image = rest - row * images.count;
    uint32_t channel = row / taps, tap = row - channel * taps;
    uint32_t y = seen(images.y, position / images.x.output, tap / images.x.window);
    uint32_t at_x = seen(images.x, position % images.x.output, tap % images.x.window);
    E value = Store<E>::of(0.0f);
    if (y < images.y.input && at_x < images.x.input) value = x[place(images, image, channel, y, at_x)];
    columns[row * row_step + image * image_step + position] = value;
  }
}

/// The reverse: each element of the images gets the sum of the columns that it was written to.
template <typename E>
INLINE void from_columns(const E* columns, E* dx, const Images& images, int64_t n, int64_t row_step,
                         int64_t image_step) {
  typedef typename Math<E>::type T;
  uint32_t taps = images.y.window * images.x.window;
  FOR_EACH(i, n) {
    uint32_t rest = (uint32_t)i / images.x.input, x = (uint32_t)i - rest * images.x.input;
    uint32_t plane = rest / images.y.input, y = rest - plane * images.y.input;
    uint32_t image = plane / images.channels, channel = plane - image * images.channels;
    T sum = T(0);
    for (uint32_t tap_y = 0; tap_y < images.y.window; tap_y++) {
      uint32_t out_y = seer(images.y, y, tap_y);
      if (out_y >= images.y.output) continue;
      for (uint32_t tap_x = 0; tap_x < images.x.window; tap_x++) {
        uint32_t out_x = seer(images.x, x, tap_x);
        if (out_x >= images.x.output) continue;
        uint32_t row = channel * taps + tap_y * images.x.window + tap_x;
        sum += T(load(columns[row * row_step + image * image_step + out_y * images.x.output + out_x]));
      }
    }
    dx[place(images, image, channel, y, x)] = Store<E>::of(sum);
  }
}

/// `out[plane, image, position]` from images whose strides are given.
template <typename E>
INLINE void planes_first(const E* from, E* out, int64_t n, uint32_t images, uint32_t positions,
                         int64_t image_step, int64_t plane_step, int64_t position_step) {
  FOR_EACH(i, n) {
    uint32_t rest = (uint32_t)i / positions, position = (uint32_t)i - rest * positions;
    uint32_t plane = rest / images, image = rest - plane * images;
    out[i] = from[image * image_step + plane * plane_step + position * position_step];
  }
}

/// Few filters for each channel. `outs` are the strides of the output as `steps` are those of the input.
struct Filters {
  uint32_t per_channel;
  uint32_t outs[4];
};

template <typename E>
INLINE void depthwise(const E* x, const E* filter, E* out, const Images& images, const Filters& filters,
                      int64_t n) {
  typedef typename Math<E>::type T;
  uint32_t taps = images.y.window * images.x.window, planes = images.channels * filters.per_channel;
  FOR_EACH(i, n) {
    uint32_t rest = (uint32_t)i / images.x.output, out_x = (uint32_t)i - rest * images.x.output;
    uint32_t plane = rest / images.y.output, out_y = rest - plane * images.y.output;
    uint32_t image = plane / planes, f = plane - image * planes, channel = f / filters.per_channel;
    T sum = T(0);
    for (uint32_t tap = 0; tap < taps; tap++) {
      uint32_t y = seen(images.y, out_y, tap / images.x.window);
      uint32_t at = seen(images.x, out_x, tap % images.x.window);
      if (y >= images.y.input || at >= images.x.input) continue;
      sum += T(load(filter[f * taps + tap])) * T(load(x[place(images, image, channel, y, at)]));
    }
    out[(int64_t)image * filters.outs[0] + (int64_t)f * filters.outs[1] + (int64_t)out_y * filters.outs[2] +
        (int64_t)out_x * filters.outs[3]] = Store<E>::of(sum);
  }
}

template <typename E>
INLINE void depthwise_input_grad(const E* ds, const E* filter, E* dx, const Images& images,
                                 const Filters& filters, int64_t n) {
  typedef typename Math<E>::type T;
  uint32_t taps = images.y.window * images.x.window;
  FOR_EACH(i, n) {
    uint32_t rest = (uint32_t)i / images.x.input, x = (uint32_t)i - rest * images.x.input;
    uint32_t plane = rest / images.y.input, y = rest - plane * images.y.input;
    uint32_t image = plane / images.channels, channel = plane - image * images.channels;
    T sum = T(0);
    for (uint32_t f = channel * filters.per_channel; f < (channel + 1) * filters.per_channel; f++) {
      for (uint32_t tap = 0; tap < taps; tap++) {
        uint32_t out_y = seer(images.y, y, tap / images.x.window);
        uint32_t out_x = seer(images.x, x, tap % images.x.window);
        if (out_y >= images.y.output || out_x >= images.x.output) continue;
        int64_t at = (int64_t)image * filters.outs[0] + (int64_t)f * filters.outs[1] +
                     (int64_t)out_y * filters.outs[2] + (int64_t)out_x * filters.outs[3];
        sum += T(load(filter[f * taps + tap])) * T(load(ds[at]));
      }
    }
    dx[place(images, image, channel, y, x)] = Store<E>::of(sum);
  }
}

/// A block for each weight.
template <typename E>
INLINE void depthwise_filter_grad(const E* x, const E* ds, E* dfilter, const Images& images,
                                  const Filters& filters) {
  typedef typename Math<E>::type T;
  uint32_t taps = images.y.window * images.x.window, outputs = images.y.output * images.x.output;
  uint32_t f = blockIdx.x / taps, tap = blockIdx.x - f * taps, channel = f / filters.per_channel;
  T sum = T(0);
  for (uint32_t i = threadIdx.x; i < images.count * outputs; i += BLOCK) {
    uint32_t image = i / outputs, position = i - image * outputs;
    uint32_t out_y = position / images.x.output, out_x = position - out_y * images.x.output;
    uint32_t y = seen(images.y, out_y, tap / images.x.window);
    uint32_t at = seen(images.x, out_x, tap % images.x.window);
    if (y >= images.y.input || at >= images.x.input) continue;
    T d = load(ds[(int64_t)image * filters.outs[0] + (int64_t)f * filters.outs[1] +
                  (int64_t)out_y * filters.outs[2] + (int64_t)out_x * filters.outs[3]]);
    sum += d * T(load(x[place(images, image, channel, y, at)]));
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) dfilter[blockIdx.x] = Store<E>::of(sum);
}

}  // own

#define CONV_KERNELS(E, suffix)                                                                            \
  KERNEL to_columns_##suffix(const E* x, E* columns, Images images, int64_t n, int64_t row_step,           \
                             int64_t image_step) {                                                         \
    to_columns<E>(x, columns, images, n, row_step, image_step);                                            \
  }                                                                                                        \
  EXPORT(to_columns_##suffix)                                                                              \
  KERNEL from_columns_##suffix(const E* columns, E* dx, Images images, int64_t n, int64_t row_step,        \
                               int64_t image_step) {                                                       \
    from_columns<E>(columns, dx, images, n, row_step, image_step);                                         \
  }                                                                                                        \
  EXPORT(from_columns_##suffix)                                                                            \
  KERNEL planes_first_##suffix(const E* from, E* out, int64_t n, int64_t images, int64_t positions,        \
                               int64_t image_step, int64_t plane_step, int64_t position_step) {            \
    planes_first<E>(from, out, n, (uint32_t)images, (uint32_t)positions, image_step, plane_step,           \
                    position_step);                                                                        \
  }                                                                                                        \
  EXPORT(planes_first_##suffix)                                                                            \
  KERNEL depthwise_##suffix(const E* x, const E* filter, E* out, Images images, Filters filters,           \
                            int64_t n) {                                                                   \
    depthwise<E>(x, filter, out, images, filters, n);                                                      \
  }                                                                                                        \
  EXPORT(depthwise_##suffix)                                                                               \
  KERNEL depthwise_input_grad_##suffix(const E* ds, const E* filter, E* dx, Images images,                 \
                                       Filters filters, int64_t n) {                                       \
    depthwise_input_grad<E>(ds, filter, dx, images, filters, n);                                           \
  }                                                                                                        \
  EXPORT(depthwise_input_grad_##suffix)                                                                    \
  KERNEL depthwise_filter_grad_##suffix(const E* x, const E* ds, E* dfilter, Images images,                \
                                        Filters filters) {                                                 \
    depthwise_filter_grad<E>(x, ds, dfilter, images, filters);                                             \
  }                                                                                                        \
  EXPORT(depthwise_filter_grad_##suffix)
ALL_FLOATS(CONV_KERNELS)
