// Numbers of 16 bits on the host, as a card rounds them.
#pragma once
#include <cmath>
#include <cstdint>

#include "card.hpp"

namespace card {

inline float float_from_half(uint16_t bits) {
  uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, fraction = bits & 0x3ffu;
  if (exponent == 31) return value<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent) return value<float>(sign | (exponent + 112) << 23 | fraction << 13);
  float tiny = static_cast<float>(fraction) * 5.9604644775390625e-8f;
  return sign ? -tiny : tiny;
}

inline uint16_t half_from_float(float x) {
  uint32_t bits = static_cast<uint32_t>(word(x)), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (size >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (size < 0x38800000u)
    // Below the smallest normal number: a multiple of 2^-24.
    return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(value<float>(size) * 0x1p24f)));
  return static_cast<uint16_t>(sign | (size + 0xfffu + (size >> 13 & 1u) - 0x38000000u) >> 13);
}

/// The upper 16 bits of a float, rounded to the nearest, ties to even.
inline uint32_t rounded_bits(float x, unsigned dropped) {
  uint32_t bits = static_cast<uint32_t>(word(x));
  if ((bits & 0x7fffffffu) > 0x7f800000u) return bits | 0x400000u;
  uint32_t half = (1u << (dropped - 1)) - 1;
  return (bits + half + (bits >> dropped & 1u)) & ~((1u << dropped) - 1);
}

}  // namespace card
