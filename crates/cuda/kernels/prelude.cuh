// What every kernel file starts with. The files use no header of CUDA's, so that they compile in
// hundredths of a second and the same for a card (NVRTC) and for the emulated card (C++).
#pragma once
#ifdef EMULATED_CARD
#include "card.hpp"
#define UNROLL
#else
#define EXPORT(kernel)
/// Shared memory whose size the launch says, as `type* name`; a kernel names it once.
#define DYNAMIC_SHARED(type, name)                             \
  extern __shared__ __align__(16) unsigned char name##_bytes[]; \
  type* name = reinterpret_cast<type*>(name##_bytes)
#define UNROLL _Pragma("unroll")
typedef unsigned char uint8_t;
typedef signed char int8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#endif

/// Encloses what is a file's own. NVRTC, for which every file is alone, calls nameless things by another name in every
/// run, and images would never be the same.
#ifdef EMULATED_CARD
#define FILE_OWN namespace
#else
#define FILE_OWN inline namespace own
#endif
#define KERNEL extern "C" __global__ void
#define INLINE __device__ __forceinline__
// A function whose accesses may meet those of other threads on purpose: whatever it finds or leaves there is right. Where
// races are looked for (`cargo xtask races`), its accesses are not.
#ifdef CARD_RACES
#define UNORDERED __attribute__((no_sanitize("thread"), noinline))
#else
#define UNORDERED INLINE
#endif

// What a kernel begins with that may be launched while the one before it still runs: here it waits until that is done and
// has written everything, and lets those behind it be launched in turn. Kernels without it are launched in order.
#ifdef EMULATED_CARD
#define IN_TURN card::wait_for_earlier()
#elif __CUDA_ARCH__ >= 900
#define IN_TURN asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory")
#else
#define IN_TURN
#endif

// A structure among the arguments of a kernel that is read where it lies, whatever it is indexed by.
#ifdef EMULATED_CARD
#define BY_VALUE const
#else
#define BY_VALUE const __grid_constant__
#endif

/// The element types of tensors. The 16-bit floats are kept as bits: arithmetic is done in `float`.
struct bf16 { uint16_t bits; };
struct f16 { uint16_t bits; };

INLINE float to_float(bf16 x) { return __uint_as_float((uint32_t)x.bits << 16); }
INLINE bf16 to_bf16(float x) {
#ifdef EMULATED_CARD
  uint32_t bits = __float_as_uint(x);
  // A NaN stays one; everything else is rounded to the nearest, ties to even.
  if ((bits & 0x7fffffffu) > 0x7f800000u) return bf16{(uint16_t)((bits >> 16) | 0x40u)};
  return bf16{(uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
#else
  bf16 out;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));
  return out;
#endif
}
INLINE float to_float(f16 x) {
#ifdef EMULATED_CARD
  uint32_t sign = (uint32_t)(x.bits & 0x8000u) << 16, exponent = (x.bits >> 10) & 31u, fraction = x.bits & 0x3ffu;
  if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | fraction << 13);
  if (exponent) return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
  float tiny = (float)fraction * 5.9604644775390625e-8f;
  return sign ? -tiny : tiny;
#else
  float out;
  asm("{ .reg .b16 h; mov.b16 h, %1; cvt.f32.f16 %0, h; }" : "=f"(out) : "h"(x.bits));
  return out;
#endif
}
INLINE f16 to_f16(float x) {
#ifdef EMULATED_CARD
  uint32_t bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return f16{(uint16_t)(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return f16{(uint16_t)(sign | 0x7c00u)};
  if (magnitude < 0x38800000u) {
    // Below the smallest normal number: a multiple of 2^-24.
    float scaled = __uint_as_float(magnitude) * 16777216.0f;
    uint32_t whole = (uint32_t)scaled;
    float rest = scaled - (float)whole;
    if (rest > 0.5f || (rest == 0.5f && (whole & 1u))) whole++;
    return f16{(uint16_t)(sign | whole)};
  }
  uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return f16{(uint16_t)(sign | (rounded - 0x38000000u) >> 13)};
#else
  f16 out;
  asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; mov.b16 %0, h; }" : "=h"(out.bits) : "f"(x));
  return out;
#endif
}

/// What a kernel computes with: the type of the element, but `float` for the 16-bit floats.
template <typename T> struct Math { typedef T type; };
template <> struct Math<bf16> { typedef float type; };
template <> struct Math<f16> { typedef float type; };

template <typename T> INLINE T load(T x) { return x; }
INLINE float load(bf16 x) { return to_float(x); }
INLINE float load(f16 x) { return to_float(x); }
template <typename T> struct Store { template <typename V> static INLINE T of(V v) { return (T)v; } };
template <> struct Store<bf16> { static INLINE bf16 of(float v) { return to_bf16(v); } };
template <> struct Store<f16> { static INLINE f16 of(float v) { return to_f16(v); } };
template <> struct Store<bool> { template <typename V> static INLINE bool of(V v) { return v != V(0); } };

/// The number of this thread among all of the grid, and how many there are: for loops over elements.
INLINE int64_t thread_number() { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }
INLINE int64_t thread_count() { return (int64_t)gridDim.x * blockDim.x; }
#define FOR_EACH(i, n) for (int64_t i = thread_number(); i < (n); i += thread_count())

const int WARP_SIZE = 32;
const uint32_t ALL_LANES = 0xffffffffu;

/// The sum over a warp, the same bits in every lane and in every run.
template <typename T> INLINE T warp_sum(T x) {
  for (int with = 16; with; with >>= 1) x += __shfl_xor_sync(ALL_LANES, x, with);
  return x;
}
template <typename T> INLINE T warp_max(T x) {
  for (int with = 16; with; with >>= 1) {
    T other = __shfl_xor_sync(ALL_LANES, x, with);
    x = other > x || other != other ? other : x;
  }
  return x;
}

/// What is wrong with an input: the host makes an error of the first that is found (`work.rs`, `Complaint`).
struct Complaint {
  uint32_t is_taken;
  uint32_t op;
  uint32_t problem;
  uint32_t unused;
  int64_t value;
  int64_t position;
  int64_t bound;
};
const uint32_t OUT_OF_RANGE = 1, WRONG_LABEL = 2, NOT_FINITE = 3, ZERO_DIVISOR = 4;

/// Says that `value`, at `position` of its tensor, does not lie in `0..bound`. The kernel goes on, with something harmless.
INLINE void complain(Complaint* at, uint32_t op, uint32_t problem, int64_t value, int64_t position, int64_t bound) {
  if (atomicCAS(&at->is_taken, 0u, 1u) != 0u) return;
  at->op = op;
  at->problem = problem;
  at->value = value;
  at->position = position;
  at->bound = bound;
}
