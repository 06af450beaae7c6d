// The emulated card, seen from a kernel: CUDA kernel files compile as C++ behind this header.
//
// The CUDA threads of a block are coroutines of one host thread, which give way at barriers and at
// calls of a whole warp. The order of blocks, of the warps between two barriers and of the lanes of a
// warp is drawn from a seed, so a kernel whose result depends on it is found out. What a real card
// would leave undefined is an error here: a barrier that not all threads reach, a warp call whose
// partners never come, a misaligned access and (by guard pages) an access outside of a buffer.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>

/// True for kernel files that a host compiler compiles.
#define EMULATED_CARD 1

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __restrict__
#define __launch_bounds__(...)
#define __constant__ static const
// One block of one launch runs at a time, so its shared memory may be static.
#define __shared__ static
#define __align__(n) alignas(n)

/// Shared memory whose size the launch says, as `type* name`. Dynamic shared memory ends at a guard
/// page and starts each block with a pattern.
#define DYNAMIC_SHARED(type, name) type* name = static_cast<type*>(card::dynamic_shared())

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
struct alignas(2) uchar2 { unsigned char x, y; };
struct alignas(4) uchar4 { unsigned char x, y, z, w; };
struct alignas(4) ushort2 { unsigned short x, y; };
struct alignas(8) ushort4 { unsigned short x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) double2 { double x, y; };
struct alignas(16) longlong2 { long long x, y; };
struct alignas(16) ulonglong2 { unsigned long long x, y; };
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }

extern dim3 threadIdx, blockIdx, blockDim, gridDim;
const int warpSize = 32;

namespace card {

/// What a warp call gives back: the words that the lanes of the mask brought.
struct Brought {
  const uint64_t* words;
  unsigned mask;
};

/// Waits until all threads of the block are here; counts those with a true predicate. All must come
/// by the same line of source.
int barrier(int line, int predicate);
/// Waits until all lanes of `mask` have brought a word; `mask` must be the same for all of them.
Brought meet(unsigned mask, uint64_t word);
/// The lane of this thread in its warp.
unsigned lane();
/// Lets other threads of the block run: for loops that wait for one of them.
void give_way();
/// What a kernel calls that may be launched early, before anything else.
void wait_for_earlier();
/// The shared memory that the launch asked for.
void* dynamic_shared();
/// Ends the launch with an error.
[[noreturn]] void trap(const char* why);

template <typename T> uint64_t word(T value) {
  static_assert(sizeof(T) <= 8, "a warp call exchanges at most 8 bytes");
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  return word;
}
template <typename T> T value(uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof(T));
  return value;
}
/// A parameter that follows the type of another one: `atomicAdd(&wide, 1)`.
template <typename T> struct As { typedef T type; };

/// Calls a kernel with the arguments that an array of pointers points to, as a launch has them.
template <typename... Args, size_t... I>
void call(void (*kernel)(Args...), void** args, std::index_sequence<I...>) {
  (void)args;
  kernel(*static_cast<std::remove_reference_t<Args>*>(args[I])...);
}
template <typename... Args> void call(void (*kernel)(Args...), void** args) {
  call(kernel, args, std::index_sequence_for<Args...>{});
}
/// The sizes of a kernel's arguments, ended by 0: a launch keeps their bytes.
template <typename... Args> const size_t* sizes(void (*)(Args...)) {
  static const size_t sizes[] = {sizeof(Args)..., 0};
  return sizes;
}

/// A kernel by its name; the list is filled when the library is loaded.
struct Entry {
  const char* name;
  void (*run)(void** args);
  const size_t* sizes;
  Entry* next;
  Entry(const char* name, void (*run)(void**), const size_t* sizes);
};

}  // namespace card

/// Makes a kernel known by its name; follows its definition.
#define EXPORT(kernel)                                                                             \
  static card::Entry entry_##kernel(#kernel, [](void** args) { card::call(kernel, args); },        \
                                    card::sizes(kernel));

// The line tells one barrier from another, whatever the compiler makes of the loop around it.
inline void __syncthreads(int line = __builtin_LINE()) { card::barrier(line, 0); }
inline int __syncthreads_count(int predicate, int line = __builtin_LINE()) {
  return card::barrier(line, predicate);
}
inline int __syncthreads_or(int predicate, int line = __builtin_LINE()) {
  return card::barrier(line, predicate) != 0;
}
inline int __syncthreads_and(int predicate, int line = __builtin_LINE()) {
  return card::barrier(line, !predicate) == 0;
}
inline void __syncwarp(unsigned mask = ~0u) { card::meet(mask, 0); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned) { card::give_way(); }
[[noreturn]] inline void __trap() { card::trap("the kernel called __trap()"); }

template <typename T> T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  unsigned self = card::lane();
  auto met = card::meet(mask, card::word(value));
  unsigned from = (self & ~(width - 1u)) | (static_cast<unsigned>(lane) & (width - 1u));
  return card::value<T>(met.words[from]);
}
template <typename T> T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32) {
  unsigned self = card::lane();
  auto met = card::meet(mask, card::word(value));
  unsigned from = self ^ static_cast<unsigned>(with);
  return (from & ~(width - 1u)) == (self & ~(width - 1u)) ? card::value<T>(met.words[from]) : value;
}
template <typename T> T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
  unsigned self = card::lane();
  auto met = card::meet(mask, card::word(value));
  return (self & (width - 1u)) >= by ? card::value<T>(met.words[self - by]) : value;
}
template <typename T> T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
  unsigned self = card::lane(), position = self & (width - 1u);
  auto met = card::meet(mask, card::word(value));
  return position + by < static_cast<unsigned>(width) ? card::value<T>(met.words[self + by]) : value;
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  auto met = card::meet(mask, predicate != 0);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; lane++)
    if (met.mask >> lane & 1 && met.words[lane]) votes |= 1u << lane;
  return votes;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
template <typename T> unsigned __match_any_sync(unsigned mask, T value) {
  uint64_t own = card::word(value);
  auto met = card::meet(mask, own);
  unsigned same = 0;
  for (unsigned lane = 0; lane < 32; lane++)
    if (met.mask >> lane & 1 && met.words[lane] == own) same |= 1u << lane;
  return same;
}
namespace card {
template <typename T, typename F> T reduce(unsigned mask, T own, F combine) {
  auto met = meet(mask, word(own));
  bool first = true;
  T all = own;
  for (unsigned lane = 0; lane < 32; lane++)
    if (met.mask >> lane & 1) {
      T other = value<T>(met.words[lane]);
      all = first ? other : combine(all, other);
      first = false;
    }
  return all;
}
}  // namespace card
template <typename T> T __reduce_add_sync(unsigned mask, T x) {
  return card::reduce(mask, x, [](T a, T b) { return static_cast<T>(a + b); });
}
template <typename T> T __reduce_min_sync(unsigned mask, T x) {
  return card::reduce(mask, x, [](T a, T b) { return b < a ? b : a; });
}
template <typename T> T __reduce_max_sync(unsigned mask, T x) {
  return card::reduce(mask, x, [](T a, T b) { return a < b ? b : a; });
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned x) {
  return card::reduce(mask, x, [](unsigned a, unsigned b) { return a | b; });
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned x) {
  return card::reduce(mask, x, [](unsigned a, unsigned b) { return a & b; });
}

// One CUDA thread runs at a time, so that a plain read and write are atomic. Where races are looked for, the compiler must
// not take them for that.
#ifdef CARD_RACES
namespace card::races {
void atomic(const void* at, size_t bytes);
}
#define ATOMIC __attribute__((no_sanitize("thread"), noinline))
#define NOTE_ATOMIC(at) card::races::atomic(at, sizeof *(at))
#else
#define ATOMIC
#define NOTE_ATOMIC(at)
#endif
template <typename T> ATOMIC T atomicAdd(T* at, typename card::As<T>::type by) {
  static_assert(std::is_integral<T>::value, "sums of floats would depend on their order");
  NOTE_ATOMIC(at);
  T old = *at;
  *at = static_cast<T>(old + by);
  return old;
}
template <typename T> ATOMIC T atomicSub(T* at, typename card::As<T>::type by) {
  return atomicAdd(at, static_cast<T>(0 - by));
}
template <typename T> ATOMIC T atomicMax(T* at, typename card::As<T>::type by) {
  NOTE_ATOMIC(at);
  T old = *at;
  if (old < by) *at = by;
  return old;
}
template <typename T> ATOMIC T atomicMin(T* at, typename card::As<T>::type by) {
  NOTE_ATOMIC(at);
  T old = *at;
  if (by < old) *at = by;
  return old;
}
template <typename T> ATOMIC T atomicOr(T* at, typename card::As<T>::type bits) {
  NOTE_ATOMIC(at);
  T old = *at;
  *at = old | bits;
  return old;
}
template <typename T> ATOMIC T atomicAnd(T* at, typename card::As<T>::type bits) {
  NOTE_ATOMIC(at);
  T old = *at;
  *at = old & bits;
  return old;
}
template <typename T> ATOMIC T atomicXor(T* at, typename card::As<T>::type bits) {
  NOTE_ATOMIC(at);
  T old = *at;
  *at = old ^ bits;
  return old;
}
template <typename T> ATOMIC T atomicExch(T* at, typename card::As<T>::type value) {
  NOTE_ATOMIC(at);
  T old = *at;
  *at = value;
  return old;
}
template <typename T>
ATOMIC T atomicCAS(T* at, typename card::As<T>::type expected, typename card::As<T>::type desired) {
  NOTE_ATOMIC(at);
  T old = *at;
  if (old == expected) *at = desired;
  return old;
}

// Loads and stores with a hint for the caches.
template <typename T> T __ldg(const T* at) { return *at; }
template <typename T> T __ldcs(const T* at) { return *at; }
template <typename T> T __ldcg(const T* at) { return *at; }
template <typename T> T __ldca(const T* at) { return *at; }
template <typename T> T __ldcv(const T* at) { return *at; }
template <typename T> void __stcs(T* at, typename card::As<T>::type value) { *at = value; }
template <typename T> void __stcg(T* at, typename card::As<T>::type value) { *at = value; }
template <typename T> void __stwt(T* at, typename card::As<T>::type value) { *at = value; }

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }
inline int __clz(int bits) { return bits ? __builtin_clz(static_cast<unsigned>(bits)) : 32; }
inline int __clzll(long long bits) {
  return bits ? __builtin_clzll(static_cast<unsigned long long>(bits)) : 64;
}
inline unsigned __brev(unsigned bits) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; i++) reversed |= (bits >> i & 1u) << (31 - i);
  return reversed;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>(((uint64_t{high} << 32 | low) << (by & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) >> (by & 31));
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  uint64_t bytes = uint64_t{b} << 32 | a;
  unsigned out = 0;
  for (int i = 0; i < 4; i++)
    out |= static_cast<unsigned>(bytes >> (selector >> 4 * i & 7) * 8 & 255) << 8 * i;
  return out;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((uint64_t{a} * b) >> 32); }
inline int __mulhi(int a, int b) { return static_cast<int>((int64_t{a} * b) >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64);
}
inline float __uint_as_float(unsigned bits) { return card::value<float>(bits); }
inline unsigned __float_as_uint(float value) { return static_cast<unsigned>(card::word(value)); }
inline float __int_as_float(int bits) { return card::value<float>(static_cast<unsigned>(bits)); }
inline int __float_as_int(float value) { return static_cast<int>(card::word(value)); }
inline double __longlong_as_double(long long bits) {
  return card::value<double>(static_cast<uint64_t>(bits));
}
inline long long __double_as_longlong(double value) { return static_cast<long long>(card::word(value)); }

// Single operations that a compiler may not contract: contraction is off here for all.
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }

// As CUDA's: of two floats the one that is not NaN.
template <typename A, typename B> std::common_type_t<A, B> min(A a, B b) {
  typedef std::common_type_t<A, B> T;
  if constexpr (std::is_floating_point<T>::value) return std::fmin(T(a), T(b));
  else return T(b) < T(a) ? T(b) : T(a);
}
template <typename A, typename B> std::common_type_t<A, B> max(A a, B b) {
  typedef std::common_type_t<A, B> T;
  if constexpr (std::is_floating_point<T>::value) return std::fmax(T(a), T(b));
  else return T(a) < T(b) ? T(b) : T(a);
}
using std::abs;
using std::isfinite;
using std::isinf;
using std::isnan;
