// Records of keyed tables that a trainer holds for a pass: which rows a step reads and trains, what it counts, and
// pushes.
#include "accessor.cuh"
#include "segments.cuh"

FILE_OWN {

const uint32_t MAX_LISTS = 64;

/// Lists of row numbers, and where those go that are read and those that are trained; the last may be null.
struct Admitted {
  const int64_t* rows[MAX_LISTS];
  int64_t* read[MAX_LISTS];
  int64_t* trained[MAX_LISTS];
};
struct ListCounts {
  uint32_t of[MAX_LISTS];
};
const int32_t BY_COUNT = 1;

/// Lists of row numbers; how many each has, and of those how many a sample has, and where the list begins among all.
struct RowLists {
  const int64_t* rows[MAX_LISTS];
};
struct ListShapes {
  uint32_t count[MAX_LISTS], per_sample[MAX_LISTS], first[MAX_LISTS];
};

/// Shows or clicks: one for each sample, of some type.
struct SampleCounts {
  const void* shows;
  const void* clicks;
};
const int32_t OF_F32 = 0, OF_F64 = 1, OF_I32 = 2;
INLINE float number_at(const void* numbers, int32_t type, uint32_t at) {
  if (type == OF_F32) return ((const float*)numbers)[at];
  if (type == OF_F64) return (float)((const double*)numbers)[at];
  if (type == OF_I32) return (float)((const int32_t*)numbers)[at];
  return (float)((const int64_t*)numbers)[at];
}

/// Counts what a push counts in the entry of a row: mark, then counters. `each` counts a row once, whatever names it.
struct CountRow {
  typedef float T;
  struct Held {};
  float* entries;
  uint32_t columns;
  int32_t each;
  INLINE Held ahead(uint32_t, uint32_t, uint32_t) const { return Held(); }
  INLINE void finish(uint32_t row, uint32_t, uint32_t column, const Piece<float, 1>& sum, Held) const {
    float* at = entries + (size_t)row * columns;
    if (at[0] < 0) return;
    if (column == 0) at[0] = 1;
    if (1 + column < columns) at[1 + column] += each ? (column == 0 ? 1.0f : 0.0f) : sum.x[0];
  }
};

/// Takes down the shows and clicks of a row for the push that follows.
struct NoteCounts {
  typedef float T;
  struct Held {};
  float* records;
  uint32_t lent;
  INLINE Held ahead(uint32_t, uint32_t, uint32_t) const { return Held(); }
  INLINE void finish(uint32_t row, uint32_t, uint32_t column, const Piece<float, 1>& sum, Held) const {
    records[(size_t)row * lent + PUSHED + column] = sum.x[0];
  }
};

}  // own

// A row of blocks for each list.
KERNEL __launch_bounds__(256) admit_rows(BY_VALUE Admitted lists, BY_VALUE ListCounts counts, const float* entries,
                                         uint32_t columns, int32_t kind, float least, int64_t bound,
                                         Complaint* complaint, uint32_t op) {
  IN_TURN;
  uint32_t list = blockIdx.y, i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= counts.of[list]) return;
  int64_t row = lists.rows[list][i];
  if (row < 0 || row >= bound) {
    complain(complaint, op, OUT_OF_RANGE, row, i, bound);
    row = 0;
  }
  const float* entry = entries + (size_t)row * columns;
  bool is_read = entry[0] > 0 && (kind != BY_COUNT || entry[1] >= least);
  lists.read[list][i] = is_read ? row : 0;
  if (!lists.trained[list]) return;
  bool is_trained = !(entry[0] < 0) && (kind != BY_COUNT || entry[1] + 1 >= least);
  lists.trained[list][i] = is_trained ? row : 0;
}
EXPORT(admit_rows)

// The counts of the samples that name rows; a row of blocks for each list. Without counts each row has one show.
KERNEL __launch_bounds__(256) counts_of_rows(BY_VALUE RowLists lists, BY_VALUE ListShapes shapes,
                                             BY_VALUE SampleCounts samples, int32_t show_type, int32_t click_type,
                                             int32_t has_padding, int64_t bound, int64_t* numbers, float* counts,
                                             Complaint* complaint, uint32_t op) {
  IN_TURN;
  uint32_t list = blockIdx.y, i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= shapes.count[list]) return;
  int64_t row = lists.rows[list][i];
  bool is_row = row >= 0 && row < bound && !(has_padding && row == 0);
  if (row < 0 || row >= bound) complain(complaint, op, OUT_OF_RANGE, row, i, bound);
  size_t to = (size_t)shapes.first[list] + i;
  uint32_t sample = i / shapes.per_sample[list];
  numbers[to] = is_row ? row : NO_ROW;
  counts[2 * to] = samples.shows ? number_at(samples.shows, show_type, sample) : 1;
  counts[2 * to + 1] = samples.clicks ? number_at(samples.clicks, click_type, sample) : 0;
}
EXPORT(counts_of_rows)

KERNEL __launch_bounds__(CHUNK_WARPS* WARP_SIZE)
    count_rows_thin_f32(BY_VALUE Sorted sorted, BY_VALUE Amount amount, const float* values, float* began_before,
                        float* goes_on, float* entries, uint32_t columns, int32_t each) {
  IN_TURN;
  CountRow sink{entries, columns, each};
  sum_chunks<1, THIN_LANES>(sorted, amount, values, began_before, goes_on, sink);
}
EXPORT(count_rows_thin_f32)
KERNEL __launch_bounds__(SPAN_THREADS)
    count_row_spans_thin_f32(BY_VALUE Sorted sorted, BY_VALUE Amount amount, const float* began_before,
                             const float* goes_on, float* entries, uint32_t columns, int32_t each) {
  IN_TURN;
  CountRow sink{entries, columns, each};
  sum_spans<1, THIN_LANES>(sorted, amount, began_before, goes_on, sink);
}
EXPORT(count_row_spans_thin_f32)

KERNEL __launch_bounds__(CHUNK_WARPS* WARP_SIZE)
    note_counts_thin_f32(BY_VALUE Sorted sorted, BY_VALUE Amount amount, const float* values, float* began_before,
                         float* goes_on, float* records, uint32_t lent) {
  IN_TURN;
  NoteCounts sink{records, lent};
  sum_chunks<1, THIN_LANES>(sorted, amount, values, began_before, goes_on, sink);
}
EXPORT(note_counts_thin_f32)
KERNEL __launch_bounds__(SPAN_THREADS)
    note_count_spans_thin_f32(BY_VALUE Sorted sorted, BY_VALUE Amount amount, const float* began_before,
                              const float* goes_on, float* records, uint32_t lent) {
  IN_TURN;
  NoteCounts sink{records, lent};
  sum_spans<1, THIN_LANES>(sorted, amount, began_before, goes_on, sink);
}
EXPORT(note_count_spans_thin_f32)

// Pushes merged gradients, which stand where their row's number stood first; a thread for each row.
KERNEL __launch_bounds__(256) push_records(BY_VALUE Sorted sorted, uint32_t count, uint32_t bound, const float* grads,
                                           float* params, float* records, BY_VALUE Accessor accessor,
                                           int32_t is_counted) {
  IN_TURN;
  FOR_EACH(i, count) {
    uint32_t row = sorted.keys[i];
    if (row >= bound || (i > 0 && sorted.keys[i - 1] == row)) continue;
    float* lent = records + (size_t)row * accessor.lent;
    float shows = is_counted ? lent[PUSHED] : 1, clicks = is_counted ? lent[PUSHED + 1] : 0;
    lent[PUSHED] = 0;
    lent[PUSHED + 1] = 0;
    push(accessor, lent, grads + (size_t)sorted.positions[i] * accessor.width, shows, clicks);
    pull(accessor, lent, params + (size_t)row * accessor.width);
  }
}
EXPORT(push_records)
