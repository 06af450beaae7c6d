// Division by a number that a launch knows: a product and a shift (Granlund and Montgomery, 1994).
#pragma once
#include "prelude.cuh"

/// What numbers below 2^31 are divided by (`lower/divider.rs` makes it).
struct Divider {
  uint32_t by, magic, shift;
  INLINE uint32_t quotient(uint32_t x) const { return (__umulhi(magic, x) + x) >> shift; }
};
