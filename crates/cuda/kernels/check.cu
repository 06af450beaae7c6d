// Looks for elements that are no numbers, where a user asks for it.
#include "prelude.cuh"

#define CHECK_FINITE(E, suffix)                                                                            \
  KERNEL check_finite_##suffix(const E* xs, int64_t n, Complaint* complaint, uint32_t op) {                \
    FOR_EACH(i, n) {                                                                                       \
      Math<E>::type x = load(xs[i]);                                                                       \
      if (x - x != x - x) complain(complaint, op, NOT_FINITE, 0, i, n);                                    \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(check_finite_##suffix)
CHECK_FINITE(float, f32)
CHECK_FINITE(double, f64)
CHECK_FINITE(bf16, bf16)
CHECK_FINITE(f16, f16)
