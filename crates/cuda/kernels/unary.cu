// Functions of one element, and their gradients.
#include "formulas.cuh"
#include "packs.cuh"

// A long formula is written out for each element of a pack; 16-bit floats therefore go by four, not by eight.
const int PACK = 4;
template <typename E> struct Unary { static const int COUNT = sizeof(E) < 8 ? PACK : 2; };

#define VALUE_KERNEL(name, value, E, suffix)                                                               \
  KERNEL name##_##suffix(const E* xs, E* out, int64_t n, double a, double b, double c) { IN_TURN;         \
    typedef Math<E>::type T;                                                                               \
    auto f = [](T x, T a, T b, T c) -> T { return value; };                                                \
    map_each<Unary<E>::COUNT>(xs, out, n, [=](T x) { return f(x, (T)a, (T)b, (T)c); });                    \
  }                                                                                                        \
  EXPORT(name##_##suffix)

// `vs` is the input or the output of the function, whichever its gradient reads.
#define SLOPE_KERNEL(name, slope, E, suffix)                                                               \
  KERNEL name##_grad_##suffix(const E* vs, const E* ds, E* out, int64_t n, double a, double b,             \
                              double c) { IN_TURN;                                                         \
    typedef Math<E>::type T;                                                                               \
    auto f = [](T x, T y, T d, T a, T b, T c) -> T { return slope; };                                      \
    map_pairs<Unary<E>::COUNT>(vs, ds, out, n, [=](T v, T d) { return f(v, v, d, (T)a, (T)b, (T)c); });    \
  }                                                                                                        \
  EXPORT(name##_grad_##suffix)

#define OF_FLOATS(name, value, slope)          \
  FOR_FLOATS(VALUE_KERNEL, name, value)        \
  FOR_FLOATS(SLOPE_KERNEL, name, slope)
#define OF_SINGLE_AND_DOUBLE(name, value, slope)          \
  FOR_SINGLE_AND_DOUBLE(VALUE_KERNEL, name, value)        \
  FOR_SINGLE_AND_DOUBLE(SLOPE_KERNEL, name, slope)
#define OF_STEPS(name, value, slope) FOR_SINGLE_AND_DOUBLE(VALUE_KERNEL, name, value)
FORMULAS_OF_FLOATS(OF_FLOATS)
FORMULAS_OF_SINGLE_AND_DOUBLE(OF_SINGLE_AND_DOUBLE)
STEP_FORMULAS(OF_STEPS)

// Whole numbers: arithmetic wraps around, and powers go by way of double precision.
FILE_OWN {
INLINE int32_t power(int32_t x, double a) {
  return (int32_t)saturated(pow_((double)x, a), -2147483647 - 1, 2147483647);
}
INLINE int64_t power(int64_t x, double a) {
  return saturated(pow_((double)x, a), -9223372036854775807LL - 1, 9223372036854775807LL);
}
}  // own
#define WHOLE_KERNEL(name, value, E, suffix)                                                               \
  KERNEL name##_##suffix(const E* xs, E* out, int64_t n, int64_t a, int64_t b, double c) { IN_TURN;        \
    auto f = [](E x, E a, E b, double c) -> E { return value; };                                           \
    map_each<Wide<E>::COUNT>(xs, out, n, [=](E x) { return f(x, (E)a, (E)b, c); });                        \
  }                                                                                                        \
  EXPORT(name##_##suffix)
FOR_WHOLES(WHOLE_KERNEL, abs, abs_(x))
FOR_WHOLES(WHOLE_KERNEL, square, x * x)
FOR_WHOLES(WHOLE_KERNEL, clip, within_(x, a, b))
FOR_WHOLES(WHOLE_KERNEL, pow, c == 2.0 ? x * x : power(x, c))

// `x * scale + bias`, or `(x + bias) * scale`; the factor may lie on the card.
#define SCALE_KERNEL(name, E, suffix)                                                                      \
  KERNEL name##_##suffix(const E* xs, E* out, int64_t n, const double* given, double scale_, double bias_, \
                         int32_t bias_is_scaled) { IN_TURN;                                                \
    typedef Math<E>::type T;                                                                               \
    double factor = given ? *given : scale_;                                                               \
    T scale = (T)factor, bias = (T)(bias_is_scaled ? bias_ * factor : bias_);                              \
    map_each<Wide<E>::COUNT>(xs, out, n, [=](T x) -> T { return x * scale + bias; });                      \
  }                                                                                                        \
  EXPORT(name##_##suffix)
FOR_FLOATS(SCALE_KERNEL, scale)
FOR_WHOLES(SCALE_KERNEL, scale)

// The sum of up to eight tensors; those that are not there are null, the first one always is.
#define SUM_KERNEL(name, E, suffix)                                                                        \
  KERNEL name##_##suffix(const E* x0, const E* x1, const E* x2, const E* x3, const E* x4, const E* x5,     \
                         const E* x6, const E* x7, E* out, int64_t n) { IN_TURN;                           \
    typedef Math<E>::type T;                                                                               \
    const int N = Unary<E>::COUNT;                                                                         \
    const E* xs[8] = {x0, x1, x2, x3, x4, x5, x6, x7};                                                     \
    bool is_aligned = is_pack_aligned<N>(out);                                                             \
    UNROLL for (int input = 0; input < 8; input++) is_aligned &= is_pack_aligned<N>(xs[input]);            \
    int64_t packs = is_aligned ? n / N : 0;                                                                \
    ROLLED FOR_EACH(pack, packs) {                                                                         \
      Pack<E, N> y, x = load_pack<N>(xs[0] + pack * N);                                                    \
      T sums[N];                                                                                           \
      UNROLL for (int j = 0; j < N; j++) sums[j] = load(x.at[j]);                                          \
      UNROLL for (int input = 1; input < 8; input++) {                                                     \
        if (!xs[input]) continue;                                                                          \
        x = load_pack<N>(xs[input] + pack * N);                                                            \
        UNROLL for (int j = 0; j < N; j++) sums[j] += load(x.at[j]);                                       \
      }                                                                                                    \
      UNROLL for (int j = 0; j < N; j++) y.at[j] = Store<E>::of(sums[j]);                                  \
      store_pack(out + pack * N, y);                                                                       \
    }                                                                                                      \
    FOR_REST(i, packs * N, n) {                                                                            \
      T sum = load(xs[0][i]);                                                                              \
      UNROLL for (int input = 1; input < 8; input++) {                                                     \
        if (xs[input]) sum += load(xs[input][i]);                                                          \
      }                                                                                                    \
      out[i] = Store<E>::of(sum);                                                                          \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(name##_##suffix)
FOR_FLOATS(SUM_KERNEL, sum_of_tensors)
FOR_WHOLES(SUM_KERNEL, sum_of_tensors)
