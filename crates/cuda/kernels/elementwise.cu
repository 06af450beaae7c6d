// Functions of one and of two elements, with their gradients.
//
// Inputs of other shapes are broadcast: `Shape` says for every dimension of the output how far each
// input moves (0 where it has one element). A gradient of a broadcast input is written in the shape of the
// output and summed afterwards (reduce.cu).
#include "formulas.cuh"

const int MAX_RANK = 6;

/// The output's dimensions, outermost first, and the steps of up to three inputs.
struct Shape {
  int32_t rank;
  uint32_t dims[MAX_RANK];
  uint32_t steps[3][MAX_RANK];
};

/// Where the inputs of output element `i` lie.
template <int INPUTS> INLINE void offsets(const Shape& shape, uint32_t i, uint32_t* at) {
  UNROLL for (int input = 0; input < INPUTS; input++) at[input] = 0;
  for (int axis = shape.rank - 1; axis >= 0; axis--) {
    uint32_t rest = i / shape.dims[axis], position = i - rest * shape.dims[axis];
    UNROLL for (int input = 0; input < INPUTS; input++) at[input] += position * shape.steps[input][axis];
    i = rest;
  }
}

#define UNARY_KERNELS(name, value, slope, E, suffix)                                                       \
  KERNEL name##_##suffix(const E* xs, E* out, int64_t n, double a_, double b_, double c_) {               \
    typedef Math<E>::type T;                                                                               \
    T a = (T)a_, b = (T)b_, c = (T)c_;                                                                     \
    (void)a, (void)b, (void)c;                                                                             \
    FOR_EACH(i, n) {                                                                                       \
      T x = load(xs[i]);                                                                                   \
      out[i] = Store<E>::of(value);                                                                        \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(name##_##suffix)                                                                                  \
  KERNEL name##_grad_##suffix(const E* xs, const E* ys, const E* ds, E* out, int64_t n, double a_,         \
                              double b_, double c_) {                                                      \
    typedef Math<E>::type T;                                                                               \
    T a = (T)a_, b = (T)b_, c = (T)c_;                                                                     \
    (void)a, (void)b, (void)c;                                                                             \
    FOR_EACH(i, n) {                                                                                       \
      /* A gradient reads the input or the output; the other one is not given. */                          \
      T x = xs ? T(load(xs[i])) : T(0), y = ys ? T(load(ys[i])) : T(0), d = load(ds[i]);                    \
      (void)x, (void)y;                                                                                    \
      out[i] = Store<E>::of(slope);                                                                        \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(name##_grad_##suffix)

#define BINARY_KERNELS(name, value, slope_x, slope_y, E, suffix)                                           \
  KERNEL name##2_##suffix(const E* xs, const E* ys, E* out, int64_t n) {                                   \
    typedef Math<E>::type T;                                                                               \
    FOR_EACH(i, n) {                                                                                       \
      T x = load(xs[i]), y = load(ys[i]);                                                                  \
      out[i] = Store<E>::of(value);                                                                        \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(name##2_##suffix)                                                                                 \
  KERNEL name##2_broadcast_##suffix(const E* xs, const E* ys, E* out, int64_t n, Shape shape) {            \
    typedef Math<E>::type T;                                                                               \
    FOR_EACH(i, n) {                                                                                       \
      uint32_t at[2];                                                                                      \
      offsets<2>(shape, (uint32_t)i, at);                                                                  \
      T x = load(xs[at[0]]), y = load(ys[at[1]]);                                                          \
      out[i] = Store<E>::of(value);                                                                        \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(name##2_broadcast_##suffix)

#define BINARY_GRAD_KERNELS(name, value, slope_x, slope_y, E, suffix)                                      \
  /* Both gradients in the shape of the output; one that is not wanted is null. */                         \
  KERNEL name##2_grad_##suffix(const E* xs, const E* ys, const E* os, const E* ds, E* dx, E* dy,           \
                               int64_t n, Shape shape) {                                                   \
    typedef Math<E>::type T;                                                                               \
    FOR_EACH(i, n) {                                                                                       \
      uint32_t at[2];                                                                                      \
      offsets<2>(shape, (uint32_t)i, at);                                                                  \
      T x = load(xs[at[0]]), y = load(ys[at[1]]), o = os ? T(load(os[i])) : T(0), d = load(ds[i]);          \
      (void)x, (void)y, (void)o;                                                                           \
      if (dx) dx[i] = Store<E>::of(slope_x);                                                               \
      if (dy) dy[i] = Store<E>::of(slope_y);                                                               \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(name##2_grad_##suffix)

#define FLOATS(KERNELS, ...)               \
  KERNELS(__VA_ARGS__, float, f32)         \
  KERNELS(__VA_ARGS__, double, f64)        \
  KERNELS(__VA_ARGS__, bf16, bf16)         \
  KERNELS(__VA_ARGS__, f16, f16)
#define UNARY(name, value, slope) FLOATS(UNARY_KERNELS, name, value, slope)
UNARY_FORMULAS(UNARY)
#define BINARY(name, value, slope_x, slope_y)               \
  FLOATS(BINARY_KERNELS, name, value, slope_x, slope_y)     \
  FLOATS(BINARY_GRAD_KERNELS, name, value, slope_x, slope_y)
BINARY_FORMULAS(BINARY)

// Whole numbers: arithmetic wraps around; a quotient is cut off towards zero, `floordiv` rounds down
// and `mod` has the sign of the divisor.
template <typename T> INLINE T floor_over(T x, T y) {
  T q = x / y;
  return (x % y != 0 && (x < 0) != (y < 0)) ? q - 1 : q;
}
template <typename T> INLINE T modulo(T x, T y) {
  T rest = x % y;
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
INLINE float floor_over(float x, float y) { return floorf(x / y); }
INLINE double floor_over(double x, double y) { return floor(x / y); }
INLINE float modulo(float x, float y) {
  float rest = fmodf(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
INLINE double modulo(double x, double y) {
  double rest = fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
#define WHOLE(KERNELS, ...)              \
  KERNELS(__VA_ARGS__, int32_t, i32)     \
  KERNELS(__VA_ARGS__, int64_t, i64)
WHOLE(BINARY_KERNELS, add, x + y, 0, 0)
WHOLE(BINARY_KERNELS, sub, x - y, 0, 0)
WHOLE(BINARY_KERNELS, mul, x * y, 0, 0)
WHOLE(BINARY_KERNELS, div, x / y, 0, 0)
WHOLE(BINARY_KERNELS, max, x > y ? x : y, 0, 0)
WHOLE(BINARY_KERNELS, min, x < y ? x : y, 0, 0)
WHOLE(BINARY_KERNELS, floordiv, floor_over(x, y), 0, 0)
WHOLE(BINARY_KERNELS, mod, modulo(x, y), 0, 0)
BINARY_KERNELS(floordiv, floor_over(x, y), 0, 0, float, f32)
BINARY_KERNELS(floordiv, floor_over(x, y), 0, 0, double, f64)
BINARY_KERNELS(mod, modulo(x, y), 0, 0, float, f32)
BINARY_KERNELS(mod, modulo(x, y), 0, 0, double, f64)

// Relations, of any numbers, to truth values.
#define RELATION_KERNELS(name, value, E, suffix)                                                           \
  KERNEL name##_##suffix(const E* xs, const E* ys, bool* out, int64_t n, Shape shape) {                    \
    FOR_EACH(i, n) {                                                                                       \
      uint32_t at[2];                                                                                      \
      offsets<2>(shape, (uint32_t)i, at);                                                                  \
      Math<E>::type x = load(xs[at[0]]), y = load(ys[at[1]]);                                              \
      out[i] = value;                                                                                      \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(name##_##suffix)
#define RELATION(name, value)            \
  FLOATS(RELATION_KERNELS, name, value)  \
  WHOLE(RELATION_KERNELS, name, value)   \
  RELATION_KERNELS(name, value, bool, bool)
RELATION(equal, x == y)
RELATION(not_equal, x != y)
RELATION(less_than, x < y)
RELATION(less_equal, x <= y)
RELATION(greater_than, x > y)
RELATION(greater_equal, x >= y)
RELATION_KERNELS(logical_and, x && y, bool, bool)
RELATION_KERNELS(logical_or, x || y, bool, bool)
RELATION_KERNELS(logical_xor, x != y, bool, bool)

KERNEL logical_not_bool(const bool* xs, bool* out, int64_t n) { FOR_EACH(i, n) out[i] = !xs[i]; }
EXPORT(logical_not_bool)

#define FINITE_KERNELS(name, value, E, suffix)                                                             \
  KERNEL name##_##suffix(const E* xs, bool* out, int64_t n) {                                              \
    FOR_EACH(i, n) {                                                                                       \
      Math<E>::type x = load(xs[i]);                                                                       \
      out[i] = value;                                                                                      \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(name##_##suffix)
FLOATS(FINITE_KERNELS, isnan, x != x)
FLOATS(FINITE_KERNELS, isinf, x - x != x - x && x == x)
FLOATS(FINITE_KERNELS, isfinite, x - x == x - x)

// `where`: a choice for every element.
#define WHERE_KERNELS(name, E, suffix)                                                                     \
  KERNEL name##_##suffix(const bool* cs, const E* xs, const E* ys, E* out, int64_t n, Shape shape) {       \
    FOR_EACH(i, n) {                                                                                       \
      uint32_t at[3];                                                                                      \
      offsets<3>(shape, (uint32_t)i, at);                                                                  \
      out[i] = cs[at[0]] ? xs[at[1]] : ys[at[2]];                                                          \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(name##_##suffix)
FLOATS(WHERE_KERNELS, where)
WHOLE(WHERE_KERNELS, where)

#define CASTS_FROM(E, suffix)                 \
  CAST(E, suffix, float, f32)                 \
  CAST(E, suffix, double, f64)                \
  CAST(E, suffix, bf16, bf16)                 \
  CAST(E, suffix, f16, f16)                   \
  CAST(E, suffix, int32_t, i32)               \
  CAST(E, suffix, int64_t, i64)               \
  CAST(E, suffix, uint8_t, u8)                \
  CAST(E, suffix, bool, bool)
#define CAST(E, from, R, to)                                                                               \
  KERNEL cast_##from##_##to(const E* xs, R* out, int64_t n) {                                              \
    FOR_EACH(i, n) out[i] = Store<R>::of(load(xs[i]));                                                     \
  }                                                                                                        \
  EXPORT(cast_##from##_##to)
CASTS_FROM(float, f32)
CASTS_FROM(double, f64)
CASTS_FROM(bf16, bf16)
CASTS_FROM(f16, f16)
CASTS_FROM(int32_t, i32)
CASTS_FROM(int64_t, i64)
CASTS_FROM(uint8_t, u8)
CASTS_FROM(bool, bool)

// Constants, by the size of an element: its bits are given.
#define FILL(T, suffix)                                                                                    \
  KERNEL fill_##suffix(T* out, int64_t n, T bits) { FOR_EACH(i, n) out[i] = bits; }                        \
  EXPORT(fill_##suffix)
FILL(uint8_t, 1)
FILL(uint16_t, 2)
FILL(uint32_t, 4)
FILL(uint64_t, 8)
