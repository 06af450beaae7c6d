// Losses of one prediction and one label, element by element, with their gradients.
#include "rows.cuh"

FILE_OWN {

template <typename T> INLINE T at_least(T x, T low) { return x > low ? x : low; }

template <typename T> INLINE T log_loss(T x, T y, T epsilon) {
  return -(y * log_(x + epsilon)) - (T(1) - y) * log_(T(1) - x + epsilon);
}
template <typename T> INLINE T log_loss_slope(T x, T y, T epsilon) {
  return (T(1) - y) / (T(1) - x + epsilon) - y / (x + epsilon);
}

// Logarithms stop at -100, so that a sure but wrong prediction costs a finite amount.
template <typename T> INLINE T bce_loss(T x, T y) {
  return (y - T(1)) * at_least(log1p_(-x), T(-100)) - y * at_least(log_(x), T(-100));
}
template <typename T> INLINE T bce_loss_slope(T x, T y) {
  return (x - y) / at_least((T(1) - x) * x, T(1e-12));
}

// A target of 0 adds nothing, whatever the prediction.
template <typename T> INLINE T kldiv_loss(T x, T y) { return y > T(0) ? y * (log_(y) - x) : T(0); }
template <typename T> INLINE T kldiv_loss_slope(T y) { return y > T(0) ? -y : T(0); }

/// What is no probability would be hidden by the limits of the logarithms, so it is complained of: as the
/// whole number beyond it.
template <typename T> INLINE void check_probability(T x, int64_t i, Complaint* complaints, uint32_t op) {
  if (x >= T(0) && x <= T(1)) return;
  bool is_number = x - x == T(0);
  int64_t beyond = is_number ? (int64_t)(x < T(0) ? floor_(x) : ceil_(x)) : 0;
  complain(complaints, op, is_number ? OUT_OF_RANGE : NOT_FINITE, beyond, i, 1);
}

}  // own

#define PAIR_KERNELS(T, suffix)                                                                            \
  KERNEL log_loss_##suffix(const T* xs, const T* ys, T* out, int64_t n, double epsilon) { IN_TURN;         \
    FOR_EACH(i, n) out[i] = log_loss(xs[i], ys[i], (T)epsilon);                                            \
  }                                                                                                        \
  EXPORT(log_loss_##suffix)                                                                                \
  KERNEL log_loss_grad_##suffix(const T* xs, const T* ys, const T* ds, T* dx, int64_t n, double epsilon) { IN_TURN; \
    FOR_EACH(i, n) dx[i] = log_loss_slope(xs[i], ys[i], (T)epsilon) * ds[i];                               \
  }                                                                                                        \
  EXPORT(log_loss_grad_##suffix)                                                                           \
  KERNEL bce_loss_##suffix(const T* xs, const T* ys, T* out, int64_t n, Complaint* complaints,             \
                           uint32_t op) { IN_TURN;                                                         \
    FOR_EACH(i, n) {                                                                                       \
      check_probability(xs[i], i, complaints, op);                                                         \
      out[i] = bce_loss(xs[i], ys[i]);                                                                     \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(bce_loss_##suffix)                                                                                \
  KERNEL bce_loss_grad_##suffix(const T* xs, const T* ys, const T* ds, T* dx, int64_t n) { IN_TURN;        \
    FOR_EACH(i, n) dx[i] = bce_loss_slope(xs[i], ys[i]) * ds[i];                                           \
  }                                                                                                        \
  EXPORT(bce_loss_grad_##suffix)
WIDE_FLOATS(PAIR_KERNELS)

FILE_OWN {

/// Sums over all elements, in two steps: a block adds up its share, then one block adds up the blocks.
template <typename T> INLINE void kldiv_sum(const T* xs, const T* ys, T* partials, int64_t n) {
  T sum = T(0);
  FOR_EACH(i, n) sum += kldiv_loss(xs[i], ys[i]);
  sum = block_sum(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}
template <typename T> INLINE void finish_sum(const T* partials, T* out, int64_t count, double scale) {
  T sum = T(0);
  for (int64_t i = threadIdx.x; i < count; i += BLOCK) sum += partials[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) out[0] = sum * (T)scale;
}

/// Labels that are equal to `ignore` as whole numbers do not count.
template <typename T> INLINE bool is_ignored(T label, int32_t ignore) {
  // As on the host, what is too large for a whole number is the largest one, and NaN is 0.
  double value = (double)label;
  int32_t top = 2147483647, bottom = -top - 1;
  if (value >= 2147483647.0) return ignore == top;
  if (value <= -2147483648.0) return ignore == bottom;
  return ignore == (value == value ? (int32_t)value : 0);
}

/// How many labels count, added to `count`.
template <typename T> INLINE void count_labels(const T* labels, uint64_t* count, int64_t n, int32_t ignore) {
  uint64_t own = 0;
  FOR_EACH(i, n) {
    double away = (double)labels[i] - (double)ignore;
    if ((away < 0.0 ? -away : away) > 1e-6) own++;
  }
  own = warp_sum(own);
  if (threadIdx.x % WARP_SIZE == 0 && own) atomicAdd(count, own);
}
template <typename T> INLINE T divisor(const uint64_t* count) {
  return count ? (*count > 0 ? (T)*count : T(1)) : T(1);
}

template <typename T> INLINE T sigmoid_loss(T x, T label, T weight) {
  return (x > T(0) ? x : T(0)) - x * label + log1p_(exp_(-abs_(x))) * weight;
}
template <typename T> INLINE T sigmoid_loss_slope(T x, T label, T weight) {
  T e = exp_(-abs_(x));
  return weight * ((x >= T(0) ? T(1) : e) / (T(1) + e)) - label;
}

template <typename T> INLINE T huber_loss(T residual, T delta) {
  T size = abs_(residual);
  return size <= delta ? T(0.5) * size * size : delta * (size - T(0.5) * delta);
}
template <typename T> INLINE T smooth_l1_loss(T diff, T squared) {
  T size = abs_(diff);
  return size < T(1) / squared ? T(0.5) * squared * size * size : size - T(0.5) / squared;
}
template <typename T> INLINE T smooth_l1_slope(T diff, T squared) {
  return abs_(diff) < T(1) / squared ? squared * diff : diff > T(0) ? T(1) : T(-1);
}

}  // own

#define OTHER_LOSSES(T, suffix)                                                                            \
  KERNEL kldiv_loss_##suffix(const T* xs, const T* ys, T* out, int64_t n) { IN_TURN;                       \
    FOR_EACH(i, n) out[i] = kldiv_loss(xs[i], ys[i]);                                                \
  }                                                                                                        \
  EXPORT(kldiv_loss_##suffix)                                                                              \
  KERNEL kldiv_sum_##suffix(const T* xs, const T* ys, T* partials, int64_t n) { IN_TURN;                   \
    kldiv_sum<T>(xs, ys, partials, n);                                                                     \
  }                                                                                                        \
  EXPORT(kldiv_sum_##suffix)                                                                               \
  KERNEL finish_sum_##suffix(const T* partials, T* out, int64_t count, double scale) { IN_TURN;            \
    finish_sum<T>(partials, out, count, scale);                                                            \
  }                                                                                                        \
  EXPORT(finish_sum_##suffix)                                                                              \
  /* The gradient of the loss is one for each element, or (`is_one`) one for all of them. */               \
  KERNEL kldiv_loss_grad_##suffix(const T* ys, const T* ds, T* dx, int64_t n, int32_t is_one,              \
                                  double weight) { IN_TURN;                                                \
    FOR_EACH(i, n) dx[i] = kldiv_loss_slope(ys[i]) * (ds[is_one ? 0 : i] * (T)weight);         \
  }                                                                                                        \
  EXPORT(kldiv_loss_grad_##suffix)                                                                         \
  KERNEL count_labels_##suffix(const T* labels, uint64_t* count, int64_t n, int32_t ignore) { IN_TURN;     \
    count_labels<T>(labels, count, n, ignore);                                                             \
  }                                                                                                        \
  EXPORT(count_labels_##suffix)                                                                            \
  KERNEL sigmoid_loss_##suffix(const T* xs, const T* labels, const T* weights, const uint64_t* count,      \
                               T* out, int64_t n, int32_t ignore) { IN_TURN;                               \
    T by = divisor<T>(count);                                                                              \
    FOR_EACH(i, n) {                                                                                       \
      T value = sigmoid_loss(xs[i], labels[i], weights ? weights[i] : T(1));                               \
      out[i] = (is_ignored(labels[i], ignore) ? T(0) : value) / by;                                        \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(sigmoid_loss_##suffix)                                                                            \
  KERNEL sigmoid_loss_grad_##suffix(const T* xs, const T* labels, const T* weights, const uint64_t* count, \
                                    const T* ds, T* dx, int64_t n, int32_t ignore) { IN_TURN;              \
    T by = divisor<T>(count);                                                                              \
    FOR_EACH(i, n) {                                                                                       \
      T value = ds[i] * sigmoid_loss_slope(xs[i], labels[i], weights ? weights[i] : T(1));                 \
      dx[i] = (is_ignored(labels[i], ignore) ? T(0) : value) / by;                                         \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(sigmoid_loss_grad_##suffix)                                                                       \
  KERNEL huber_loss_##suffix(const T* xs, const T* ys, T* residual, T* out, int64_t n, double delta) { IN_TURN; \
    FOR_EACH(i, n) {                                                                                       \
      T r = ys[i] - xs[i];                                                                                 \
      residual[i] = r;                                                                                     \
      out[i] = huber_loss(r, (T)delta);                                                                    \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(huber_loss_##suffix)                                                                              \
  KERNEL huber_loss_grad_##suffix(const T* residual, const T* ds, T* dx, T* dy, int64_t n, double delta_) { IN_TURN; \
    T delta = (T)delta_;                                                                                   \
    FOR_EACH(i, n) {                                                                                       \
      T r = residual[i], d = ds[i] * (r > delta ? delta : r < -delta ? -delta : r);                        \
      if (dx) dx[i] = -d;                                                                                  \
      if (dy) dy[i] = d;                                                                                   \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(huber_loss_grad_##suffix)                                                                         \
  KERNEL smooth_l1_loss_##suffix(const T* xs, const T* ys, const T* inside, const T* outside, T* diffs,    \
                                 T* out, int64_t rows, int64_t width, double squared) { IN_TURN;           \
    typedef Team<WARP_SIZE> Warp;                                                                          \
    FOR_EACH_ROW(Warp, row, rows) {                                                                        \
      T sum = T(0);                                                                                        \
      for (int64_t i = row * width + Warp::rank(); i < (row + 1) * width; i += WARP_SIZE) {                \
        T diff = (xs[i] - ys[i]) * (inside ? inside[i] : T(1));                                            \
        diffs[i] = diff;                                                                                   \
        sum += (outside ? outside[i] : T(1)) * smooth_l1_loss(diff, (T)squared);                           \
      }                                                                                                    \
      sum = warp_sum(sum);                                                                                 \
      if (Warp::rank() == 0) out[row] = sum;                                                               \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(smooth_l1_loss_##suffix)                                                                          \
  KERNEL smooth_l1_loss_grad_##suffix(const T* diffs, const T* ds, const T* inside, const T* outside,      \
                                      T* dx, T* dy, int64_t n, int64_t width, double squared) { IN_TURN;   \
    FOR_EACH(i, n) {                                                                                       \
      T weight = (inside ? inside[i] : T(1)) * (outside ? outside[i] : T(1));                              \
      T d = weight * ds[(uint32_t)i / (uint32_t)width] * smooth_l1_slope(diffs[i], (T)squared);            \
      if (dx) dx[i] = d;                                                                                   \
      if (dy) dy[i] = -d;                                                                                  \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(smooth_l1_loss_grad_##suffix)
WIDE_FLOATS(OTHER_LOSSES)
