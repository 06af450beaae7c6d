// Elements picked by position or condition, and sums that go back to where elements came from.
//
// Where several elements meet in one, positions are sorted first (they stay in order among equals) and each
// sum is made in that order.
#include "pairs.cuh"

/// Whether `index` lies in `0..bound`; complains if not.
INLINE bool is_inside(int64_t index, int64_t bound, int64_t position, Complaint* complaint, uint32_t op) {
  if ((uint64_t)index < (uint64_t)bound) return true;
  complain(complaint, op, OUT_OF_RANGE, index, position, bound);
  return false;
}

/// Lanes of `count` indices along an axis of `len` elements, `inner` apart.
struct Along {
  /// Indices of all lanes that lie in each other: `count * inner`.
  Divider span;
  Divider inner;
  uint32_t len;
};

/// The element that `index`, which is number `i`, names.
INLINE int64_t named(const Along& along, uint32_t i, int64_t index) {
  uint32_t outer = i, inside = split(outer, along.span), rest = inside;
  uint32_t inner = split(rest, along.inner);
  return ((int64_t)outer * along.len + index) * along.inner.by + inner;
}

// Slices of `width` along an axis of `bound`: out[o, i, :] = x[o, index[i], :].
template <typename T>
INLINE void gather(const T* x, const void* index, int32_t wide, T* out, uint32_t count, const Divider& width,
                   const Divider& indices, int64_t bound, Complaint* complaint, uint32_t op) {
  FOR_EACH_SHORT(i, count) {
    uint32_t outer = i, column = split(outer, width), number = split(outer, indices);
    int64_t at = index_at(index, wide, number);
    bool inside = is_inside(at, bound, number, complaint, op);
    out[i] = inside ? x[(outer * bound + at) * width.by + column] : T{};
  }
}

// Many may clear one place.
template <typename T> UNORDERED void clear(T* at) { *at = T{}; }

// Rows to where an index says, `pitch` from one to the next; no two to one place. Without rows, places are cleared.
template <typename T>
INLINE void put_rows(const T* from, const void* index, int32_t wide, T* to, uint32_t count,
                     const Divider& width, int64_t pitch, int64_t bound, Complaint* complaint, uint32_t op) {
  FOR_EACH_SHORT(i, count) {
    uint32_t row = i, column = split(row, width);
    int64_t at = index_at(index, wide, row);
    if (!is_inside(at, bound, row, complaint, op)) continue;
    if (from) to[at * pitch + column] = from[i];
    else clear(to + at * pitch + column);
  }
}

// The last of the rows that go to one place, by sorted positions.
template <typename T>
INLINE void put_last(const ShortPair* pairs, uint32_t rows, const T* from, T* to, const Divider& width,
                     uint32_t bound) {
  FOR_EACH_SHORT(i, rows * width.by) {
    uint32_t number = i, column = split(number, width), row = key_of(pairs[number]);
    if (row >= bound || (number + 1 < rows && key_of(pairs[number + 1]) == row)) continue;
    int64_t source = Pairs<ShortPair>::at(pairs[number]);
    to[(int64_t)row * width.by + column] = from[source * width.by + column];
  }
}

#define ROWS(T, size)                                                                                      \
  KERNEL gather_##size(const T* x, const void* index, int32_t wide, T* out, uint32_t count, Divider width, \
                       Divider indices, int64_t bound, Complaint* complaint, uint32_t op) {                \
    gather(x, index, wide, out, count, width, indices, bound, complaint, op);                              \
  }                                                                                                        \
  EXPORT(gather_##size)                                                                                    \
  KERNEL put_rows_##size(const T* from, const void* index, int32_t wide, T* to, uint32_t count,            \
                         Divider width, int64_t pitch, int64_t bound, Complaint* complaint, uint32_t op) { \
    put_rows(from, index, wide, to, count, width, pitch, bound, complaint, op);                            \
  }                                                                                                        \
  EXPORT(put_rows_##size)                                                                                  \
  KERNEL put_last_##size(const ShortPair* pairs, uint32_t rows, const T* from, T* to, Divider width,       \
                         uint32_t bound) {                                                                 \
    put_last(pairs, rows, from, to, width, bound);                                                         \
  }                                                                                                        \
  EXPORT(put_last_##size)
ROWS(uint8_t, 1)
ROWS(uint16_t, 2)
ROWS(uint32_t, 4)
ROWS(uint64_t, 8)
ROWS(uint4, 16)

// Choices by element size: elements of lanes, of two tensors, of a triangle, or a single one of a row.
#define CHOICES(T, size)                                                                                   \
  KERNEL take_along_##size(const T* x, const void* index, int32_t wide, T* out, uint32_t count,            \
                           Along along, Complaint* complaint, uint32_t op) {                               \
    FOR_EACH_SHORT(i, count) {                                                                             \
      int64_t at = index_at(index, wide, i);                                                               \
      out[i] = is_inside(at, along.len, i, complaint, op) ? x[named(along, i, at)] : T(0);                 \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(take_along_##size)                                                                                \
  KERNEL put_along_##size(const T* from, const int64_t* index, T* to, uint32_t count, Along along,         \
                          Complaint* complaint, uint32_t op) {                                             \
    FOR_EACH_SHORT(i, count) {                                                                             \
      if (is_inside(index[i], along.len, i, complaint, op)) to[named(along, i, index[i])] = from[i];       \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(put_along_##size)                                                                                 \
  /* What is not there counts as 0. */                                                                     \
  KERNEL choose_##size(const uint8_t* holds, const T* x, const T* y, T* out, int64_t n) {                  \
    FOR_EACH(i, n) {                                                                                       \
      const T* side = holds[i] ? x : y;                                                                    \
      out[i] = side ? side[i] : T(0);                                                                      \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(choose_##size)                                                                                    \
  KERNEL triangle_##size(const T* x, T* out, uint32_t count, Divider rows, Divider columns,                \
                         int64_t diagonal, int32_t lower) {                                                \
    FOR_EACH_SHORT(i, count) {                                                                             \
      uint32_t matrix = i, column = split(matrix, columns), row = split(matrix, rows);                     \
      bool is_left = column < row + diagonal + lower;                                                      \
      out[i] = is_left == (lower != 0) ? x[i] : T(0);                                                      \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(triangle_##size)                                                                                  \
  KERNEL one_hot_##size(const void* ids, int32_t wide, T* out, uint32_t count, Divider depth, T one,       \
                        int32_t lenient, Complaint* complaint, uint32_t op) {                              \
    FOR_EACH_SHORT(i, count) {                                                                             \
      uint32_t row = i, column = split(row, depth);                                                        \
      int64_t id = index_at(ids, wide, row);                                                               \
      if (!lenient && column == 0) is_inside(id, depth.by, row, complaint, op);                            \
      out[i] = id == column ? one : T(0);                                                                  \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(one_hot_##size)                                                                                   \
  KERNEL sequence_mask_##size(const void* lengths, int32_t kind, T* out, uint32_t count, Divider width,    \
                              T one) {                                                                     \
    FOR_EACH_SHORT(i, count) {                                                                             \
      uint32_t row = i, column = split(row, width);                                                        \
      out[i] = column < length_at(lengths, kind, row) ? one : T(0);                                        \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(sequence_mask_##size)

/// A length of any number type.
INLINE double length_at(const void* lengths, int32_t kind, uint32_t i) {
  if (kind == 0) return ((const int32_t*)lengths)[i];
  if (kind == 1) return (double)((const int64_t*)lengths)[i];
  return kind == 2 ? ((const float*)lengths)[i] : ((const double*)lengths)[i];
}
CHOICES(uint8_t, 1)
CHOICES(uint16_t, 2)
CHOICES(uint32_t, 4)
CHOICES(uint64_t, 8)

// Coordinates become positions among all slices of their size; those outside become -1.
struct Sizes { int64_t at[16]; };
KERNEL flatten_index(const void* index, int32_t wide, int64_t* out, int64_t rows, int32_t depth, Sizes dims,
                     Complaint* complaint, uint32_t op) {
  FOR_EACH(row, rows) {
    int64_t position = 0;
    for (int at = 0; at < depth && position >= 0; at++) {
      int64_t coordinate = index_at(index, wide, row * depth + at);
      bool inside = is_inside(coordinate, dims.at[at], row * depth + at, complaint, op);
      position = inside ? position * dims.at[at] + coordinate : -1;
    }
    out[row] = position;
  }
}
EXPORT(flatten_index)

// Sorted tiles of where indices lead. What leads nowhere comes last.
const uint32_t NOWHERE = ~0u;
KERNEL sort_indices(const void* index, int32_t wide, ShortPair* pairs, uint32_t count, Along along,
                    Complaint* complaint, uint32_t op) {
  __shared__ ShortPair tile[TILE_PAIRS];
  uint32_t first = blockIdx.x * TILE_PAIRS;
  for (uint32_t slot = threadIdx.x; slot < TILE_PAIRS; slot += blockDim.x) {
    uint32_t i = first + slot;
    tile[slot] = Pairs<ShortPair>::last();
    if (i >= count) continue;
    int64_t at = index_at(index, wide, i);
    bool inside = is_inside(at, along.len, i, complaint, op);
    tile[slot] = Pairs<ShortPair>::of(inside ? (uint32_t)named(along, i, at) : NOWHERE, i);
  }
  sort_tile(tile, TILE_PAIRS);
  for (uint32_t slot = threadIdx.x; slot < TILE_PAIRS && first + slot < count; slot += blockDim.x)
    pairs[first + slot] = tile[slot];
}
EXPORT(sort_indices)

// Sums of the rows that go to one place, in order, for each of several tables. Positions are cut into
// chunks, so that a place where very many rows meet does not wait for one thread: what a chunk adds to a
// place that an earlier one began goes to `partial`, and a second kernel adds that up.
const uint32_t CHUNK = 64;
struct Sums {
  /// Rows, and rows of a result: of each table.
  uint32_t rows, places;
  Divider width, row_count;
};

INLINE bool continues(const ShortPair* pairs, uint32_t i) {
  return i > 0 && key_of(pairs[i]) == key_of(pairs[i - 1]);
}

template <typename E>
INLINE void sum_sorted(const ShortPair* pairs, const E* terms, E* out, typename Math<E>::type* partial,
                       uint32_t count, const Sums& sums) {
  FOR_EACH_SHORT(thread, count) {
    uint32_t table = thread, column = split(table, sums.width), first = split(table, sums.row_count);
    bool is_rest = continues(pairs, first);
    uint32_t place = key_of(pairs[first]);
    if (place >= sums.places || (is_rest && first % CHUNK)) continue;
    typename Math<E>::type sum = 0;
    const E* begin = terms + (int64_t)table * sums.rows * sums.width.by + column;
    uint32_t end = (first / CHUNK + 1) * CHUNK;
    if (end > sums.rows) end = sums.rows;
    for (uint32_t i = first; i < end && key_of(pairs[i]) == place; i++)
      sum += load(begin[(int64_t)Pairs<ShortPair>::at(pairs[i]) * sums.width.by]);
    if (is_rest) {
      uint32_t chunks = (sums.rows + CHUNK - 1) / CHUNK;
      partial[((int64_t)table * chunks + first / CHUNK) * sums.width.by + column] = sum;
    } else {
      out[((int64_t)table * sums.places + place) * sums.width.by + column] = Store<E>::of(sum);
    }
  }
}

template <typename E>
INLINE void sum_chunks(const ShortPair* pairs, E* out, const typename Math<E>::type* partial, uint32_t count,
                       const Divider& chunks, const Sums& sums) {
  FOR_EACH_SHORT(thread, count) {
    uint32_t table = thread, column = split(table, sums.width), chunk = split(table, chunks);
    uint32_t first = chunk * CHUNK;
    if (chunk == 0 || !continues(pairs, first)) continue;
    uint32_t place = key_of(pairs[first]);
    // The first chunk behind the place's beginning adds for all that follow.
    bool is_first = key_of(pairs[first - CHUNK]) != place || !continues(pairs, first - CHUNK);
    if (place >= sums.places || !is_first) continue;
    typename Math<E>::type sum = 0;
    for (uint32_t next = chunk; next < chunks.by && key_of(pairs[next * CHUNK]) == place; next++)
      sum += partial[((int64_t)table * chunks.by + next) * sums.width.by + column];
    E* at = out + ((int64_t)table * sums.places + place) * sums.width.by + column;
    *at = Store<E>::of(load(*at) + sum);
  }
}

#define SORTED_SUMS(E, suffix)                                                                             \
  KERNEL sum_sorted_##suffix(const ShortPair* pairs, const E* terms, E* out, Math<E>::type* partial,       \
                             uint32_t count, Sums sums) {                                                  \
    sum_sorted(pairs, terms, out, partial, count, sums);                                                   \
  }                                                                                                        \
  EXPORT(sum_sorted_##suffix)                                                                              \
  KERNEL sum_chunks_##suffix(const ShortPair* pairs, E* out, const Math<E>::type* partial,                 \
                             uint32_t count, Divider chunks, Sums sums) {                                  \
    sum_chunks(pairs, out, partial, count, chunks, sums);                                                  \
  }                                                                                                        \
  EXPORT(sum_chunks_##suffix)
SORTED_SUMS(float, f32)
SORTED_SUMS(double, f64)
SORTED_SUMS(bf16, bf16)
SORTED_SUMS(f16, f16)
SORTED_SUMS(int32_t, i32)
SORTED_SUMS(int64_t, i64)
