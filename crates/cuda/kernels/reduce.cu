// Reductions: sums, means, extremes, products, truth, norms; and how their gradients spread.
#include "formulas.cuh"
#include "reduce.cuh"

// A reduction is two kernels: `name`, which makes results of elements (or parts of results, when the grid has
// several rows), and `name_of_parts`, which makes results of parts. `a` and `b` are attributes.
//
// REDUCTION(name, element type, suffix, type of the sum, type of a result, start,
//           element from x and y, join of p and q, result from the total t and from y)
#define REDUCTION(name, E, suffix, A, R, start, element, joined, finished)                                 \
  KERNEL name##_##suffix(const E* xs, const E* ys, R* out, A* parts, double a_, double b_,                 \
                         Reduction how) { IN_TURN;                                                         \
    typedef A T;                                                                                           \
    auto of_elements = [](T x, T y, T a) -> T { return element; };                                         \
    auto join = [](T p, T q, T a) -> T { return joined; };                                                 \
    auto finish = [](T t, T y, T a, T b) { return finished; };                                             \
    T a = (T)a_, b = (T)b_;                                                                                \
    Member me = member_of(how);                                                                            \
    T total = reduce_part<T>(                                                                              \
        how, me, start,                                                                                    \
        [=](uint32_t x, uint32_t y) { return of_elements((T)load(xs[x]), ys ? (T)load(ys[y]) : T(0), a); },  \
        [=](T p, T q) { return join(p, q, a); });                                                          \
    if (me.number || me.result >= how.results) return;                                                     \
    if (gridDim.y > 1)                                                                                     \
      parts[(uint64_t)me.result * gridDim.y + blockIdx.y] = total;                                         \
    else                                                                                                   \
      out[me.result] = Store<R>::of(finish(total, ys ? (T)load(ys[me.result]) : T(0), a, b));              \
  }                                                                                                        \
  EXPORT(name##_##suffix)                                                                                  \
  KERNEL name##_of_parts_##suffix(const A* parts, const E* ys, R* out, uint32_t results, uint32_t count,   \
                                  double a_, double b_) { IN_TURN;                                         \
    typedef A T;                                                                                           \
    auto join = [](T p, T q, T a) -> T { return joined; };                                                 \
    auto finish = [](T t, T y, T a, T b) { return finished; };                                             \
    T a = (T)a_, b = (T)b_;                                                                                \
    uint32_t result = (uint32_t)(thread_number() / WARP_SIZE);                                             \
    if (result >= results) return;                                                                         \
    T total = join_parts<T>(parts, result, count, start, [=](T p, T q) { return join(p, q, a); });         \
    if (threadIdx.x % WARP_SIZE == 0)                                                                      \
      out[result] = Store<R>::of(finish(total, ys ? (T)load(ys[result]) : T(0), a, b));                    \
  }                                                                                                        \
  EXPORT(name##_of_parts_##suffix)

// A sum; `a` is what it is multiplied with.
#define SUM(name, E, suffix, A) REDUCTION(name, E, suffix, A, E, T(0), x, p + q, t * a)
SUM(reduce_sum, float, f32, float)
SUM(reduce_sum, double, f64, double)
SUM(reduce_sum, bf16, bf16, float)
SUM(reduce_sum, f16, f16, float)
SUM(reduce_sum, int32_t, i32, int32_t)
SUM(reduce_sum, int64_t, i64, int64_t)

// A sum of products of two operands: the gradient of a factor that repeats.
#define DOT(name, E, suffix, A)                                                                            \
  KERNEL name##_##suffix(const E* xs, const E* ys, E* out, A* parts, Reduction how) { IN_TURN;             \
    Member me = member_of(how);                                                                            \
    A total = reduce_part<A>(                                                                              \
        how, me, A(0), [=](uint32_t x, uint32_t y) -> A { return load(xs[x]) * load(ys[y]); },             \
        [](A p, A q) { return p + q; });                                                                   \
    if (me.number || me.result >= how.results) return;                                                     \
    if (gridDim.y > 1)                                                                                     \
      parts[(uint64_t)me.result * gridDim.y + blockIdx.y] = total;                                         \
    else                                                                                                   \
      out[me.result] = Store<E>::of(total);                                                                \
  }                                                                                                        \
  EXPORT(name##_##suffix)
DOT(reduce_dot, float, f32, float)
DOT(reduce_dot, double, f64, double)
DOT(reduce_dot, bf16, bf16, float)
DOT(reduce_dot, f16, f16, float)

// A sum of squares; `b` is added before the root is taken, unless it is negative: then there is no root.
#define SQUARES(name, E, suffix, A) \
  REDUCTION(name, E, suffix, A, E, T(0), x * x, p + q, b < T(0) ? t : sqrt_(t + b))
SQUARES(reduce_squares, float, f32, float)
SQUARES(reduce_squares, double, f64, double)
SQUARES(reduce_squares, bf16, bf16, float)
SQUARES(reduce_squares, f16, f16, float)

// Extremes; NaN is never one.
FILE_OWN {
INLINE float infinity() { return __uint_as_float(0x7f800000u); }
template <typename T> INLINE T highest();
template <> INLINE float highest<float>() { return infinity(); }
template <> INLINE double highest<double>() { return infinity(); }
template <> INLINE int32_t highest<int32_t>() { return 2147483647; }
template <> INLINE int64_t highest<int64_t>() { return 9223372036854775807LL; }
template <typename T> INLINE T lowest();
template <> INLINE float lowest<float>() { return -infinity(); }
template <> INLINE double lowest<double>() { return -infinity(); }
template <> INLINE int32_t lowest<int32_t>() { return -2147483647 - 1; }
template <> INLINE int64_t lowest<int64_t>() { return -9223372036854775807LL - 1; }
}  // own

#define EXTREMES_AND_PRODUCTS(E, suffix)                                                       \
  REDUCTION(reduce_max, E, suffix, E, E, lowest<E>(), x, q > p ? q : p, t)                     \
  REDUCTION(reduce_min, E, suffix, E, E, highest<E>(), x, q < p ? q : p, t)                    \
  REDUCTION(reduce_prod, E, suffix, E, E, E(1), x, p * q, t)
EXTREMES_AND_PRODUCTS(float, f32)
EXTREMES_AND_PRODUCTS(double, f64)
EXTREMES_AND_PRODUCTS(int32_t, i32)
EXTREMES_AND_PRODUCTS(int64_t, i64)

// Truth: any number but zero is true. Sums are 1 or 0.
#define TRUTH_KERNEL(name, start, joined, E, suffix)                                                       \
  KERNEL name##_##suffix(const E* xs, bool* out, uint8_t* parts, Reduction how) { IN_TURN;                 \
    Member me = member_of(how);                                                                            \
    uint32_t total = reduce_part<uint32_t>(                                                                \
        how, me, start, [=](uint32_t x, uint32_t) -> uint32_t { return xs[x] != E(0); },                   \
        [](uint32_t p, uint32_t q) -> uint32_t { return joined; });                                        \
    if (me.number || me.result >= how.results) return;                                                     \
    if (gridDim.y > 1)                                                                                     \
      parts[(uint64_t)me.result * gridDim.y + blockIdx.y] = (uint8_t)total;                                \
    else                                                                                                   \
      out[me.result] = total != 0;                                                                         \
  }                                                                                                        \
  EXPORT(name##_##suffix)
#define TRUTH(name, start, joined)                            \
  FOR_SINGLE_AND_DOUBLE(TRUTH_KERNEL, name, start, joined)    \
  FOR_WHOLES(TRUTH_KERNEL, name, start, joined)               \
  TRUTH_KERNEL(name, start, joined, uint8_t, u8)
TRUTH(reduce_any, 0u, p | q)
TRUTH(reduce_all, 1u, p & q)

// What `logsumexp` is made of: no exponential exceeds 1. Infinities would be subtracted from themselves.
FILE_OWN {
template <typename T> INLINE T shift_of(T top) {
  return top > lowest<T>() && top < highest<T>() ? top : T(0);
}
}  // own
#define EXPONENTIALS(E, suffix) \
  REDUCTION(reduce_exp, E, suffix, E, E, T(0), exp_(x - shift_of(y)), p + q, shift_of(y) + log_(t))
EXPONENTIALS(float, f32)
EXPONENTIALS(double, f64)

// What the gradient of a product needs: that of the factors that are not zero, and how many are.
#define BESIDE_ZEROS(E, suffix)                                                                   \
  REDUCTION(reduce_nonzero_prod, E, suffix, E, E, E(1), x == E(0) ? E(1) : x, p * q, t)           \
  REDUCTION(reduce_zeros, E, suffix, E, E, E(0), x == E(0) ? E(1) : E(0), p + q, t)
BESIDE_ZEROS(float, f32)
BESIDE_ZEROS(double, f64)

// Norms of order `a`, in double precision, which keeps high powers in range. Order 0 counts what is not
// zero; the infinite ones are the largest and the smallest distance from zero.
FILE_OWN {
INLINE double p_norm_element(double x, double order) {
  double size = fabs(x);
  if (order == 0.0) return size != 0.0 ? 1.0 : 0.0;
  if (order == 1.0 || order - order != 0.0) return size;
  return order == 2.0 ? size * size : pow_(size, order);
}
INLINE double p_norm_join(double p, double q, double order) {
  if (order == infinity()) return q > p ? q : p;
  if (order == -infinity()) return q < p ? q : p;
  return p + q;
}
INLINE double p_norm_result(double t, double order) {
  if (order == 0.0 || order == 1.0 || order - order != 0.0) return t;
  return order == 2.0 ? sqrt(t) : pow_(t, 1.0 / order);
}
INLINE double p_norm_start(double order) { return order == -infinity() ? infinity() : 0.0; }
}  // own
#define P_NORM(E, suffix)                                                                                  \
  REDUCTION(p_norm, E, suffix, double, E, p_norm_start(a), p_norm_element(x, a), p_norm_join(p, q, a),     \
            p_norm_result(t, a))
P_NORM(float, f32)
P_NORM(double, f64)

// Gradients. `os` and `ds`, the result and what comes back for it, repeat along the reduced axes.
#define SPREAD_KERNEL(name, value, E, suffix)                                                              \
  KERNEL name##_##suffix(const E* xs, const E* os, const E* ds, const E* zs, E* out, int64_t n, double a_, \
                         double b_, Broadcast shape) { IN_TURN;                                            \
    typedef Math<E>::type T;                                                                               \
    auto f = [](T x, T o, T d, T z, T a, T b) -> T { return value; };                                      \
    T a = (T)a_, b = (T)b_;                                                                                \
    ROLLED FOR_EACH(i, n) {                                                                                \
      Places at = find_places(shape.axes, i);                                                              \
      out[i] = Store<E>::of(f(xs ? T(load(xs[at.x])) : T(0), os ? T(load(os[at.y])) : T(0),                \
                              load(ds[at.y]), zs ? T(load(zs[at.y])) : T(0), a, b));                       \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(name##_##suffix)
FOR_SINGLE_AND_DOUBLE(SPREAD_KERNEL, spread_extreme, x == o ? d : T(0))
FOR_SINGLE_AND_DOUBLE(SPREAD_KERNEL, spread_logsumexp, d * exp_(x - o))
// `o` is the product of the factors that are not zero, `z` how many are.
FOR_SINGLE_AND_DOUBLE(SPREAD_KERNEL, spread_prod,
                      x == T(0) ? (z == T(1) ? o * d : T(0)) : (z == T(0) ? o * d / x : T(0)))
// `a` is the order, `b` a little that keeps from dividing by zero.
FILE_OWN {
template <typename T> INLINE T p_norm_slope(T x, T o, T d, T order, T epsilon) {
  if (order == T(0)) return T(0);
  if (order - order != T(0)) return abs_(x) == o ? sign_(x) * d : T(0);
  if (order == T(1)) return sign_(x) * d;
  T ratio = abs_(x) / (o + epsilon);
  return sign_(x) * (order == T(2) ? ratio : pow_(ratio, order - T(1))) * d;
}
}  // own
FOR_SINGLE_AND_DOUBLE(SPREAD_KERNEL, spread_p_norm, p_norm_slope(x, o, d, a, b))

// The gradient of a sum or mean: `a` times what comes back for the result.
#define SPREAD_SUM_KERNEL(name, E, suffix)                                                                 \
  KERNEL name##_##suffix(const E* ds, E* out, int64_t n, double a, Broadcast shape) { IN_TURN;             \
    typedef Math<E>::type T;                                                                               \
    map_broadcast<Wide<E>::COUNT>(ds, ds, out, n, shape, [=](T, T d) -> T { return (T)a * d; });           \
  }                                                                                                        \
  EXPORT(name##_##suffix)
FOR_FLOATS(SPREAD_SUM_KERNEL, spread_sum)

// The gradient of `norm`: `ss` holds the sums of `x * d` along a line, `ns` its norm.
#define SPREAD_NORM_KERNEL(name, E, suffix)                                                                \
  KERNEL name##_##suffix(const E* xs, const E* ds, const E* ss, const E* ns, E* out, int64_t n,            \
                         Broadcast shape) { IN_TURN;                                                       \
    ROLLED FOR_EACH(i, n) {                                                                                \
      Places at = find_places(shape.axes, i);                                                              \
      E norm = ns[at.y], along = ss[at.y] / (norm * norm);                                                 \
      out[i] = (ds[i] - xs[i] * along) / norm;                                                             \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(name##_##suffix)
FOR_SINGLE_AND_DOUBLE(SPREAD_NORM_KERNEL, spread_norm)

// `x`, scaled down to norm `max_norm` when its norm is larger; `square` is the sum of its squares.
#define CLIP_NORM_KERNEL(name, E, suffix)                                                                  \
  KERNEL name##_##suffix(const E* xs, const E* square, E* out, int64_t n, double max_norm) { IN_TURN;      \
    E norm = sqrt_(*square), most = (E)max_norm, factor = most / norm;                                     \
    bool is_longer = norm > most;                                                                          \
    map_each<Wide<E>::COUNT>(xs, out, n, [=](E x) { return is_longer ? x * factor : x; });                 \
  }                                                                                                        \
  EXPORT(name##_##suffix)
FOR_SINGLE_AND_DOUBLE(CLIP_NORM_KERNEL, clip_by_norm)

// The gradient of a sum of squares: `2 * x` times one number.
#define SQUARES_GRAD_KERNEL(name, E, suffix)                                                               \
  KERNEL name##_##suffix(const E* xs, const E* d, E* out, int64_t n) { IN_TURN;                            \
    typedef Math<E>::type T;                                                                               \
    T factor = T(2) * load(*d);                                                                            \
    map_each<Wide<E>::COUNT>(xs, out, n, [=](T x) { return factor * x; });                                 \
  }                                                                                                        \
  EXPORT(name##_##suffix)
FOR_SINGLE_AND_DOUBLE(SQUARES_GRAD_KERNEL, squared_l2_norm_grad)
