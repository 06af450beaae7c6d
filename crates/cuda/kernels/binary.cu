// Functions of two elements with broadcasting, their gradients, comparisons and logic.
//
// Gradients are written in the full shape; those of an operand that repeats are summed afterwards
// (reduce.cu). Where a gradient is itself a product or quotient, the forward kernel computes it.
#include "broadcast.cuh"
#include "formulas.cuh"

#define BINARY_KERNEL(name, value, E, suffix)                                                              \
  KERNEL name##_##suffix(const E* xs, const E* ys, E* out, int64_t n, Broadcast shape) { IN_TURN;          \
    typedef Math<E>::type T;                                                                               \
    map_broadcast<Wide<E>::COUNT>(xs, ys, out, n, shape, [](T x, T y) -> T { return value; });             \
  }                                                                                                        \
  EXPORT(name##_##suffix)

#define BINARY_GRAD_KERNEL(name, value, E, suffix)                                                         \
  KERNEL name##_##suffix(const E* xs, const E* ys, const E* ds, E* out, int64_t n, Broadcast shape) { IN_TURN; \
    typedef Math<E>::type T;                                                                               \
    map_broadcast<Wide<E>::COUNT>(xs, ys, ds, out, n, shape, [](T x, T y, T d) -> T { return value; });    \
  }                                                                                                        \
  EXPORT(name##_##suffix)

FOR_FLOATS(BINARY_KERNEL, elementwise_add, x + y)
FOR_FLOATS(BINARY_KERNEL, elementwise_sub, x - y)
FOR_FLOATS(BINARY_KERNEL, elementwise_mul, x * y)
FOR_FLOATS(BINARY_KERNEL, elementwise_div, x / y)
FOR_FLOATS(BINARY_KERNEL, elementwise_max, x > y ? x : y)
FOR_FLOATS(BINARY_KERNEL, elementwise_min, x < y ? x : y)
FOR_FLOATS(BINARY_KERNEL, prelu, x > T(0) ? x : y * x)
FOR_SINGLE_AND_DOUBLE(BINARY_KERNEL, elementwise_pow, pow_(x, y))
FOR_FLOATS(BINARY_GRAD_KERNEL, elementwise_div_grad_y, -d * (x / y / y))
FOR_FLOATS(BINARY_GRAD_KERNEL, elementwise_max_grad_x, x > y ? d : T(0))
FOR_FLOATS(BINARY_GRAD_KERNEL, elementwise_max_grad_y, x > y ? T(0) : d)
FOR_FLOATS(BINARY_GRAD_KERNEL, elementwise_min_grad_x, x < y ? d : T(0))
FOR_FLOATS(BINARY_GRAD_KERNEL, elementwise_min_grad_y, x < y ? T(0) : d)
FOR_SINGLE_AND_DOUBLE(BINARY_GRAD_KERNEL, elementwise_pow_grad_x, d * y * pow_(x, y - T(1)))
FOR_SINGLE_AND_DOUBLE(BINARY_GRAD_KERNEL, elementwise_pow_grad_y, d * log_(x) * pow_(x, y))
FOR_FLOATS(BINARY_GRAD_KERNEL, prelu_grad_x, x > T(0) ? d : y * d)
FOR_FLOATS(BINARY_GRAD_KERNEL, prelu_grad_y, x > T(0) ? T(0) : x * d)

// Quotients rounded down, and what they leave, with the sign of the divisor.
FILE_OWN {
template <typename T> INLINE T modulo(T x, T y) {
  T rest = fmod_(x, y);
  return rest != T(0) && (rest < T(0)) != (y < T(0)) ? rest + y : rest;
}
}  // own
FOR_SINGLE_AND_DOUBLE(BINARY_KERNEL, elementwise_floordiv, floor_(x / y))
FOR_SINGLE_AND_DOUBLE(BINARY_KERNEL, elementwise_mod, modulo(x, y))

// Whole numbers: arithmetic wraps around, powers go by way of double precision.
FILE_OWN {
INLINE int32_t power(int32_t x, int32_t y) {
  return (int32_t)saturated(pow_((double)x, (double)y), -2147483647 - 1, 2147483647);
}
INLINE int64_t power(int64_t x, int64_t y) {
  return saturated(pow_((double)x, (double)y), -9223372036854775807LL - 1, 9223372036854775807LL);
}
}  // own
FOR_WHOLES(BINARY_KERNEL, elementwise_add, x + y)
FOR_WHOLES(BINARY_KERNEL, elementwise_sub, x - y)
FOR_WHOLES(BINARY_KERNEL, elementwise_mul, x * y)
FOR_WHOLES(BINARY_KERNEL, elementwise_max, x > y ? x : y)
FOR_WHOLES(BINARY_KERNEL, elementwise_min, x < y ? x : y)
FOR_WHOLES(BINARY_KERNEL, elementwise_pow, power(x, y))

// Quotients are cut off towards zero, `floordiv` rounds them down. A divisor of zero is an error, whether
// or not something is divided by it.
FILE_OWN {
template <typename T> INLINE T quotient(T x, T y) {
  // The only one that overflows, which would trap on a host, is that of the lowest number and -1.
  return y == T(0) ? T(0) : y == T(-1) ? T(0) - x : x / y;
}
template <typename T> INLINE T remainder_of(T x, T y) { return y == T(0) || y == T(-1) ? T(0) : x % y; }
template <typename T> INLINE T floor_quotient(T x, T y) {
  T cut = quotient(x, y);
  return remainder_of(x, y) != T(0) && (x < T(0)) != (y < T(0)) ? cut - T(1) : cut;
}
template <typename T> INLINE T whole_modulo(T x, T y) {
  T rest = remainder_of(x, y);
  return rest != T(0) && (rest < T(0)) != (y < T(0)) ? rest + y : rest;
}
}  // own
#define DIVISION_KERNEL(name, value, E, suffix)                                                            \
  KERNEL name##_##suffix(const E* xs, const E* ys, E* out, int64_t n, Broadcast shape, int64_t divisors,   \
                         Complaint* complaint, uint32_t op) { IN_TURN;                                     \
    ROLLED FOR_EACH(i, divisors) {                                                                         \
      if (ys[i] == E(0)) complain(complaint, op, ZERO_DIVISOR, 0, i, 0);                                   \
    }                                                                                                      \
    map_broadcast<Wide<E>::COUNT>(xs, ys, out, n, shape, [](E x, E y) -> E { return value; });             \
  }                                                                                                        \
  EXPORT(name##_##suffix)
FOR_WHOLES(DIVISION_KERNEL, elementwise_div, quotient(x, y))
FOR_WHOLES(DIVISION_KERNEL, elementwise_floordiv, floor_quotient(x, y))
FOR_WHOLES(DIVISION_KERNEL, elementwise_mod, whole_modulo(x, y))

// `label_smooth` with a distribution over the classes.
#define LABEL_SMOOTH_KERNEL(name, E, suffix)                                                               \
  KERNEL name##_##suffix(const E* xs, const E* prior, E* out, int64_t n, Broadcast shape, double keep,     \
                         double epsilon) { IN_TURN;                                                        \
    E a = (E)keep, b = (E)epsilon;                                                                         \
    map_broadcast<Wide<E>::COUNT>(xs, prior, out, n, shape, [=](E x, E y) -> E { return a * x + b * y; }); \
  }                                                                                                        \
  EXPORT(name##_##suffix)
FOR_SINGLE_AND_DOUBLE(LABEL_SMOOTH_KERNEL, label_smooth)

// Comparisons and logic, of any numbers, to truth values. Four at once, to keep what is compiled small.
#define RELATION_KERNEL(name, value, E, suffix)                                                            \
  KERNEL name##_##suffix(const E* xs, const E* ys, bool* out, int64_t n, Broadcast shape) { IN_TURN;       \
    typedef E T;                                                                                           \
    map_broadcast<sizeof(E) < 8 ? 4 : 2>(xs, ys, out, n, shape, [](T x, T y) -> bool { return value; });   \
  }                                                                                                        \
  EXPORT(name##_##suffix)
#define RELATION(name, value)                           \
  FOR_SINGLE_AND_DOUBLE(RELATION_KERNEL, name, value)   \
  FOR_WHOLES(RELATION_KERNEL, name, value)              \
  RELATION_KERNEL(name, value, uint8_t, u8)

// Floats less than 1e-8 apart are equal, as in Paddle.
FILE_OWN {
template <typename T> INLINE bool is_same(T x, T y) { return x == y; }
INLINE bool is_same(float x, float y) { return x == y || fabsf(x - y) < 1e-8f; }
INLINE bool is_same(double x, double y) { return x == y || fabs(x - y) < 1e-8; }
}  // own
RELATION(equal, is_same(x, y))
RELATION(not_equal, !is_same(x, y))
RELATION(less_than, x < y)
RELATION(less_equal, x <= y)
RELATION(logical_and, x != T(0) && y != T(0))
RELATION(logical_or, x != T(0) || y != T(0))
RELATION(logical_xor, (x != T(0)) != (y != T(0)))

#define TEST_KERNEL(name, value, E, suffix)                                                                \
  KERNEL name##_##suffix(const E* xs, bool* out, int64_t n) { IN_TURN;                                     \
    typedef Math<E>::type T;                                                                               \
    map_each<sizeof(E) < 8 ? 4 : 2>(xs, out, n, [](T x) -> bool { return value; });                        \
  }                                                                                                        \
  EXPORT(name##_##suffix)
FOR_FLOATS(TEST_KERNEL, isnan, x != x)
FOR_FLOATS(TEST_KERNEL, isinf, x - x != x - x && x == x)
FOR_FLOATS(TEST_KERNEL, isfinite, x - x == x - x)
FOR_SINGLE_AND_DOUBLE(TEST_KERNEL, logical_not, x == T(0))
FOR_WHOLES(TEST_KERNEL, logical_not, x == T(0))
TEST_KERNEL(logical_not, x == T(0), uint8_t, u8)
