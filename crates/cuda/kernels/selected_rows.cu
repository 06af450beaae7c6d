// Selected rows: added to a dense tensor, each number once, and the norm of them.
#include "block_sums.cuh"
#include "segments.cuh"

FILE_OWN {

/// Adds each sum to its row of a dense tensor.
template <typename E, int V> struct AddToRow {
  typedef E T;
  typedef Piece<T, V> Held;
  T* out;
  uint32_t width;
  INLINE T* place(uint32_t row, uint32_t column) const { return out + (size_t)row * width + column; }
  INLINE Held ahead(uint32_t row, uint32_t, uint32_t column) const {
    return load_piece<T, V>(place(row, column));
  }
  INLINE void finish(uint32_t row, uint32_t, uint32_t column, const Piece<T, V>& sum, Held held) const {
    add_piece(held, sum);
    store_piece<T, V>(place(row, column), held);
  }
};

/// Keeps each sum at the position where its number occurs first, and says so: in `rows`, by the number, in
/// `index`, by the position (from 1: it was cleared) in the row's place.
template <typename E, int V> struct Merge {
  typedef E T;
  struct Held {};
  T* out;
  int64_t* rows;
  uint32_t* index;
  uint32_t width;
  INLINE Held ahead(uint32_t, uint32_t, uint32_t) const { return Held(); }
  INLINE void finish(uint32_t row, uint32_t head, uint32_t column, const Piece<T, V>& sum, Held) const {
    store_piece<T, V>(out + (size_t)head * width + column, sum);
    if (column) return;
    if (rows) rows[head] = row;
    if (index) index[row] = head + 1;
  }
};

}  // own

#define MERGE_ROWS(T, V, LANES, suffix, S)                                                                 \
  KERNEL __launch_bounds__(CHUNK_WARPS* WARP_SIZE) merge_rows_##suffix(                                    \
      BY_VALUE Sorted sorted, BY_VALUE Amount amount, const S* values, T* began_before, T* goes_on,        \
      T* out, int64_t* rows, uint32_t* index) { IN_TURN;                                                   \
    Merge<T, V> sink{out, rows, index, amount.width};                                                      \
    sum_chunks<V, LANES>(sorted, amount, values, began_before, goes_on, sink);                             \
  }                                                                                                        \
  EXPORT(merge_rows_##suffix)
#define ROW_SUMS(T, V, LANES, suffix)                                                                      \
  KERNEL __launch_bounds__(CHUNK_WARPS* WARP_SIZE) add_rows_##suffix(                                      \
      BY_VALUE Sorted sorted, BY_VALUE Amount amount, const T* values, T* began_before, T* goes_on,        \
      T* out) { IN_TURN;                                                                                   \
    AddToRow<T, V> sink{out, amount.width};                                                                \
    sum_chunks<V, LANES>(sorted, amount, values, began_before, goes_on, sink);                             \
  }                                                                                                        \
  EXPORT(add_rows_##suffix)                                                                                \
  KERNEL __launch_bounds__(SPAN_THREADS) add_row_spans_##suffix(                                           \
      BY_VALUE Sorted sorted, BY_VALUE Amount amount, const T* began_before, const T* goes_on,             \
      T* out) { IN_TURN;                                                                                   \
    AddToRow<T, V> sink{out, amount.width};                                                                \
    sum_spans<V, LANES>(sorted, amount, began_before, goes_on, sink);                                      \
  }                                                                                                        \
  EXPORT(add_row_spans_##suffix)                                                                           \
  MERGE_ROWS(T, V, LANES, suffix, T)                                                                       \
  KERNEL __launch_bounds__(SPAN_THREADS) merge_row_spans_##suffix(                                         \
      BY_VALUE Sorted sorted, BY_VALUE Amount amount, const T* began_before, const T* goes_on,             \
      T* out, int64_t* rows, uint32_t* index) { IN_TURN;                                                   \
    Merge<T, V> sink{out, rows, index, amount.width};                                                      \
    sum_spans<V, LANES>(sorted, amount, began_before, goes_on, sink);                                      \
  }                                                                                                        \
  EXPORT(merge_row_spans_##suffix)
ROW_SUMS(float, 4, WIDE_LANES, wide_f32)
ROW_SUMS(float, 1, THIN_LANES, thin_f32)
ROW_SUMS(float, 1, ODD_LANES, odd_f32)
ROW_SUMS(double, 1, THIN_LANES, thin_f64)
ROW_SUMS(double, 1, ODD_LANES, odd_f64)

KERNEL no_rows(int64_t* rows, int64_t n) { IN_TURN; FOR_EACH(i, n) rows[i] = NO_ROW; }
EXPORT(no_rows)

#define SQUARES(T, suffix)                                                                                 \
  KERNEL square_sums_##suffix(const T* xs, int64_t n, double* partial) { IN_TURN;                          \
    double sum = 0;                                                                                        \
    FOR_EACH(i, n) sum += (double)xs[i] * (double)xs[i];                                                   \
    sum = block_sum(sum);                                                                                  \
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;                                                       \
  }                                                                                                        \
  EXPORT(square_sums_##suffix)                                                                             \
  KERNEL square_sum_##suffix(const double* partial, uint32_t count, T* out) { IN_TURN;                     \
    double sum = sum_of_blocks(partial, count);                                                            \
    if (threadIdx.x == 0) *out = (T)sum;                                                                   \
  }                                                                                                        \
  EXPORT(square_sum_##suffix)                                                                              \
  KERNEL shorten_##suffix(T* xs, int64_t n, const double* partial, uint32_t count, double longest) { IN_TURN; \
    double norm = sqrt(sum_of_blocks(partial, count));                                                     \
    if (!(norm > longest)) return;                                                                         \
    T factor = (T)(longest / norm);                                                                        \
    FOR_EACH(i, n) xs[i] *= factor;                                                                        \
  }                                                                                                        \
  EXPORT(shorten_##suffix)
SQUARES(float, f32)
SQUARES(double, f64)
MERGE_ROWS(float, 4, WIDE_LANES, wide_f32_from_bf16, bf16)
MERGE_ROWS(float, 4, WIDE_LANES, wide_f32_from_f16, f16)
