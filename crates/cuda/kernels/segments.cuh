// Sums of rows that have the same number, in an order that depends on the numbers alone.
//
// The rows come sorted (sort.cu). A warp sums 32 sorted positions, a chunk, by segments of equal
// numbers: those inside are finished at once, those that reach over an edge of the chunk leave partial sums
// (`sum_chunks`), which a second kernel adds up (`sum_spans`). A sink says what becomes of a sum:
//
//   typedef T;                                the type of elements
//   Held ahead(row, head, column)             loads what `finish` needs, before the sum is there
//   void finish(row, head, column, sum, held) takes the sum of V elements from `column` of row `row`, whose
//                                             first occurrence is at position `head`
//
// `L` lanes share a row, each with pieces of `V` elements.
#pragma once
#include "tables.cuh"

#ifdef EMULATED_CARD
#define UNROLL_BY_4
#else
#define UNROLL_BY_4 _Pragma("unroll 4")
#endif

FILE_OWN {

const int CHUNK = WARP_SIZE, CHUNK_WARPS = 4;
const uint32_t NO_KEY = 0xffffffffu;

// Pieces and lanes by the width of rows (`lower/segments.rs` chooses): 16 bytes at once where rows allow it,
// a lane for each row where they are thin, else a lane for each element.
const int WIDE_LANES = 4, THIN_LANES = 1, ODD_LANES = 16;

/// Sorted row numbers, and where each stood.
struct Sorted {
  const uint32_t* keys;
  const uint32_t* positions;
};

/// How many they are, what is no row number any more, how many elements a row has, and where its values lie: in runs of
/// rows, `step` elements from one to the next, and `run_step` from run to run.
struct Amount {
  uint32_t count, bound, width, step;
  Divider run;
  uint32_t run_step;
  INLINE size_t first_element(uint32_t position) const {
    uint32_t which = run.quotient(position);
    return (size_t)which * run_step + (size_t)(position - which * run.by) * step;
  }
};

template <int V, int L, typename Sink>
INLINE void sum_chunks(const Sorted& sorted, const Amount& amount, const typename Sink::T* values,
                       typename Sink::T* began_before, typename Sink::T* goes_on, const Sink& sink) {
  typedef typename Sink::T T;
  typedef typename Sink::Held Held;
  // Rows that a warp loads at once, and how many of its segments a lane has under way: as registers allow.
  const int ROWS = WARP_SIZE / L, MOST = sizeof(Held) <= 32 ? 4 : 2, BATCH = L < MOST ? L : MOST;
  const uint32_t width = amount.width;
  __shared__ Piece<T, V> staged[CHUNK_WARPS][CHUNK][L];
  __shared__ uint32_t starts[CHUNK_WARPS][CHUNK + 1], rows[CHUNK_WARPS][CHUNK], firsts[CHUNK_WARPS][CHUNK];
  uint32_t warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE, group = lane / L;
  uint32_t chunk = blockIdx.x * CHUNK_WARPS + warp, base = chunk * CHUNK;
  if (base >= amount.count) return;
  bool is_inside = base + lane < amount.count;
  uint32_t key = is_inside ? sorted.keys[base + lane] : NO_KEY;
  uint32_t position = is_inside ? sorted.positions[base + lane] : 0;
  uint32_t key_before = base ? sorted.keys[base - 1] : NO_KEY;
  uint32_t key_after = base + CHUNK < amount.count ? sorted.keys[base + CHUNK] : NO_KEY;
  uint32_t count = __popc(__ballot_sync(ALL_LANES, key < amount.bound));
  if (count == 0) return;

  uint32_t previous = __shfl_up_sync(ALL_LANES, key, 1);
  bool is_head = lane < count && (lane == 0 || key != previous);
  uint32_t heads = __ballot_sync(ALL_LANES, is_head), segments = __popc(heads);
  if (is_head) {
    uint32_t segment = __popc(heads & ((1u << lane) - 1));
    starts[warp][segment] = lane;
    rows[warp][segment] = key;
    firsts[warp][segment] = position;
  }
  if (lane == 0) starts[warp][segments] = count;
  bool began = key_before == __shfl_sync(ALL_LANES, key, 0);
  bool goes = key_after == __shfl_sync(ALL_LANES, key, count - 1);
  uint32_t first_own = began ? 1 : 0, end_own = goes ? segments - 1 : segments;
  __syncwarp();

  for (uint32_t block = 0; block < width; block += L * V) {
    uint32_t column = block + lane % L * V;
    bool has_columns = column < width;
    // All that is read far away is asked for before the first of it is needed.
    Piece<T, V> pieces[L];
    UNROLL for (int i = 0; i < L; i++) {
      uint32_t from = __shfl_sync(ALL_LANES, position, i * ROWS + group);
      if (has_columns) pieces[i] = load_piece<T, V>(values + amount.first_element(from) + column);
    }
    Held held[BATCH];
    for (int first = 0; first < L; first += BATCH) {
      UNROLL for (int i = 0; i < BATCH; i++) {
        uint32_t segment = (first + i) * ROWS + group;
        if (has_columns && segment >= first_own && segment < end_own)
          held[i] = sink.ahead(rows[warp][segment], firsts[warp][segment], column);
      }
      if (first == 0) {
        UNROLL for (int i = 0; i < L; i++) staged[warp][i * ROWS + group][lane % L] = pieces[i];
        __syncwarp();
      }
      UNROLL for (int i = 0; i < BATCH; i++) {
        uint32_t segment = (first + i) * ROWS + group;
        if (!has_columns || segment >= segments) continue;
        uint32_t start = starts[warp][segment], end = starts[warp][segment + 1];
        Piece<T, V> sum = staged[warp][start][lane % L];
        for (uint32_t r = start + 1; r < end; r++) add_piece(sum, staged[warp][r][lane % L]);
        if (segment >= first_own && segment < end_own) {
          sink.finish(rows[warp][segment], firsts[warp][segment], column, sum, held[i]);
        } else {
          T* partial = segment < first_own ? began_before : goes_on;
          store_piece<T, V>(partial + (size_t)chunk * width + column, sum);
        }
      }
    }
    __syncwarp();
  }
}

const int SPAN_THREADS = 256, SPAN_WARPS = SPAN_THREADS / WARP_SIZE, CHUNKS_A_WARP = 4;

/// A segment that crosses chunks: begins in chunk `first` and ends in `last`.
struct Span {
  uint32_t row, head, first, last;
};

/// How far the segment of `row` reaches that begins in chunk `first`; known to all lanes. `is_long` when it
/// fills more than the 32 chunks that follow.
INLINE uint32_t last_chunk(const Sorted& sorted, const Amount& amount, uint32_t row, uint32_t first,
                           bool& is_long) {
  uint32_t lane = threadIdx.x % WARP_SIZE, chunks = (amount.count + CHUNK - 1) / CHUNK, last = first;
  uint32_t follow = first + 1 + lane;
  bool is_same = follow < chunks && sorted.keys[follow * CHUNK] == row;
  uint32_t same = __ballot_sync(ALL_LANES, is_same);
  is_long = same == ALL_LANES;
  if (!is_long) return last + __ffs(~same) - 1;
  last += WARP_SIZE;
  // As in a search by halves, but in 32 parts at a time.
  for (uint32_t step = 1u << 20; step; step >>= 5) {
    uint64_t probe = last + (uint64_t)step * (lane + 1);
    is_same = probe < chunks && sorted.keys[probe * CHUNK] == row;
    same = __ballot_sync(ALL_LANES, is_same);
    last += step * (same == ALL_LANES ? WARP_SIZE : __ffs(~same) - 1);
  }
  return last;
}

/// The partial sums of a span that begins at `goes_on[first]`: every `of`-th, from the `part`-th on.
template <int V, typename T>
INLINE Piece<T, V> sum_part(const Span& span, uint32_t width, uint32_t column, const T* began_before,
                            const T* goes_on, uint32_t part, uint32_t of) {
  Piece<T, V> sum = no_piece<T, V>();
  if (part == 0) sum = load_piece<T, V>(goes_on + (size_t)span.first * width + column);
  UNROLL_BY_4 for (uint32_t chunk = span.first + 1 + part; chunk <= span.last; chunk += of)
    add_piece(sum, load_piece<T, V>(began_before + (size_t)chunk * width + column));
  return sum;
}

template <int V, int L, typename Sink>
INLINE void sum_spans(const Sorted& sorted, const Amount& amount, const typename Sink::T* began_before,
                      const typename Sink::T* goes_on, const Sink& sink) {
  typedef typename Sink::T T;
  const uint32_t width = amount.width;
  __shared__ Span long_spans[SPAN_WARPS * CHUNKS_A_WARP];
  __shared__ uint32_t long_count[SPAN_WARPS];
  __shared__ Piece<T, V> sums[SPAN_THREADS];
  uint32_t warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE;
  uint32_t chunks = (amount.count + CHUNK - 1) / CHUNK, warps = gridDim.x * SPAN_WARPS;
  if (lane == 0) long_count[warp] = 0;
  __syncwarp();

  // The rows that occur most stand together, so neighbours among chunks go to different blocks.
  uint32_t mine = lane * warps + warp * gridDim.x + blockIdx.x, row = NO_KEY;
  bool begins = false;
  if (lane < CHUNKS_A_WARP && mine < chunks && mine + 1 < chunks) {
    row = sorted.keys[mine * CHUNK + CHUNK - 1];
    begins = row < amount.bound && sorted.keys[mine * CHUNK + CHUNK] == row;
    if (begins && mine && sorted.keys[mine * CHUNK] == row) begins = sorted.keys[mine * CHUNK - 1] != row;
  }
  for (uint32_t left = __ballot_sync(ALL_LANES, begins); left; left &= left - 1) {
    int from = __ffs(left) - 1;
    Span span;
    span.row = __shfl_sync(ALL_LANES, row, from);
    span.first = __shfl_sync(ALL_LANES, mine, from);
    uint32_t is_row = __ballot_sync(ALL_LANES, sorted.keys[span.first * CHUNK + lane] == span.row);
    span.head = sorted.positions[span.first * CHUNK + __ffs(is_row) - 1];
    bool is_long;
    span.last = last_chunk(sorted, amount, span.row, span.first, is_long);
    if (is_long) {
      if (lane == 0) long_spans[warp * CHUNKS_A_WARP + long_count[warp]++] = span;
      continue;
    }
    for (uint32_t block = 0; block < width; block += L * V) {
      uint32_t column = block + lane % L * V;
      bool is_last_step = lane < L && column < width;
      typename Sink::Held held;
      if (is_last_step) held = sink.ahead(span.row, span.head, column);
      Piece<T, V> sum = no_piece<T, V>();
      if (column < width)
        sum = sum_part<V, T>(span, width, column, began_before, goes_on, lane / L, WARP_SIZE / L);
      UNROLL for (int with = L; with < WARP_SIZE; with <<= 1)
        UNROLL for (int i = 0; i < V; i++) sum.x[i] += __shfl_xor_sync(ALL_LANES, sum.x[i], with);
      if (is_last_step) sink.finish(span.row, span.head, column, sum, held);
    }
  }

  // Long ones are the work of the whole block.
  __syncthreads();
  for (int w = 0; w < SPAN_WARPS; w++) {
    for (uint32_t s = 0; s < long_count[w]; s++) {
      Span span = long_spans[w * CHUNKS_A_WARP + s];
      for (uint32_t block = 0; block < width; block += L * V) {
        uint32_t column = block + threadIdx.x % L * V;
        Piece<T, V> sum = no_piece<T, V>();
        if (column < width)
          sum = sum_part<V, T>(span, width, column, began_before, goes_on, threadIdx.x / L, SPAN_THREADS / L);
        sums[threadIdx.x] = sum;
        __syncthreads();
        for (uint32_t half = SPAN_THREADS / 2; half >= L; half >>= 1) {
          if (threadIdx.x < half) add_piece(sums[threadIdx.x], sums[threadIdx.x + half]);
          __syncthreads();
        }
        if (threadIdx.x < L && column < width) {
          typename Sink::Held held = sink.ahead(span.row, span.head, column);
          sink.finish(span.row, span.head, column, sums[threadIdx.x], held);
        }
        __syncthreads();
      }
    }
  }
}

}  // own
