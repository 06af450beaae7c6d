// Other element types, constants, and running sums.
#include "packs.cuh"

// A real number becomes a whole one by truncation, as on the host: NaN is 0, what is too large is cut off
// at 64 bits and wraps below them.
FILE_OWN {
template <typename R> struct Cast {
  template <typename V> static INLINE R of(V v) { return (R)v; }
  static INLINE R of(float v) { return of((double)v); }
  static INLINE R of(double v) {
    if (v != v) return R(0);
    if (v >= 9223372036854775808.0) return (R)9223372036854775807LL;
    if (v <= -9223372036854775808.0) return (R)(-9223372036854775807LL - 1);
    return (R)(int64_t)v;
  }
};
template <> struct Cast<float> { template <typename V> static INLINE float of(V v) { return (float)v; } };
template <> struct Cast<double> { template <typename V> static INLINE double of(V v) { return (double)v; } };
template <> struct Cast<bf16> {
  template <typename V> static INLINE bf16 of(V v) { return to_bf16((float)v); }
};
template <> struct Cast<f16> {
  template <typename V> static INLINE f16 of(V v) { return to_f16((float)v); }
};
template <> struct Cast<bool> { template <typename V> static INLINE bool of(V v) { return v != V(0); } };
}  // own

// Among floats, 16 bytes at once; the others are rarely large.
#define CAST_FLOATS(from, E, to, R)                                                                        \
  KERNEL cast_##from##_##to(const E* xs, R* out, int64_t n) { IN_TURN;                                     \
    map_each<16 / (sizeof(E) > sizeof(R) ? sizeof(E) : sizeof(R))>(xs, out, n,                             \
                                                                   [](Math<E>::type x) { return x; });     \
  }                                                                                                        \
  EXPORT(cast_##from##_##to)
CAST_FLOATS(f32, float, f64, double)
CAST_FLOATS(f32, float, bf16, bf16)
CAST_FLOATS(f32, float, f16, f16)
CAST_FLOATS(f64, double, f32, float)
CAST_FLOATS(f64, double, bf16, bf16)
CAST_FLOATS(f64, double, f16, f16)
CAST_FLOATS(bf16, bf16, f32, float)
CAST_FLOATS(bf16, bf16, f64, double)
CAST_FLOATS(bf16, bf16, f16, f16)
CAST_FLOATS(f16, f16, f32, float)
CAST_FLOATS(f16, f16, f64, double)
CAST_FLOATS(f16, f16, bf16, bf16)

// Numbers of 32 bits become such of 16, of many tensors in one launch.
FILE_OWN {

const int NARROWED = 8, MANY_NARROWED = 64;

template <typename R> struct Narrow {
  const float* from;
  R* to;
};
struct Narrowed {
  int64_t count;
  uint32_t first_block, unused;
};
template <typename R, int MAX> struct AllNarrow {
  Narrow<R> of[MAX];
};
template <int MAX> struct AllNarrowed {
  Narrowed of[MAX];
};

template <typename R, int MAX>
INLINE void narrow(const AllNarrow<R, MAX>& all, const AllNarrowed<MAX>& sizes, uint32_t count) {
  uint32_t which = 0;
  while (which + 1 < count && blockIdx.x >= sizes.of[which + 1].first_block) which++;
  const float* from = all.of[which].from;
  R* to = all.of[which].to;
  int64_t end = sizes.of[which].count;
  int64_t first = ((int64_t)(blockIdx.x - sizes.of[which].first_block) * 256 + threadIdx.x) * NARROWED;
  if (first >= end) return;
  if (first + NARROWED <= end && ((uint64_t)from | (uint64_t)to) % 16 == 0) {
    Pack<float, 4> left = load_pack<4>(from + first), right = load_pack<4>(from + first + 4);
    Pack<R, NARROWED> out;
    UNROLL for (int i = 0; i < NARROWED; i++)
      out.at[i] = Store<R>::of(i < 4 ? left.at[i % 4] : right.at[i % 4]);
    store_pack(to + first, out);
    return;
  }
  ROLLED for (int64_t i = first; i < end && i < first + NARROWED; i++) to[i] = Store<R>::of(from[i]);
}

}  // own

#define NARROW(to, R)                                                                                      \
  KERNEL __launch_bounds__(256) narrow_##to(BY_VALUE AllNarrow<R, 1> all, BY_VALUE AllNarrowed<1> sizes,   \
                                            uint32_t count) { IN_TURN;                                     \
    narrow<R, 1>(all, sizes, count);                                                                       \
  }                                                                                                        \
  EXPORT(narrow_##to)                                                                                      \
  KERNEL __launch_bounds__(256) narrow_many_##to(BY_VALUE AllNarrow<R, MANY_NARROWED> all,                 \
                                                 BY_VALUE AllNarrowed<MANY_NARROWED> sizes,                \
                                                 uint32_t count) { IN_TURN;                                \
    narrow<R, MANY_NARROWED>(all, sizes, count);                                                           \
  }                                                                                                        \
  EXPORT(narrow_many_##to)
NARROW(bf16, bf16)
NARROW(f16, f16)

#define CAST(from, E, to, R)                                                                               \
  KERNEL cast_##from##_##to(const E* xs, R* out, int64_t n) { IN_TURN;                                     \
    ROLLED FOR_EACH(i, n) out[i] = Cast<R>::of(load(xs[i]));                                               \
  }                                                                                                        \
  EXPORT(cast_##from##_##to)
#define CASTS_TO_WHOLE(from, E)    \
  CAST(from, E, i32, int32_t)      \
  CAST(from, E, i64, int64_t)      \
  CAST(from, E, u8, uint8_t)       \
  CAST(from, E, bool, bool)
#define CASTS_TO_FLOAT(from, E)  \
  CAST(from, E, f32, float)      \
  CAST(from, E, f64, double)     \
  CAST(from, E, bf16, bf16)      \
  CAST(from, E, f16, f16)
CASTS_TO_WHOLE(f32, float)
CASTS_TO_WHOLE(f64, double)
CASTS_TO_WHOLE(bf16, bf16)
CASTS_TO_WHOLE(f16, f16)
CASTS_TO_FLOAT(i32, int32_t)
CASTS_TO_FLOAT(i64, int64_t)
// A truth value is a byte, 0 or 1.
CASTS_TO_FLOAT(u8, uint8_t)
CAST(i32, int32_t, i64, int64_t)
CAST(i32, int32_t, u8, uint8_t)
CAST(i32, int32_t, bool, bool)
CAST(i64, int64_t, i32, int32_t)
CAST(i64, int64_t, u8, uint8_t)
CAST(i64, int64_t, bool, bool)
CAST(u8, uint8_t, i32, int32_t)
CAST(u8, uint8_t, i64, int64_t)
CAST(u8, uint8_t, bool, bool)

// Bytes that repeat after eight: any constant.
KERNEL fill_bytes(uint8_t* out, int64_t bytes, uint64_t pattern) {
  IN_TURN;
  int64_t packs = is_pack_aligned<16>(out) ? bytes / 16 : 0;
  uint32_t low = (uint32_t)pattern, high = (uint32_t)(pattern >> 32);
  FOR_EACH(pack, packs) ((uint4*)out)[pack] = uint4{low, high, low, high};
  FOR_REST(i, packs * 16, bytes) out[i] = (uint8_t)(pattern >> (i % 8 * 8));
}
EXPORT(fill_bytes)

// The first element everywhere, whatever its size.
KERNEL repeat_bytes(const uint8_t* first, uint8_t* out, int64_t bytes, uint32_t size) {
  IN_TURN;
  ROLLED FOR_EACH(i, bytes) out[i] = first[i % size];
}
EXPORT(repeat_bytes)

// A few bytes that are known when the op is made ready.
struct Bytes {
  uint8_t at[1024];
};
KERNEL store_bytes(uint8_t* out, int64_t count, Bytes bytes) {
  IN_TURN;
  ROLLED FOR_EACH(i, count) out[i] = bytes.at[i];
}
EXPORT(store_bytes)

// Elements of `size` bytes, `step` bytes apart.
KERNEL fill_diagonal(uint8_t* out, int64_t count, int64_t step, uint32_t size, uint64_t bits) {
  IN_TURN;
  ROLLED FOR_EACH(i, count) {
    for (uint32_t byte = 0; byte < size; byte++) out[i * step + byte] = (uint8_t)(bits >> (byte * 8));
  }
}
EXPORT(fill_diagonal)

// Running sums along lines of `length` elements that lie `width` apart.
//
// One thread for a line: neighbours go along neighbouring lines.
#define CUMSUM_OF_LINES(name, E, suffix)                                                                   \
  KERNEL name##_of_lines_##suffix(const E* xs, E* out, int64_t lines, int64_t length, int64_t width,       \
                                  int32_t is_exclusive, int32_t is_reverse) { IN_TURN;                     \
    FOR_EACH(line, lines) {                                                                                \
      int64_t at = line / width * length * width + line % width, step = width;                             \
      if (is_reverse) at += (length - 1) * width, step = -width;                                           \
      E sum = 0;                                                                                           \
      ROLLED for (int64_t i = 0; i < length; i++, at += step) {                                            \
        E x = xs[at], before = sum;                                                                        \
        sum = i ? before + x : x;                                                                          \
        out[at] = is_exclusive ? before : sum;                                                             \
      }                                                                                                    \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(name##_of_lines_##suffix)
FOR_SINGLE_AND_DOUBLE(CUMSUM_OF_LINES, cumsum)
FOR_WHOLES(CUMSUM_OF_LINES, cumsum)

FILE_OWN {
/// The sum of the threads' numbers up to and with this one's; `total` is that of the block, of 256 threads.
template <typename T> INLINE T block_scan(T mine, T* total) {
  __shared__ T of_warps[8];
  uint32_t lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
  for (uint32_t by = 1; by < WARP_SIZE; by *= 2) {
    T other = __shfl_up_sync(ALL_LANES, mine, by);
    if (lane >= by) mine = other + mine;
  }
  if (lane == WARP_SIZE - 1) of_warps[warp] = mine;
  __syncthreads();
  T before = 0, all = 0;
  for (uint32_t i = 0; i < 8; i++) {
    if (i < warp) before += of_warps[i];
    all += of_warps[i];
  }
  // The next round writes what is read here.
  __syncthreads();
  *total = all;
  return warp ? before + mine : mine;
}
}  // own

// One block for a line, four elements a thread.
const int SCANNED = 4;
#define CUMSUM_BY_BLOCKS(name, E, suffix)                                                                  \
  KERNEL name##_by_blocks_##suffix(const E* xs, E* out, int64_t length, int64_t width,                     \
                                   int32_t is_exclusive, int32_t is_reverse) { IN_TURN;                    \
    int64_t line = blockIdx.x, first = line / width * length * width + line % width, step = width;         \
    if (is_reverse) first += (length - 1) * width, step = -width;                                          \
    E carried = 0;                                                                                         \
    for (int64_t tile = 0; tile < length; tile += SCANNED * 256) {                                         \
      int64_t start = tile + threadIdx.x * SCANNED;                                                        \
      E x[SCANNED], sum = 0, total;                                                                        \
      UNROLL for (int j = 0; j < SCANNED; j++) {                                                           \
        x[j] = start + j < length ? xs[first + (start + j) * step] : E(0);                                 \
        sum += x[j];                                                                                       \
      }                                                                                                    \
      E through = block_scan(sum, &total);                                                                 \
      /* What lies before this thread's elements comes from its neighbour, not by taking away. */          \
      E before = __shfl_up_sync(ALL_LANES, through, 1);                                                    \
      __shared__ E ends[8];                                                                                \
      if (threadIdx.x % WARP_SIZE == WARP_SIZE - 1) ends[threadIdx.x / WARP_SIZE] = through;               \
      __syncthreads();                                                                                     \
      if (threadIdx.x % WARP_SIZE == 0) before = threadIdx.x ? ends[threadIdx.x / WARP_SIZE - 1] : E(0);   \
      __syncthreads();                                                                                     \
      before += carried;                                                                                   \
      UNROLL for (int j = 0; j < SCANNED; j++) {                                                           \
        if (start + j < length) out[first + (start + j) * step] = is_exclusive ? before : before + x[j];   \
        before += x[j];                                                                                    \
      }                                                                                                    \
      carried += total;                                                                                    \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(name##_by_blocks_##suffix)
FOR_SINGLE_AND_DOUBLE(CUMSUM_BY_BLOCKS, cumsum)
FOR_WHOLES(CUMSUM_BY_BLOCKS, cumsum)
