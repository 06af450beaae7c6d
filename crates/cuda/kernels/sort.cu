// A stable radix sort of row numbers with their positions: 8 bits a pass, each pass one kernel
// ("onesweep": blocks take their tiles by ticket and look back at what the tiles before them counted).
//
// Row numbers are whole numbers below `bound`; those to be passed over get `bound` itself, and so come
// last. The order depends on the numbers alone, never on the order of blocks.
#include "tables.cuh"

FILE_OWN {

const int DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS, MAX_PASSES = 4;
// A thread for each digit.
const int SORT_THREADS = DIGITS, SORT_WARPS = SORT_THREADS / WARP_SIZE;

// What a tile says of a digit: how many items it has itself, or how many there are up to its end.
const uint32_t OWN = 1u << 30, UP_TO_HERE = 2u << 30, COUNT = OWN - 1;

/// Writes the keys, and adds how often each digit of each pass occurs to `counts`, which was cleared.
template <typename I>
INLINE void make_keys(const I* ids, uint32_t n, int64_t padding, uint32_t bound, uint32_t passes,
                      uint32_t* keys, uint32_t* counts, Complaint* complaint, uint32_t op) {
  __shared__ uint32_t here[MAX_PASSES * DIGITS];
  for (uint32_t i = threadIdx.x; i < passes * DIGITS; i += blockDim.x) here[i] = 0;
  __syncthreads();
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    int64_t id = ids[i];
    uint32_t key = bound;
    if (id >= 0 && id < (int64_t)bound) {
      if (id != padding) key = (uint32_t)id;
    } else if (id != padding && id != NO_ROW) {
      complain(complaint, op, OUT_OF_RANGE, id, i, bound);
    }
    keys[i] = key;
    for (uint32_t pass = 0; pass < passes; pass++)
      atomicAdd(&here[pass * DIGITS + (key >> pass * DIGIT_BITS & (DIGITS - 1))], 1u);
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < passes * DIGITS; i += blockDim.x)
    if (here[i]) atomicAdd(counts + i, here[i]);
}

/// The sum of `value` over all threads before this one.
INLINE uint32_t sum_before(uint32_t value, uint32_t* warp_sums) {
  uint32_t lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE, sum = value;
  for (int by = 1; by < WARP_SIZE; by <<= 1) {
    uint32_t other = __shfl_up_sync(ALL_LANES, sum, by);
    if (lane >= (uint32_t)by) sum += other;
  }
  if (lane == WARP_SIZE - 1) warp_sums[warp] = sum;
  __syncthreads();
  for (uint32_t w = 0; w < warp; w++) sum += warp_sums[w];
  return sum - value;
}

/// The lanes that are items and have this lane's digit. By votes, which follow each other faster than matches
/// of whole words.
INLINE uint32_t same_digit(uint32_t digit, bool is_item) {
  uint32_t same = __ballot_sync(ALL_LANES, is_item);
  UNROLL for (int bit = 0; bit < DIGIT_BITS; bit++) {
    bool is_set = digit >> bit & 1;
    uint32_t set = __ballot_sync(ALL_LANES, is_set);
    same &= is_set ? set : ~set;
  }
  return same;
}

/// How many items of this thread's digit lie in the tiles before `tile`.
INLINE uint32_t look_back(const volatile uint32_t* said, uint32_t tile) {
  // Several tiles at once: what costs is the way to memory, and most tiles start together.
  const int AT_ONCE = 8;
  uint32_t count = 0;
  int64_t next = (int64_t)tile - 1;
  for (bool is_done = next < 0; !is_done;) {
    uint32_t words[AT_ONCE];
    UNROLL for (int i = 0; i < AT_ONCE; i++)
      words[i] = next - i >= 0 ? said[(next - i) * DIGITS + threadIdx.x] : UP_TO_HERE;
    int used = 0;
    UNROLL for (int i = 0; i < AT_ONCE; i++) {
      if (is_done || used != i || !(words[i] & ~COUNT)) continue;
      count += words[i] & COUNT;
      is_done = words[i] & UP_TO_HERE;
      used++;
    }
    next -= used;
  }
  return count;
}

/// Sorts by the digit at `shift`. `positions` is null in the first pass, where items stand at their own.
template <int ITEMS>
INLINE void sort_by_digit(const uint32_t* keys, const uint32_t* positions, uint32_t* keys_out,
                          uint32_t* positions_out, uint32_t n, uint32_t shift, const uint32_t* counts,
                          volatile uint32_t* said, uint32_t* ticket) {
  const uint32_t TILE = SORT_THREADS * ITEMS;
  __shared__ uint32_t before[SORT_WARPS][DIGITS], to[DIGITS], warp_sums[2][SORT_WARPS], drawn;
  __shared__ uint32_t sorted_keys[TILE], sorted_positions[TILE];
  uint32_t lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE, own = threadIdx.x;
  if (threadIdx.x == 0) drawn = atomicAdd(ticket, 1u);
  for (int w = 0; w < SORT_WARPS; w++) before[w][own] = 0;
  __syncthreads();

  // Each warp takes neighbours, a lane every 32nd of them: rows of lanes are in the order of the input.
  uint32_t tile = drawn, first = tile * TILE + warp * (WARP_SIZE * ITEMS) + lane;
  uint32_t key[ITEMS], position[ITEMS], rank[ITEMS];
  UNROLL for (int i = 0; i < ITEMS; i++) {
    uint32_t at = first + i * WARP_SIZE;
    key[i] = at < n ? keys[at] : 0;
    position[i] = at < n && positions ? positions[at] : at;
  }
  UNROLL for (int i = 0; i < ITEMS; i++) {
    bool is_item = first + i * WARP_SIZE < n;
    uint32_t digit = key[i] >> shift & (DIGITS - 1);
    uint32_t same = same_digit(digit, is_item), earlier = __popc(same & ((1u << lane) - 1));
    uint32_t seen = is_item ? before[warp][digit] : 0;
    __syncwarp();
    if (is_item && earlier == 0) before[warp][digit] = seen + __popc(same);
    __syncwarp();
    rank[i] = seen + earlier;
  }
  __syncthreads();

  uint32_t total = 0;
  for (int w = 0; w < SORT_WARPS; w++) total += before[w][own];
  volatile uint32_t* word = said + (size_t)tile * DIGITS + own;
  *word = (tile ? OWN : UP_TO_HERE) | total;
  uint32_t in_tile = sum_before(total, warp_sums[0]), in_all = sum_before(counts[own], warp_sums[1]);
  uint32_t sum = in_tile;
  for (int w = 0; w < SORT_WARPS; w++) {
    uint32_t count = before[w][own];
    before[w][own] = sum;
    sum += count;
  }
  if (tile) {
    uint32_t in_tiles_before = look_back(said, tile);
    *word = UP_TO_HERE | (in_tiles_before + total);
    in_all += in_tiles_before;
  }
  to[own] = in_all - in_tile;
  __syncthreads();

  // By way of shared memory, so that neighbours are written by neighbours.
  UNROLL for (int i = 0; i < ITEMS; i++) {
    if (first + i * WARP_SIZE >= n) continue;
    uint32_t at = before[warp][key[i] >> shift & (DIGITS - 1)] + rank[i];
    sorted_keys[at] = key[i];
    sorted_positions[at] = position[i];
  }
  __syncthreads();
  uint32_t items = min(TILE, n - tile * TILE);
  UNROLL for (int i = 0; i < ITEMS; i++) {
    uint32_t at = i * SORT_THREADS + threadIdx.x;
    if (at >= items) continue;
    uint32_t sorted = sorted_keys[at], target = to[sorted >> shift & (DIGITS - 1)] + at;
    keys_out[target] = sorted;
    positions_out[target] = sorted_positions[at];
  }
}

}  // own

#define MAKE_KEYS(I, suffix)                                                                               \
  KERNEL __launch_bounds__(256) sort_keys_##suffix(                                                        \
      const I* ids, uint32_t n, int64_t padding, uint32_t bound, uint32_t passes, uint32_t* keys,          \
      uint32_t* counts, Complaint* complaint, uint32_t op) { IN_TURN;                                      \
    make_keys<I>(ids, n, padding, bound, passes, keys, counts, complaint, op);                             \
  }                                                                                                        \
  EXPORT(sort_keys_##suffix)
MAKE_KEYS(int64_t, i64)
MAKE_KEYS(int32_t, i32)

#define SORT_PASS(ITEMS)                                                                                   \
  KERNEL __launch_bounds__(SORT_THREADS) sort_pass_##ITEMS(                                                \
      const uint32_t* keys, const uint32_t* positions, uint32_t* keys_out, uint32_t* positions_out,        \
      uint32_t n, uint32_t shift, const uint32_t* counts, uint32_t* said, uint32_t* ticket) { IN_TURN;     \
    sort_by_digit<ITEMS>(keys, positions, keys_out, positions_out, n, shift, counts, said, ticket);        \
  }                                                                                                        \
  EXPORT(sort_pass_##ITEMS)
SORT_PASS(4)
SORT_PASS(8)
SORT_PASS(16)
