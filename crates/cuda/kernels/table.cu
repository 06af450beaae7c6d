// Rows of a hash table by key and by number: found, made, copied, moved.
#include "philox.cuh"
#include "table.cuh"

FILE_OWN {

const int TABLE_THREADS = 256;

/// The first values of a row: those that a table of the host draws for the key (ps, `table/init.rs`). They
/// depend on the key alone, never on when or by whom the row is made.
struct First {
  /// What numbers are drawn by.
  uint64_t draw;
  uint32_t kind;
  /// Columns of weights; as many of each accumulator follow.
  uint32_t width;
  double a, b;
  float states[4];
};
const uint32_t CONSTANT = 0, UNIFORM = 1, GAUSSIAN = 2, TRUNCATED = 3;

/// Four neighbours, from `column` on. Rows are of whole pieces, so that one draw of four words is one piece.
template <bool IS_NORMAL>
INLINE Piece<float, 4> first_piece(const First& first, uint64_t key, uint32_t column) {
  Piece<float, 4> piece = no_piece<float, 4>();
  if (column >= first.width) {
    uint32_t state = 0;
    for (column -= first.width; column >= first.width; column -= first.width) state++;
    if (state >= 4) return piece;
    UNROLL for (int i = 0; i < 4; i++) piece.x[i] = first.states[state];
    return piece;
  }
  Philox philox = Philox{first.draw, 0};
  uint64_t index = key * first.width + column;
  if (!IS_NORMAL) {
    Words words = words_at(philox, index / 4);
    UNROLL for (int i = 0; i < 4; i++)
      piece.x[i] = first.kind == CONSTANT
                       ? (float)first.a
                       : __fadd_rn((float)first.a, __fmul_rn((float)first.b, unit(words.at[i])));
    return piece;
  }
  ROLLED for (int i = 0; i < 4; i++) {
    double drawn = first.kind == GAUSSIAN ? normal_at(philox, index + i) : truncated_at(philox, index + i);
    piece.x[i] = (float)__dadd_rn(first.a, __dmul_rn(first.b, drawn));
  }
  return piece;
}

/// Copies the rows of a warp's keys to rows `first` and on of `out`: each lane says where its own begins,
/// null for zeros. Rows have `PIECES` pieces, or `pieces` if that is 0.
template <int PIECES>
INLINE void copy_out(const float* row, const Divider& pieces, int64_t first, int64_t n, float* out) {
  const int COUNT = PIECES ? PIECES : 1;
  uint32_t lane = threadIdx.x % WARP_SIZE, per_row = PIECES ? PIECES : pieces.by;
  for (uint32_t t = 0; t < per_row; t += COUNT) {
    Piece<float, 4> held[COUNT];
    UNROLL for (int i = 0; i < COUNT; i++) {
      uint32_t piece = (t + i) * WARP_SIZE + lane, of = PIECES ? piece / COUNT : pieces.quotient(piece);
      const float* from = (const float*)__shfl_sync(ALL_LANES, (uint64_t)row, (int)of);
      held[i] = from ? load_piece<float, 4>(from + (piece - of * per_row) * 4) : no_piece<float, 4>();
    }
    UNROLL for (int i = 0; i < COUNT; i++) {
      int64_t to = first * per_row + (t + i) * WARP_SIZE + lane;
      if (to < n * per_row) store_piece<float, 4>(out + to * 4, held[i]);
    }
  }
}

template <int PIECES>
INLINE void find(const Index& index, const Blocks& blocks, const uint64_t* keys, int64_t n,
                 const Divider& pieces, float* out) {
  int64_t i = thread_number();
  const float* row = nullptr;
  if (i < n) {
    uint32_t number = find_number(index, keys[i]);
    if (number != NO_NUMBER) row = row_at(blocks, number);
  }
  copy_out<PIECES>(row, pieces, i - threadIdx.x % WARP_SIZE, n, out);
}

/// Rows by their numbers; those that came `LATER` are looked up by their keys, and taken down. `out` may be
/// null.
template <int PIECES>
INLINE void gather(const Index& index, const Blocks& blocks, const uint32_t* made, const uint64_t* keys,
                   uint32_t* numbers, int64_t n, const Divider& pieces, float* out, Complaint* complaint,
                   uint32_t op) {
  int64_t i = thread_number();
  const float* row = nullptr;
  if (i < n) {
    uint32_t number = numbers[i];
    if (keys && number == LATER) numbers[i] = number = find_number(index, keys[i]);
    if (number < *made) row = row_at(blocks, number);
    else if (number != NO_NUMBER) complain(complaint, op, OUT_OF_RANGE, number, i, *made);
  }
  if (out) copy_out<PIECES>(row, pieces, i - threadIdx.x % WARP_SIZE, n, out);
}

/// The number of each key's row. Missing rows are made, all of their columns, and counted in `made`.
template <bool IS_NORMAL>
INLINE void make(const Index& index, const Blocks& blocks, uint32_t* made, const First& first,
                 const Divider& pieces, const uint64_t* keys, int64_t n, uint32_t* numbers) {
  int64_t i = thread_number();
  uint32_t lane = threadIdx.x % WARP_SIZE, number = NO_NUMBER, *claimed = nullptr;
  uint64_t key = i < n ? keys[i] : 0;
  if (i < n) number = claim(index, key, claimed);
  uint32_t makers = __ballot_sync(ALL_LANES, claimed != nullptr), start = 0;
  float* row = nullptr;
  if (makers) {
    // One count for a warp: its new rows are neighbours.
    int leader = __ffs(makers) - 1;
    if ((int)lane == leader) start = atomicAdd(made, (uint32_t)__popc(makers));
    start = __shfl_sync(ALL_LANES, start, leader);
    if (claimed) {
      number = start + __popc(makers & ((1u << lane) - 1));
      *claimed = number;
      row = row_at(blocks, number);
    }
  }
  if (i < n) numbers[i] = number;
  if (!makers) return;
  for (uint32_t t = 0; t < pieces.by; t++) {
    uint32_t piece = t * WARP_SIZE + lane, of = pieces.quotient(piece), column = (piece - of * pieces.by) * 4;
    float* to = (float*)__shfl_sync(ALL_LANES, (uint64_t)row, (int)of);
    uint64_t own = __shfl_sync(ALL_LANES, key, (int)of);
    if (to) store_piece<float, 4>(to + column, first_piece<IS_NORMAL>(first, own, column));
  }
}

/// Calls `each(key, number)` for this thread's rows.
template <typename F> INLINE void for_each_row(const Index& index, F each) {
  FOR_EACH(g, (int64_t)index.count + 1) {
    Seen seen = look(index.groups + g);
    if (g == (int64_t)index.count) {
      if (seen.numbers[0] != NO_NUMBER) each(NO_TABLE_KEY, seen.numbers[0]);
      continue;
    }
    for (int i = 0; i < SLOTS && seen.keys[i] != NO_TABLE_KEY; i++) each(seen.keys[i], seen.numbers[i]);
  }
}

}  // own

// Rows of 8, 16 and 32 columns are what tables mostly have.
#define ROWS_OUT(PIECES, suffix)                                                                           \
  KERNEL __launch_bounds__(TABLE_THREADS) table_find_##suffix(Index index, Blocks blocks,                  \
                                                              const uint64_t* keys, int64_t n,             \
                                                              Divider pieces, float* out) {                \
    find<PIECES>(index, blocks, keys, n, pieces, out);                                                     \
  }                                                                                                        \
  EXPORT(table_find_##suffix)                                                                              \
  KERNEL __launch_bounds__(TABLE_THREADS) table_gather_##suffix(                                           \
      Index index, Blocks blocks, const uint32_t* made, const uint64_t* keys, uint32_t* numbers,           \
      int64_t n, Divider pieces, float* out, Complaint* complaint, uint32_t op) {                          \
    gather<PIECES>(index, blocks, made, keys, numbers, n, pieces, out, complaint, op);                     \
  }                                                                                                        \
  EXPORT(table_gather_##suffix)
ROWS_OUT(2, 8)
ROWS_OUT(4, 16)
ROWS_OUT(8, 32)
ROWS_OUT(0, any)

#define ROWS_MADE(IS_NORMAL, suffix)                                                                       \
  KERNEL __launch_bounds__(TABLE_THREADS) table_make_##suffix(                                             \
      Index index, Blocks blocks, uint32_t* made, BY_VALUE First first, Divider pieces,                    \
      const uint64_t* keys, int64_t n, uint32_t* numbers) {                                                \
    make<IS_NORMAL>(index, blocks, made, first, pieces, keys, n, numbers);                                 \
  }                                                                                                        \
  EXPORT(table_make_##suffix)
ROWS_MADE(false, plain)
ROWS_MADE(true, normal)

/// The number of each key's row, `NO_NUMBER` where it has none.
KERNEL __launch_bounds__(TABLE_THREADS) table_numbers(Index index, const uint64_t* keys, int64_t n,
                                                      uint32_t* numbers) {
  int64_t i = thread_number();
  if (i < n) numbers[i] = find_number(index, keys[i]);
}
EXPORT(table_numbers)

/// Adds how many keys have no row to `count`.
KERNEL __launch_bounds__(TABLE_THREADS) table_missing(Index index, const uint64_t* keys, int64_t n,
                                                      uint32_t* count) {
  int64_t i = thread_number();
  bool is_missing = i < n && find_number(index, keys[i]) == NO_NUMBER;
  uint32_t missing = __popc(__ballot_sync(ALL_LANES, is_missing));
  if (missing && threadIdx.x % WARP_SIZE == 0) atomicAdd(count, missing);
}
EXPORT(table_missing)

/// Writes the first columns of rows by their numbers, which are not to occur twice.
KERNEL __launch_bounds__(TABLE_THREADS) table_scatter(Blocks blocks, const uint32_t* made,
                                                      const uint32_t* numbers, int64_t n, Divider pieces,
                                                      const float* values, Complaint* complaint,
                                                      uint32_t op) {
  FOR_EACH(i, n * pieces.by) {
    uint32_t at = pieces.quotient((uint32_t)i), column = ((uint32_t)i - at * pieces.by) * 4;
    uint32_t number = numbers[at];
    if (number < *made)
      store_piece<float, 4>(row_at(blocks, number) + column, load_piece<float, 4>(values + i * 4));
    else if (number != NO_NUMBER) complain(complaint, op, OUT_OF_RANGE, number, at, *made);
  }
}
EXPORT(table_scatter)

/// Fills an empty index with the rows of another; `renumbered` says their numbers anew (`NO_NUMBER`: left
/// out), unless it is null.
KERNEL __launch_bounds__(TABLE_THREADS) table_index(Index from, Index to, const uint32_t* renumbered) {
  for_each_row(from, [&](uint64_t key, uint32_t number) {
    if (renumbered) number = renumbered[number];
    if (number == NO_NUMBER) return;
    uint32_t* claimed;
    claim(to, key, claimed);
    if (claimed) *claimed = number;
  });
}
EXPORT(table_index)

/// The key of each row.
KERNEL __launch_bounds__(TABLE_THREADS) table_keys(Index index, uint64_t* keys) {
  for_each_row(index, [&](uint64_t key, uint32_t number) { keys[number] = key; });
}
EXPORT(table_keys)

/// Copies rows from one number to another: `moves` has pairs of both.
KERNEL __launch_bounds__(TABLE_THREADS) table_move(Blocks blocks, const uint32_t* moves, int64_t n,
                                                   Divider pieces) {
  FOR_EACH(i, n * pieces.by) {
    uint32_t at = pieces.quotient((uint32_t)i), column = ((uint32_t)i - at * pieces.by) * 4;
    const float* from = row_at(blocks, moves[at * 2]) + column;
    store_piece<float, 4>(row_at(blocks, moves[at * 2 + 1]) + column, load_piece<float, 4>(from));
  }
}
EXPORT(table_move)
