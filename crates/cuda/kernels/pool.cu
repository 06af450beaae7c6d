// One number for each window of an image: the maximum or the mean. Images are
// `outer × height × width × inner`.
//
// A gradient is gathered: each input asks the windows that cover it, in their order.
#include "walk.cuh"

/// The windows along one axis.
struct Windows {
  int32_t input, output, window, stride, before;
  /// Whether windows are as large as the number of outputs makes them.
  int32_t is_adaptive;
  /// Whether padding counts in the size of a window.
  int32_t counts_padding;
};

struct Span {
  int32_t start, end, weight;
};

/// The part of the axis that output `at` looks at, without padding.
INLINE Span span_of(const Windows& axis, int32_t at) {
  int64_t input = axis.input, count = axis.output;
  if (axis.is_adaptive) {
    int32_t start = (int32_t)(at * input / count), end = (int32_t)(((at + 1) * input + count - 1) / count);
    return Span{start, end, end - start};
  }
  int32_t start = at * axis.stride - axis.before;
  // A window hangs over by the padding in front, whatever is behind, as in Paddle.
  int32_t end = min(start + axis.window, axis.input + axis.before);
  Span span = {min(max(start, 0), axis.input), min(max(end, 0), axis.input), end - start};
  span.end = max(span.end, span.start);
  span.weight = max(axis.counts_padding ? span.weight : span.end - span.start, 0);
  return span;
}

/// The first and the last output whose windows may cover input `at`.
INLINE Span covering(const Windows& axis, int32_t at) {
  int64_t input = axis.input, count = axis.output;
  if (axis.is_adaptive) {
    int32_t last = (int32_t)(((at + 1) * count + input - 1) / input) - 1;
    return Span{(int32_t)(at * count / input), min(last, axis.output - 1), 0};
  }
  int32_t from = at + axis.before - axis.window + 1;
  int32_t first = from > 0 ? (from + axis.stride - 1) / axis.stride : 0;
  return Span{first, min((at + axis.before) / axis.stride, axis.output - 1), 0};
}

struct Pool {
  Windows rows, columns;
  /// Elements of a position, and positions along both axes of the result (or of the image, in a gradient).
  Divider inner, width, height;
};

/// Where a thread is.
struct Place {
  uint32_t outer;
  int32_t row, column, channel;
};
INLINE Place place_of(const Pool& pool, uint32_t i) {
  Place place;
  place.channel = (int32_t)split(i, pool.inner);
  place.column = (int32_t)split(i, pool.width);
  place.row = (int32_t)split(i, pool.height);
  place.outer = i;
  return place;
}

/// The first element of an image, and of a result, in this thread's channel.
INLINE int64_t image_at(const Pool& pool, const Place& place) {
  return (int64_t)place.outer * pool.rows.input * pool.columns.input * pool.inner.by + place.channel;
}
INLINE int64_t result_at(const Pool& pool, const Place& place) {
  return (int64_t)place.outer * pool.rows.output * pool.columns.output * pool.inner.by + place.channel;
}

// What a maximum starts from, in all float types, as in Paddle.
const float LOWEST = -3.402823466e+38f;

template <typename E> INLINE void max_pool(const E* x, E* out, uint32_t count, const Pool& pool) {
  typedef typename Math<E>::type T;
  FOR_EACH_SHORT(i, count) {
    Place place = place_of(pool, i);
    Span rows = span_of(pool.rows, place.row), columns = span_of(pool.columns, place.column);
    const E* image = x + image_at(pool, place);
    T greatest = T(LOWEST);
    ROLLED for (int32_t row = rows.start; row < rows.end; row++)
      ROLLED for (int32_t column = columns.start; column < columns.end; column++) {
        T next = load(image[((int64_t)row * pool.columns.input + column) * pool.inner.by]);
        greatest = greatest > next ? greatest : next;
      }
    out[i] = Store<E>::of(greatest);
  }
}

template <typename E> INLINE void mean_pool(const E* x, E* out, uint32_t count, const Pool& pool) {
  typedef typename Math<E>::type T;
  FOR_EACH_SHORT(i, count) {
    Place place = place_of(pool, i);
    Span rows = span_of(pool.rows, place.row), columns = span_of(pool.columns, place.column);
    const E* image = x + image_at(pool, place);
    T sum = 0;
    ROLLED for (int32_t row = rows.start; row < rows.end; row++)
      ROLLED for (int32_t column = columns.start; column < columns.end; column++)
        sum += load(image[((int64_t)row * pool.columns.input + column) * pool.inner.by]);
    out[i] = Store<E>::of(sum / T(rows.weight * columns.weight));
  }
}

// Where in its plane the maximum of each window lies: the first that is larger than all before it, which is
// written too; or, when results are known, the first that equals its result. -1 for none.
template <typename E>
INLINE void locate_max(const E* x, const E* known, E* out, int32_t* places, uint32_t count, const Pool& pool) {
  typedef typename Math<E>::type T;
  FOR_EACH_SHORT(i, count) {
    Place place = place_of(pool, i);
    Span rows = span_of(pool.rows, place.row), columns = span_of(pool.columns, place.column);
    const E* image = x + image_at(pool, place);
    T greatest = known ? T(load(known[i])) : T(LOWEST);
    int32_t found = -1;
    ROLLED for (int32_t row = rows.start; row < rows.end; row++)
      ROLLED for (int32_t column = columns.start; column < columns.end; column++) {
        int32_t at = (row * pool.columns.input + column) * (int32_t)pool.inner.by;
        T next = load(image[at]);
        bool is_it = known ? found < 0 && next == greatest : next > greatest;
        if (is_it) greatest = next, found = at + place.channel;
      }
    places[i] = found;
    if (out) out[i] = Store<E>::of(greatest);
  }
}

template <typename E>
INLINE void max_pool_grad(const int32_t* places, const E* dout, E* dx, uint32_t count, const Pool& pool) {
  FOR_EACH_SHORT(i, count) {
    Place place = place_of(pool, i);
    Span rows = covering(pool.rows, place.row), columns = covering(pool.columns, place.column);
    int64_t result = result_at(pool, place);
    int32_t own = (place.row * pool.columns.input + place.column) * (int32_t)pool.inner.by + place.channel;
    typename Math<E>::type sum = 0;
    ROLLED for (int32_t row = rows.start; row <= rows.end; row++)
      ROLLED for (int32_t column = columns.start; column <= columns.end; column++) {
        int64_t at = result + ((int64_t)row * pool.columns.output + column) * pool.inner.by;
        if (places[at] == own) sum += load(dout[at]);
      }
    dx[i] = Store<E>::of(sum);
  }
}

template <typename E> INLINE void mean_pool_grad(const E* dout, E* dx, uint32_t count, const Pool& pool) {
  typedef typename Math<E>::type T;
  FOR_EACH_SHORT(i, count) {
    Place place = place_of(pool, i);
    Span rows = covering(pool.rows, place.row), columns = covering(pool.columns, place.column);
    int64_t result = result_at(pool, place);
    T sum = 0;
    ROLLED for (int32_t row = rows.start; row <= rows.end; row++)
      ROLLED for (int32_t column = columns.start; column <= columns.end; column++) {
        Span high = span_of(pool.rows, row), wide = span_of(pool.columns, column);
        T share = T(1) / T(high.weight * wide.weight);
        sum += load(dout[result + ((int64_t)row * pool.columns.output + column) * pool.inner.by]) * share;
      }
    dx[i] = Store<E>::of(sum);
  }
}

#define POOLS(E, suffix)                                                                                   \
  KERNEL max_pool_##suffix(const E* x, E* out, uint32_t count, Pool pool) { max_pool(x, out, count, pool); } \
  EXPORT(max_pool_##suffix)                                                                                \
  KERNEL mean_pool_##suffix(const E* x, E* out, uint32_t count, Pool pool) {                               \
    mean_pool(x, out, count, pool);                                                                        \
  }                                                                                                        \
  EXPORT(mean_pool_##suffix)                                                                               \
  KERNEL locate_max_##suffix(const E* x, const E* known, E* out, int32_t* places, uint32_t count,          \
                             Pool pool) {                                                                  \
    locate_max(x, known, out, places, count, pool);                                                        \
  }                                                                                                        \
  EXPORT(locate_max_##suffix)                                                                              \
  KERNEL max_pool_grad_##suffix(const int32_t* places, const E* dout, E* dx, uint32_t count, Pool pool) {  \
    max_pool_grad(places, dout, dx, count, pool);                                                          \
  }                                                                                                        \
  EXPORT(max_pool_grad_##suffix)                                                                           \
  KERNEL mean_pool_grad_##suffix(const E* dout, E* dx, uint32_t count, Pool pool) {                        \
    mean_pool_grad(dout, dx, count, pool);                                                                 \
  }                                                                                                        \
  EXPORT(mean_pool_grad_##suffix)
POOLS(float, f32)
POOLS(double, f64)
POOLS(bf16, bf16)
POOLS(f16, f16)
