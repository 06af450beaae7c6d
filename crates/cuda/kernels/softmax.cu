// Softmax, its logarithm, and the cross-entropy of it, with their gradients.
//
// The classes of one sample are `len` elements, `step` apart. A sample is the work of one thread where the
// step is not 1 or there are few classes (neighbours in a warp then read neighbours in memory), of a warp
// where a row is of some length, and of a block where it is long.
#include "rows.cuh"
#include "tables.cuh"

FILE_OWN {

/// One thread a sample: a team of one.
struct Alone {
  static INLINE int64_t first_row() { return thread_number(); }
  static INLINE int64_t count() { return thread_count(); }
  static INLINE int rank() { return 0; }
  template <typename T> static INLINE T sum(T x) { return x; }
  template <typename T> static INLINE T max(T x) { return x; }
};
template <int SIZE> struct TeamOf { typedef Team<SIZE> type; };
template <> struct TeamOf<1> { typedef Alone type; };

/// Where sample `row` begins.
INLINE int64_t sample_start(int64_t row, int64_t len, int64_t step) {
  if (step == 1) return row * len;
  uint32_t block = (uint32_t)row / (uint32_t)step, inside = (uint32_t)row - block * (uint32_t)step;
  return block * (len * step) + inside;
}

/// The greatest element of a sample, and the sum of `exp(x - greatest)`.
template <typename E, int SIZE, typename T>
INLINE void exponentials(const E* x, int64_t len, int64_t step, T& top, T& sum) {
  typedef typename TeamOf<SIZE>::type Members;
  // Every member starts from the first element; NaN stays once it is met.
  top = T(load(x[0]));
  ROLLED for (int64_t i = Members::rank(); i < len; i += SIZE) {
    T value = load(x[i * step]);
    top = value > top || value != value ? value : top;
  }
  top = Members::max(top);
  sum = T(0);
  ROLLED for (int64_t i = Members::rank(); i < len; i += SIZE) sum += exp_(T(load(x[i * step])) - top);
  sum = Members::sum(sum);
}

template <typename E, int SIZE>
INLINE void softmax(const E* xs, E* out, int64_t rows, int64_t len, int64_t step, int32_t is_log) {
  typedef typename Math<E>::type T;
  typedef typename TeamOf<SIZE>::type Members;
  FOR_EACH_ROW(Members, row, rows) {
    int64_t start = sample_start(row, len, step);
    const E* x = xs + start;
    T top, sum;
    exponentials<E, SIZE>(x, len, step, top, sum);
    T log_sum = is_log ? log_(sum) : T(0);
    ROLLED for (int64_t i = Members::rank(); i < len; i += SIZE) {
      T value = T(load(x[i * step])) - top;
      out[start + i * step] = Store<E>::of(is_log ? value - log_sum : exp_(value) / sum);
    }
  }
}

template <typename E, int SIZE>
INLINE void softmax_grad(const E* ys, const E* ds, E* dx, int64_t rows, int64_t len, int64_t step,
                         int32_t is_log) {
  typedef typename Math<E>::type T;
  typedef typename TeamOf<SIZE>::type Members;
  FOR_EACH_ROW(Members, row, rows) {
    int64_t start = sample_start(row, len, step);
    T sum = T(0);
    ROLLED for (int64_t i = Members::rank(); i < len; i += SIZE) {
      T d = load(ds[start + i * step]);
      sum += is_log ? d : d * T(load(ys[start + i * step]));
    }
    sum = Members::sum(sum);
    ROLLED for (int64_t i = Members::rank(); i < len; i += SIZE) {
      T y = load(ys[start + i * step]), d = load(ds[start + i * step]);
      dx[start + i * step] = Store<E>::of(is_log ? d - exp_(y) * sum : y * (d - sum));
    }
  }
}

}  // own

#define SOFTMAX_KERNELS_OF(SIZE, E, suffix)                                                                \
  KERNEL softmax_##SIZE##_##suffix(const E* x, E* out, int64_t rows, int64_t len, int64_t step,            \
                                   int32_t is_log) { IN_TURN;                                              \
    softmax<E, SIZE>(x, out, rows, len, step, is_log);                                                     \
  }                                                                                                        \
  EXPORT(softmax_##SIZE##_##suffix)                                                                        \
  KERNEL softmax_grad_##SIZE##_##suffix(const E* y, const E* d, E* dx, int64_t rows, int64_t len,          \
                                        int64_t step, int32_t is_log) { IN_TURN;                           \
    softmax_grad<E, SIZE>(y, d, dx, rows, len, step, is_log);                                              \
  }                                                                                                        \
  EXPORT(softmax_grad_##SIZE##_##suffix)
#define SOFTMAX_KERNELS(E, suffix)         \
  SOFTMAX_KERNELS_OF(1, E, suffix)         \
  SOFTMAX_KERNELS_OF(32, E, suffix)        \
  SOFTMAX_KERNELS_OF(256, E, suffix)
ALL_FLOATS(SOFTMAX_KERNELS)

FILE_OWN {

/// `-ln(x)`, with a stand-in for infinity.
template <typename T> INLINE T minus_log(T x) {
  T value = -log_(x);
  return value > T(1e20) ? T(1e20) : value < T(-1e20) ? T(-1e20) : value;
}

/// What samples are compared with: a class for each, as a number of 4 or 8 bytes, or (`SOFT`) a probability
/// for each class.
const int SOFT = 0;
struct Labels {
  const void* at;
  int32_t size;
  int64_t ignore;
  Complaint* complaints;
  uint32_t op;

  /// The class of a sample: -1 for none, where it is to be ignored or there is no such class.
  INLINE int64_t class_of(int64_t sample, int64_t classes) const {
    int64_t label = size == 8 ? ((const int64_t*)at)[sample] : ((const int32_t*)at)[sample];
    if (label == ignore) return -1;
    if (label >= 0 && label < classes) return label;
    complain(complaints, op, WRONG_LABEL, label, sample, classes);
    return -1;
  }
};

/// What a class costs: from the logits, or from probabilities.
template <typename T> struct Cost {
  const T* x;
  T log_sum;
  bool from_logits;
  INLINE T of(int64_t at) const { return from_logits ? log_sum - x[at] : minus_log(x[at]); }
};

/// With `dx`, also the gradient of logits where that of each loss is `d`; their samples have labels.
template <typename T, int SIZE>
INLINE void softmax_loss(const T* logits, Labels labels, T* softmax, T* loss, T* dx, double d_, int64_t rows,
                         int64_t len, int64_t step, int32_t use_softmax) {
  T d = (T)d_;
  typedef typename TeamOf<SIZE>::type Members;
  FOR_EACH_ROW(Members, row, rows) {
    int64_t start = sample_start(row, len, step);
    const T* x = logits + start;
    T top = T(0), sum = T(1);
    if (use_softmax) {
      exponentials<T, SIZE>(x, len, step, top, sum);
      T factor = T(1) / sum;
      ROLLED for (int64_t i = Members::rank(); i < len; i += SIZE)
        softmax[start + i * step] = exp_(x[i * step] - top) * factor;
    }
    Cost<T> cost = {x, top + log_(sum), use_softmax != 0};
    T mean = T(0);
    if (labels.size == SOFT) {
      const T* label = (const T*)labels.at + start;
      ROLLED for (int64_t i = Members::rank(); i < len; i += SIZE)
        mean += label[i * step] * cost.of(i * step);
      mean = Members::sum(mean);
    } else if (Members::rank() == 0) {
      int64_t found = labels.class_of(row, len);
      if (found >= 0) mean = cost.of(found * step);
    }
    if (Members::rank() == 0) loss[row] = mean;
    if (!dx) continue;
    int64_t found = labels.class_of(row, len);
    ROLLED for (int64_t i = Members::rank(); i < len; i += SIZE) {
      T slope = found < 0 ? T(0) : softmax[start + i * step] * d;
      dx[start + i * step] = found == i ? slope - d : slope;
    }
  }
}

/// The gradient, from the softmax or from probabilities `ys`.
template <typename T>
INLINE void softmax_loss_grad(const T* ys, Labels labels, const T* ds, T* dx, int64_t n, Divider classes,
                              Divider step, int32_t use_softmax) {
  FOR_EACH(i, n) {
    uint32_t line = step.quotient((uint32_t)i), inside = (uint32_t)i - line * step.by;
    uint32_t block = classes.quotient(line), at = line - block * classes.by, row = block * step.by + inside;
    T y = ys[i], d = ds[row];
    if (labels.size == SOFT) {
      T label = ((const T*)labels.at)[i];
      dx[i] = use_softmax ? d * (y - label) : -label / y * d;
      continue;
    }
    int64_t found = labels.class_of(row, classes.by);
    T slope = use_softmax ? (found < 0 ? T(0) : y * d) : T(0);
    dx[i] = found == at ? (use_softmax ? slope - d : -d / y) : slope;
  }
}

}  // own

#define LOSS_KERNEL(SIZE, T, suffix)                                                                       \
  KERNEL softmax_loss_##SIZE##_##suffix(const T* logits, const void* labels, T* softmax, T* loss, T* dx,   \
                                        double d, int64_t rows, int64_t len, int64_t step, int32_t use_softmax,      \
                                        int32_t label_size, int64_t ignore, Complaint* complaints,         \
                                        uint32_t op) { IN_TURN;                                            \
    Labels given = {labels, label_size, ignore, complaints, op};                                           \
    softmax_loss<T, SIZE>(logits, given, softmax, loss, dx, d, rows, len, step, use_softmax);              \
  }                                                                                                        \
  EXPORT(softmax_loss_##SIZE##_##suffix)
#define LOSS_KERNELS(T, suffix)                                                                            \
  LOSS_KERNEL(1, T, suffix)                                                                                \
  LOSS_KERNEL(32, T, suffix)                                                                               \
  LOSS_KERNEL(256, T, suffix)                                                                              \
  KERNEL softmax_loss_grad_##suffix(const T* ys, const void* labels, const T* ds, T* dx, int64_t n,        \
                                    Divider classes, Divider step, int32_t use_softmax,                    \
                                    int32_t label_size, int64_t ignore, Complaint* complaints,             \
                                    uint32_t op) { IN_TURN;                                                \
    Labels given = {labels, label_size, ignore, complaints, op};                                           \
    softmax_loss_grad<T>(ys, given, ds, dx, n, classes, step, use_softmax);                                \
  }                                                                                                        \
  EXPORT(softmax_loss_grad_##suffix)                                                                       \
  /* `cross_entropy2` keeps the probability of the right class, from which its gradient follows. */        \
  KERNEL cross_entropy2_##suffix(const T* xs, const void* labels, T* ys, T* matched, int64_t rows,         \
                                 int64_t classes, int32_t label_size, int64_t ignore,                      \
                                 Complaint* complaints, uint32_t op) { IN_TURN;                            \
    Labels given = {labels, label_size, ignore, complaints, op};                                           \
    FOR_EACH(row, rows) {                                                                                  \
      int64_t found = given.class_of(row, classes);                                                        \
      T x = found < 0 ? T(0) : xs[row * classes + found];                                                  \
      ys[row] = found < 0 ? T(0) : minus_log(x);                                                           \
      if (matched) matched[row] = x;                                                                       \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(cross_entropy2_##suffix)                                                                          \
  KERNEL cross_entropy2_grad_##suffix(const T* matched, const void* labels, const T* ds, T* dx, int64_t n, \
                                      int64_t classes, int32_t label_size, int64_t ignore,                 \
                                      Complaint* complaints, uint32_t op) { IN_TURN;                       \
    Labels given = {labels, label_size, ignore, complaints, op};                                           \
    FOR_EACH(i, n) {                                                                                       \
      uint32_t row = (uint32_t)i / (uint32_t)classes, at = (uint32_t)i - row * (uint32_t)classes;          \
      dx[i] = given.class_of(row, classes) == at ? -ds[row] / matched[row] : T(0);                         \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(cross_entropy2_grad_##suffix)
WIDE_FLOATS(LOSS_KERNELS)
