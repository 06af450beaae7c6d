// Moving elements: every op that puts elements elsewhere without changing them, by the size of what is
// moved at once (16 bytes where shapes allow), and the sums that are the gradients of repeating.
#include "walk.cuh"

template <typename T> INLINE void strided_copy(const T* from, T* to, uint32_t count, const Walk& walk) {
  FOR_EACH_SHORT(i, count) {
    int64_t source, target;
    locate(walk, i, source, target);
    to[target] = from[source];
  }
}

template <typename T> INLINE void strided_fill(T* to, uint32_t count, T value, const Walk& walk) {
  FOR_EACH_SHORT(i, count) {
    int64_t source, target;
    locate(walk, i, source, target);
    to[target] = value;
  }
}

// A transpose goes by squares through shared memory, so that both sides are read and written in
// lines. `walk` leads from one matrix to the next; a matrix has `height` rows of `width` on the side
// that is written, `pitch` apart, and its columns lie `step` apart on the side that is read.
struct Matrix {
  uint32_t height, width;
  int32_t pitch, step;
  Divider tiles_across, tiles;
};

const int TILE = 32, TILE_ROWS = 8;

template <typename T> INLINE void transpose(const T* from, T* to, const Matrix& matrix, const Walk& walk) {
  __shared__ T tile[TILE][TILE + 1];
  uint32_t number = blockIdx.x, at = split(number, matrix.tiles);
  uint32_t left = split(at, matrix.tiles_across) * TILE, top = at * TILE;
  int64_t source, target;
  locate(walk, number, source, target);
  uint32_t x = threadIdx.x % TILE, y = threadIdx.x / TILE;
  for (uint32_t i = y; i < TILE; i += TILE_ROWS)
    if (top + x < matrix.height && left + i < matrix.width)
      tile[i][x] = from[source + top + x + (int64_t)(left + i) * matrix.step];
  __syncthreads();
  for (uint32_t i = y; i < TILE; i += TILE_ROWS)
    if (top + i < matrix.height && left + x < matrix.width)
      to[target + (int64_t)(top + i) * matrix.pitch + left + x] = tile[x][i];
}

// Parts side by side in the rows of a whole: a row of blocks for each part.
const int MAX_PARTS = 128;
struct Pointers { void* at[MAX_PARTS]; };
struct Parts {
  Divider width[MAX_PARTS];
  uint32_t start[MAX_PARTS];
};

template <bool JOINS, typename T>
INLINE void move_parts(T* whole, uint32_t row, uint32_t rows, const Pointers& pointers, const Parts& parts) {
  int number = blockIdx.y;
  T* part = (T*)pointers.at[number];
  T* begin = whole + parts.start[number];
  const Divider& width = parts.width[number];
  uint32_t count = rows * width.by;
  FOR_EACH_SHORT(i, count) {
    uint32_t line = i, column = split(line, width);
    int64_t at = (int64_t)line * row + column;
    if (JOINS) begin[at] = part[i];
    else part[i] = begin[at];
  }
}

// What lies around a tensor: an output that lies outside shows a constant, or an input elsewhere.
const int CONSTANT = 0, REFLECT = 1, REPLICATE = 2;  // Else it starts again at the other end.
struct Around {
  int32_t rank;
  int32_t mode;
  Divider outer[MAX_AXES];
  int32_t inner[MAX_AXES];
  int32_t before[MAX_AXES];
  int32_t steps[MAX_AXES];
};

/// The input that output `at` of an axis shows; -1 for none.
INLINE int32_t shown(int32_t mode, int32_t at, int32_t len) {
  if ((uint32_t)at < (uint32_t)len) return at;
  if (mode == REPLICATE) return at < 0 ? 0 : len - 1;
  if (mode == REFLECT) return at < 0 ? -at : 2 * (len - 1) - at;
  return mode == CONSTANT ? -1 : (at % len + len) % len;
}

template <typename T>
INLINE void surround(const T* from, T* to, uint32_t count, T value, const Around& around) {
  FOR_EACH_SHORT(i, count) {
    uint32_t rest = i;
    int64_t source = 0;
    ROLLED for (int axis = around.rank - 1; axis >= 0 && source >= 0; axis--) {
      int32_t at = (int32_t)split(rest, around.outer[axis]) - around.before[axis];
      int32_t position = shown(around.mode, at, around.inner[axis]);
      source = position < 0 ? -1 : source + (int64_t)position * around.steps[axis];
    }
    to[i] = source < 0 ? value : from[source];
  }
}

#define MOVES(T, size)                                                                                     \
  KERNEL strided_copy_##size(const T* from, T* to, uint32_t count, Walk walk) {                            \
    strided_copy(from, to, count, walk);                                                                   \
  }                                                                                                        \
  EXPORT(strided_copy_##size)                                                                              \
  KERNEL strided_fill_##size(T* to, uint32_t count, T value, Walk walk) {                                  \
    strided_fill(to, count, value, walk);                                                                  \
  }                                                                                                        \
  EXPORT(strided_fill_##size)                                                                              \
  KERNEL join_##size(T* whole, uint32_t row, uint32_t rows, Pointers pointers, Parts parts) {              \
    move_parts<true>(whole, row, rows, pointers, parts);                                                   \
  }                                                                                                        \
  EXPORT(join_##size)                                                                                      \
  KERNEL cut_##size(T* whole, uint32_t row, uint32_t rows, Pointers pointers, Parts parts) {               \
    move_parts<false>(whole, row, rows, pointers, parts);                                                  \
  }                                                                                                        \
  EXPORT(cut_##size)                                                                                       \
  KERNEL surround_##size(const T* from, T* to, uint32_t count, T value, Around around) {                   \
    surround(from, to, count, value, around);                                                              \
  }                                                                                                        \
  EXPORT(surround_##size)
#define TRANSPOSES(T, size)                                                                                \
  KERNEL transpose_##size(const T* from, T* to, Matrix matrix, Walk walk) {                                \
    transpose(from, to, matrix, walk);                                                                     \
  }                                                                                                        \
  EXPORT(transpose_##size)
MOVES(uint8_t, 1)
MOVES(uint16_t, 2)
MOVES(uint32_t, 4)
MOVES(uint64_t, 8)
MOVES(uint4, 16)
TRANSPOSES(uint8_t, 1)
TRANSPOSES(uint16_t, 2)
TRANSPOSES(uint32_t, 4)
TRANSPOSES(uint64_t, 8)

// The gradient of a tensor that is shown around itself: each input adds up the outputs that show it, in
// their order.

/// How many outputs of an axis show input `at`.
INLINE int32_t shows(int32_t mode, int32_t at, int32_t len, int32_t before, int32_t outer) {
  int32_t after = outer - len - before;
  if (mode == REPLICATE) return 1 + (at == 0 ? before : 0) + (at == len - 1 ? after : 0);
  if (mode == REFLECT) return 1 + (at > 0 && at <= before) + (at < len - 1 && at >= len - 1 - after);
  return (outer - (at + before) % len + len - 1) / len;
}

/// The output that is number `n` of them.
INLINE int32_t showing(int32_t mode, int32_t at, int32_t len, int32_t before, int32_t n) {
  if (mode == REPLICATE) return (at == 0 ? 0 : at + before) + n;
  if (mode == REFLECT) {
    int32_t mirrored = at > 0 && at <= before;
    if (n < mirrored) return before - at;
    return n == mirrored ? before + at : before + 2 * (len - 1) - at;
  }
  return (at + before) % len + n * len;
}

template <typename T> INLINE void surround_sum(const T* from, T* to, uint32_t count, const Around& around) {
  FOR_EACH_SHORT(i, count) {
    int32_t at[MAX_AXES];
    uint32_t rest = i, terms = 1;
    ROLLED for (int axis = around.rank - 1; axis >= 0; axis--) {
      at[axis] = (int32_t)(rest % (uint32_t)around.inner[axis]);
      rest /= (uint32_t)around.inner[axis];
      terms *= shows(around.mode, at[axis], around.inner[axis], around.before[axis],
                     (int32_t)around.outer[axis].by);
    }
    T sum = T(0);
    ROLLED for (uint32_t term = 0; term < terms; term++) {
      uint32_t left = term;
      int64_t source = 0, step = 1;
      ROLLED for (int axis = around.rank - 1; axis >= 0; axis--) {
        int32_t len = around.inner[axis], before = around.before[axis], outer = around.outer[axis].by;
        uint32_t choices = shows(around.mode, at[axis], len, before, outer);
        source += step * showing(around.mode, at[axis], len, before, (int32_t)(left % choices));
        left /= choices;
        step *= outer;
      }
      sum += from[source];
    }
    to[i] = sum;
  }
}

#define SURROUND_SUM(T, suffix)                                                                            \
  KERNEL surround_sum_##suffix(const T* from, T* to, uint32_t count, Around around) {                      \
    surround_sum(from, to, count, around);                                                                 \
  }                                                                                                        \
  EXPORT(surround_sum_##suffix)
SURROUND_SUM(float, f32)
SURROUND_SUM(double, f64)
SURROUND_SUM(int32_t, i32)
SURROUND_SUM(int64_t, i64)

// Sums over axes: the gradient of repeating. `kept` leads from a result to its first term, `summed` from
// there to the others. Terms are dealt to `shares` threads a result, number by number in turn; with one
// share the sum is written at once, else shares are added up by a second kernel, a block for each result.
template <typename E>
INLINE void sum_axes(const E* from, E* to, typename Math<E>::type* partial, uint32_t results, uint32_t terms,
                     Divider result_count, uint32_t shares, const Walk& kept, const Walk& summed) {
  FOR_EACH_SHORT(i, results * shares) {
    uint32_t share = i, result = split(share, result_count);
    int64_t start, target, at, unused;
    locate(kept, result, start, target);
    typename Math<E>::type sum = 0;
    for (uint32_t term = share; term < terms; term += shares) {
      locate(summed, term, at, unused);
      sum += load(from[start + at]);
    }
    if (shares == 1) to[target] = Store<E>::of(sum);
    else partial[i] = sum;
  }
}

template <typename E>
INLINE void sum_shares(const typename Math<E>::type* partial, E* to, uint32_t results, uint32_t shares) {
  typedef typename Math<E>::type T;
  __shared__ T sums[WARP_SIZE];
  T sum = 0;
  for (uint32_t share = threadIdx.x; share < shares; share += blockDim.x)
    sum += partial[(int64_t)share * results + blockIdx.x];
  sum = warp_sum(sum);
  if (threadIdx.x % WARP_SIZE == 0) sums[threadIdx.x / WARP_SIZE] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (uint32_t warp = 1; warp < blockDim.x / WARP_SIZE; warp++) sum += sums[warp];
    to[blockIdx.x] = Store<E>::of(sum);
  }
}

#define AXIS_SUMS(E, suffix)                                                                               \
  KERNEL sum_axes_##suffix(const E* from, E* to, Math<E>::type* partial, uint32_t results, uint32_t terms, \
                           Divider result_count, uint32_t shares, Walk kept, Walk summed) {                \
    sum_axes(from, to, partial, results, terms, result_count, shares, kept, summed);                       \
  }                                                                                                        \
  EXPORT(sum_axes_##suffix)                                                                                \
  KERNEL sum_shares_##suffix(const Math<E>::type* partial, E* to, uint32_t results, uint32_t shares) {     \
    sum_shares(partial, to, results, shares);                                                              \
  }                                                                                                        \
  EXPORT(sum_shares_##suffix)
AXIS_SUMS(float, f32)
AXIS_SUMS(double, f64)
AXIS_SUMS(bf16, bf16)
AXIS_SUMS(f16, f16)
AXIS_SUMS(int32_t, i32)
AXIS_SUMS(int64_t, i64)

// A few numbers that were known before: a shape.
struct Numbers { int64_t at[16]; };
KERNEL write_numbers(void* out, int32_t wide, int32_t count, Numbers numbers) {
  int i = threadIdx.x;
  if (i >= count) return;
  if (wide) ((int64_t*)out)[i] = numbers.at[i];
  else ((int32_t*)out)[i] = (int32_t)numbers.at[i];
}
EXPORT(write_numbers)
