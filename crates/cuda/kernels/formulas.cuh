// The functions of one element, and their slopes: one table for the card. `x` is the input, `y` the
// output, `d` the gradient that comes back; `a`, `b`, `c` are the op's attributes.
// The engine's kernels (crates/engine/src/ops/activation and math) are the reference.
#pragma once
#include "prelude.cuh"

// Double precision is called, not inlined: it is long, and most of what would be compiled. So are the few
// long ones of single precision.
#ifdef EMULATED_CARD
#define OUTLINE static inline
#else
#define OUTLINE static __device__ __noinline__
#endif

INLINE float exp_(float x) { return expf(x); }
OUTLINE double exp_(double x) { return exp(x); }
INLINE float expm1_(float x) { return expm1f(x); }
OUTLINE double expm1_(double x) { return expm1(x); }
INLINE float log_(float x) { return logf(x); }
OUTLINE double log_(double x) { return log(x); }
INLINE float log1p_(float x) { return log1pf(x); }
OUTLINE double log1p_(double x) { return log1p(x); }
INLINE float log2_(float x) { return log2f(x); }
OUTLINE double log2_(double x) { return log2(x); }
INLINE float log10_(float x) { return log10f(x); }
OUTLINE double log10_(double x) { return log10(x); }
INLINE float tanh_(float x) { return tanhf(x); }
OUTLINE double tanh_(double x) { return tanh(x); }
INLINE float erf_(float x) { return erff(x); }
OUTLINE double erf_(double x) { return erf(x); }
INLINE float sqrt_(float x) { return sqrtf(x); }
INLINE double sqrt_(double x) { return sqrt(x); }
OUTLINE float pow_(float x, float y) { return powf(x, y); }
OUTLINE double pow_(double x, double y) { return pow(x, y); }
OUTLINE float sin_(float x) { return sinf(x); }
OUTLINE double sin_(double x) { return sin(x); }
OUTLINE float cos_(float x) { return cosf(x); }
OUTLINE double cos_(double x) { return cos(x); }
INLINE float floor_(float x) { return floorf(x); }
INLINE double floor_(double x) { return floor(x); }
INLINE float ceil_(float x) { return ceilf(x); }
INLINE double ceil_(double x) { return ceil(x); }
// Half away from zero, as on the host.
INLINE float round_(float x) { return roundf(x); }
INLINE double round_(double x) { return round(x); }
OUTLINE float fmod_(float x, float y) { return fmodf(x, y); }
OUTLINE double fmod_(double x, double y) { return fmod(x, y); }
template <typename T> INLINE T abs_(T x) { return x < T(0) ? -x : x; }
INLINE float abs_(float x) { return fabsf(x); }
INLINE double abs_(double x) { return fabs(x); }
template <typename T> INLINE T sign_(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : x; }
template <typename T> INLINE T sigmoid_(T x) { return T(1) / (T(1) + exp_(-x)); }
// NaN is on neither side of a limit, and stays NaN.
template <typename T> INLINE T within_(T x, T low, T high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}
// Where NaN becomes the limit.
template <typename T> INLINE T cut_(T x, T low, T high) {
  x = x > low ? x : low;
  return x < high ? x : high;
}
// A whole number that is as close as there is; 0 for NaN.
INLINE int64_t saturated(double x, int64_t low, int64_t high) {
  return x != x ? 0 : x <= (double)low ? low : x >= (double)high ? high : (int64_t)x;
}
template <typename T> INLINE T swish_slope_(T x, T d, T beta) {
  T sigmoid = sigmoid_(beta * x);
  return d * sigmoid * (T(1) + beta * x * (T(1) - sigmoid));
}
template <typename T> INLINE T mish_tanh_(T x, T top) {
  T inner = x > top ? x : exp_(x);
  if (x <= top && x >= -top) inner = log1p_(inner);
  return tanh_(inner);
}
template <typename T> INLINE T mish_slope_(T x, T d, T top) {
  T tanh = mish_tanh_(x, top);
  return d * (tanh + x * (T(1) - tanh * tanh) * sigmoid_(x));
}
template <typename T> INLINE T phi_(T x) { return T(0.5) * (T(1) + erf_(x * T(0.70710678118654752440))); }
const double SQRT_2_OVER_PI = 0.79788456080286535588;
const double INV_SQRT_TAU = 0.39894228040143267794;
const double GELU_CUBIC = 0.044715;
template <typename T> INLINE T gelu_tanh_(T x) {
  return tanh_(T(SQRT_2_OVER_PI) * (x + T(GELU_CUBIC) * x * x * x));
}
template <typename T> INLINE T gelu_tanh_slope_(T x, T d) {
  T tanh = gelu_tanh_(x), inner = T(SQRT_2_OVER_PI) * (T(1) + T(3 * GELU_CUBIC) * x * x);
  return d * T(0.5) * (T(1) + tanh + x * (T(1) - tanh * tanh) * inner);
}
template <typename T> INLINE T hard_swish_slope_(T x, T d, T top, T scale, T offset) {
  T moved = x + offset;
  return moved <= T(0) ? T(0) : moved < top ? d * (x + moved) / scale : d * top / scale;
}

// F(name, value of x, gradient from x or y, and d). `T` is the type that is computed with; which of input
// and output a gradient reads is said once more in lower/unary.rs.

// What `amp` may run in 16 bits.
#define FORMULAS_OF_FLOATS(F)                                                                              \
  F(abs, abs_(x), d * sign_(x))                                                                            \
  F(exp, exp_(x), d * y)                                                                                   \
  F(log, log_(x), d / x)                                                                                   \
  F(sqrt, sqrt_(x), T(0.5) * d / y)                                                                        \
  F(square, x * x, T(2) * x * d)                                                                           \
  F(clip, within_(x, a, b), x > a && x < b ? d : T(0))                                                     \
  F(relu, x > T(0) ? x : T(0), y > T(0) ? d : T(0))                                                        \
  F(relu6, within_(x, T(0), a), y > T(0) && y < a ? d : T(0))                                              \
  F(leaky_relu, x < T(0) ? a * x : x, x < T(0) ? a * d : d)                                                \
  F(sigmoid, sigmoid_(x), d * y * (T(1) - y))                                                              \
  F(tanh, tanh_(x), d * (T(1) - y * y))                                                                    \
  F(swish, x * sigmoid_(a * x), swish_slope_(x, d, a))                                                     \
  F(gelu, x * phi_(x), d * (phi_(x) + x * (exp_(x * x * T(-0.5)) * T(INV_SQRT_TAU))))                      \
  F(gelu_tanh, T(0.5) * x * (T(1) + gelu_tanh_(x)), gelu_tanh_slope_(x, d))                                \
  F(hard_sigmoid, within_(a * x + b, T(0), T(1)), y > T(0) && y < T(1) ? d * a : T(0))                     \
  F(hard_swish, x * cut_(x + c, T(0), a) / b, hard_swish_slope_(x, d, a, b, c))

// The others. `b` of `pow` is `a - 1`.
#define FORMULAS_OF_SINGLE_AND_DOUBLE(F)                                                                   \
  F(rsqrt, T(1) / sqrt_(x), T(-0.5) * d * y * y * y)                                                       \
  F(reciprocal, T(1) / x, -d * y * y)                                                                      \
  F(brelu, cut_(x, a, b), x > a && x < b ? d : T(0))                                                       \
  F(elu, x > T(0) ? x : a * (exp_(x) - T(1)), x > T(0) ? d : d * a * exp_(x))                              \
  F(selu, a * (x > T(0) ? x : b * (exp_(x) - T(1))), d * (y > T(0) ? a : y + a * b))                       \
  F(softsign, x / (T(1) + abs_(x)), d / ((T(1) + abs_(x)) * (T(1) + abs_(x))))                             \
  F(softplus, a * x > b ? x : log1p_(exp_(a * x)) / a, a * x > b ? d : d * sigmoid_(a * x))                \
  F(mish, x * mish_tanh_(x, a), mish_slope_(x, d, a))                                                      \
  F(expm1, expm1_(x), d * (y + T(1)))                                                                      \
  F(log1p, log1p_(x), d / (x + T(1)))                                                                      \
  F(log2, log2_(x), d / (x * T(0.69314718055994530942)))                                                   \
  F(log10, log10_(x), d / (x * T(2.30258509299404568402)))                                                 \
  F(pow, a == T(2) ? x * x : pow_(x, a), d * a * pow_(x, b))                                               \
  F(sin, sin_(x), d * cos_(x))                                                                             \
  F(cos, cos_(x), -d * sin_(x))                                                                            \
  F(erf, erf_(x), d * T(1.12837916709551257390) * exp_(-(x * x)))

// Step functions; their gradients are zero.
#define STEP_FORMULAS(F)     \
  F(sign, sign_(x), T(0))    \
  F(floor, floor_(x), T(0))  \
  F(ceil, ceil_(x), T(0))    \
  F(round, round_(x), T(0))
