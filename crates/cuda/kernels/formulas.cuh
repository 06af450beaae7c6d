// The functions of one and of two elements, and their slopes: one table for the card. `x` is the
// input, `y` the output, `d` the gradient that comes back; `a`, `b`, `c` are the op's attributes.
// The engine's kernels (crates/engine/src/ops/activation, math, elementwise) are the reference.
#pragma once
#include "prelude.cuh"

INLINE float exp_(float x) { return expf(x); }
INLINE double exp_(double x) { return exp(x); }
INLINE float expm1_(float x) { return expm1f(x); }
INLINE double expm1_(double x) { return expm1(x); }
INLINE float log_(float x) { return logf(x); }
INLINE double log_(double x) { return log(x); }
INLINE float log1p_(float x) { return log1pf(x); }
INLINE double log1p_(double x) { return log1p(x); }
INLINE float log2_(float x) { return log2f(x); }
INLINE double log2_(double x) { return log2(x); }
INLINE float log10_(float x) { return log10f(x); }
INLINE double log10_(double x) { return log10(x); }
INLINE float tanh_(float x) { return tanhf(x); }
INLINE double tanh_(double x) { return tanh(x); }
INLINE float erf_(float x) { return erff(x); }
INLINE double erf_(double x) { return erf(x); }
INLINE float sqrt_(float x) { return sqrtf(x); }
INLINE double sqrt_(double x) { return sqrt(x); }
INLINE float pow_(float x, float y) { return powf(x, y); }
INLINE double pow_(double x, double y) { return pow(x, y); }
INLINE float sin_(float x) { return sinf(x); }
INLINE double sin_(double x) { return sin(x); }
INLINE float cos_(float x) { return cosf(x); }
INLINE double cos_(double x) { return cos(x); }
INLINE float floor_(float x) { return floorf(x); }
INLINE double floor_(double x) { return floor(x); }
INLINE float ceil_(float x) { return ceilf(x); }
INLINE double ceil_(double x) { return ceil(x); }
// Half away from zero, as on the host.
INLINE float round_(float x) { return roundf(x); }
INLINE double round_(double x) { return round(x); }
INLINE float fmod_(float x, float y) { return fmodf(x, y); }
INLINE double fmod_(double x, double y) { return fmod(x, y); }
template <typename T> INLINE T abs_(T x) { return x < T(0) ? -x : x; }
template <typename T> INLINE T sign_(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : x; }
template <typename T> INLINE T sigmoid_(T x) { return T(1) / (T(1) + exp_(-x)); }
// NaN is on neither side of a limit, and stays NaN.
template <typename T> INLINE T within_(T x, T low, T high) {
  x = x < low ? low : x;
  return x > high ? high : x;
}
template <typename T> INLINE T phi_(T x) { return T(0.5) * (T(1) + erf_(x * T(0.70710678118654752440))); }
template <typename T> INLINE T mish_inner_(T x, T top) {
  return x > top ? x : x < -top ? exp_(x) : log1p_(exp_(x));
}
const double SQRT_2_OVER_PI = 0.79788456080286535588;
const double INV_SQRT_TAU = 0.39894228040143267794;
template <typename T> INLINE T gelu_tanh_(T x) { return tanh_(T(SQRT_2_OVER_PI) * (x + T(0.044715) * x * x * x)); }

// UNARY(name, value of x, gradient from x, y and d); `T` is the type that is computed with.
#define UNARY_FORMULAS(UNARY)                                                                              \
  UNARY(abs, abs_(x), d * sign_(x))                                                                        \
  UNARY(sign, sign_(x), T(0))                                                                              \
  UNARY(exp, exp_(x), d * y)                                                                               \
  UNARY(expm1, expm1_(x), d * (y + T(1)))                                                                  \
  UNARY(log, log_(x), d / x)                                                                               \
  UNARY(log1p, log1p_(x), d / (x + T(1)))                                                                  \
  UNARY(log2, log2_(x), d / (x * T(0.69314718055994530942)))                                               \
  UNARY(log10, log10_(x), d / (x * T(2.30258509299404568402)))                                             \
  UNARY(sqrt, sqrt_(x), T(0.5) * d / y)                                                                    \
  UNARY(rsqrt, T(1) / sqrt_(x), T(-0.5) * d * y * y * y)                                                   \
  UNARY(square, x * x, T(2) * x * d)                                                                       \
  UNARY(reciprocal, T(1) / x, -d * y * y)                                                                  \
  UNARY(pow, a == T(2) ? x * x : pow_(x, a), d * a * pow_(x, a - T(1)))                                    \
  UNARY(sin, sin_(x), d * cos_(x))                                                                         \
  UNARY(cos, cos_(x), -d * sin_(x))                                                                        \
  UNARY(floor, floor_(x), T(0))                                                                            \
  UNARY(ceil, ceil_(x), T(0))                                                                              \
  UNARY(round, round_(x), T(0))                                                                            \
  UNARY(erf, erf_(x), d * T(1.12837916709551257390) * exp_(-(x * x)))                                      \
  UNARY(scale, x * a + b, d * a)                                                                           \
  UNARY(clip, within_(x, a, b), x > a && x < b ? d : T(0))                                                 \
  UNARY(relu, x > T(0) ? x : T(0), y > T(0) ? d : T(0))                                                    \
  UNARY(relu6, within_(x, T(0), a), y > T(0) && y < a ? d : T(0))                                          \
  UNARY(brelu, (x > a ? x : a) < b ? (x > a ? x : a) : b, x > a && x < b ? d : T(0))                       \
  UNARY(leaky_relu, x < T(0) ? a * x : x, x < T(0) ? a * d : d)                                            \
  UNARY(elu, x > T(0) ? x : a * (exp_(x) - T(1)), x > T(0) ? d : d * a * exp_(x))                          \
  UNARY(selu, a * (x > T(0) ? x : b * (exp_(x) - T(1))), d * (y > T(0) ? a : y + a * b))                   \
  UNARY(sigmoid, sigmoid_(x), d * y * (T(1) - y))                                                          \
  UNARY(tanh, tanh_(x), d * (T(1) - y * y))                                                                \
  UNARY(softsign, x / (T(1) + abs_(x)), d / ((T(1) + abs_(x)) * (T(1) + abs_(x))))                         \
  UNARY(softplus, a * x > b ? x : log1p_(exp_(a * x)) / a, a * x > b ? d : d * sigmoid_(a * x))            \
  UNARY(swish, x * sigmoid_(a * x),                                                                        \
        d * sigmoid_(a * x) * (T(1) + a * x * (T(1) - sigmoid_(a * x))))                                   \
  UNARY(mish, x * tanh_(mish_inner_(x, a)),                                                                \
        d * (tanh_(mish_inner_(x, a)) +                                                                    \
             x * (T(1) - tanh_(mish_inner_(x, a)) * tanh_(mish_inner_(x, a))) * sigmoid_(x)))              \
  UNARY(gelu, x * phi_(x), d * (phi_(x) + x * exp_(x * x * T(-0.5)) * T(INV_SQRT_TAU)))                    \
  UNARY(gelu_tanh, T(0.5) * x * (T(1) + gelu_tanh_(x)),                                                    \
        d * T(0.5) * (T(1) + gelu_tanh_(x) +                                                               \
                      x * (T(1) - gelu_tanh_(x) * gelu_tanh_(x)) * T(SQRT_2_OVER_PI) *                     \
                          (T(1) + T(3 * 0.044715) * x * x)))                                               \
  UNARY(hard_sigmoid, within_(a * x + b, T(0), T(1)), y > T(0) && y < T(1) ? d * a : T(0))                 \
  UNARY(hard_swish, x * within_(x + c, T(0), a) / b,                                                       \
        x + c <= T(0) ? T(0) : x + c < a ? d * (x + x + c) / b : d * a / b)

// BINARY(name, value of x and y, gradients of x and of y from x, y, the output o and d).
#define BINARY_FORMULAS(BINARY)                                                                            \
  BINARY(add, x + y, d, d)                                                                                 \
  BINARY(sub, x - y, d, -d)                                                                                \
  BINARY(mul, x * y, d * y, d * x)                                                                         \
  BINARY(div, x / y, d / y, -d * o / y)                                                                    \
  BINARY(max, x > y || x != x ? x : y, x > y ? d : T(0), x > y ? T(0) : d)                                 \
  BINARY(min, x < y || x != x ? x : y, x < y ? d : T(0), x < y ? T(0) : d)                                 \
  BINARY(pow, pow_(x, y), d * y * pow_(x, y - T(1)), d * log_(x) * o)
