// Rows that lie with several ranks, each once and in the order of the ranks (`spread_rows`): from sorted row
// numbers, the first of equal ones is counted, and how many were counted before it is its place.
#include "tables.cuh"

FILE_OWN {

const uint32_t MAX_LISTS = 64;
const uint32_t TILE_ITEMS = 4, TILE_WARPS = 8, TILE = TILE_ITEMS * TILE_WARPS * WARP_SIZE;

/// More rows of one rank than there is room for; the host's `Problem::TooManyRows`.
const uint32_t TOO_MANY_ROWS = 6;

/// Lists of row numbers, or of places.
struct Lists { int64_t* of[MAX_LISTS]; };
/// Where each begins when they lie one behind the other, and how long it is.
struct Spans { uint32_t first[MAX_LISTS], count[MAX_LISTS]; };

/// Whether number `i` is the first of its kind. Those that were passed over are `bound`.
INLINE bool is_first(const uint32_t* keys, uint32_t i, uint32_t bound) {
  return keys[i] != bound && (i == 0 || keys[i] != keys[i - 1]);
}

/// The sum of the threads' numbers before this one; `total` is that of the block.
INLINE uint32_t sum_before(uint32_t mine, uint32_t* total) {
  __shared__ uint32_t of_warps[TILE_WARPS];
  uint32_t lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE, sum = mine;
  for (uint32_t by = 1; by < WARP_SIZE; by <<= 1) {
    uint32_t other = __shfl_up_sync(ALL_LANES, sum, by);
    if (lane >= by) sum += other;
  }
  if (lane == WARP_SIZE - 1) of_warps[warp] = sum;
  __syncthreads();
  uint32_t all = 0;
  for (uint32_t w = 0; w < TILE_WARPS; w++) {
    if (w == warp) sum += all;
    all += of_warps[w];
  }
  // The next round writes what is read here.
  __syncthreads();
  *total = all;
  return sum - mine;
}

}  // own

// Lists one behind the other, and apart again: a row of blocks for each.
KERNEL __launch_bounds__(256) spread_join(BY_VALUE Lists lists, BY_VALUE Spans spans, int64_t* all) { IN_TURN;
  uint32_t list = blockIdx.y, i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < spans.count[list]) all[spans.first[list] + i] = lists.of[list][i];
}
EXPORT(spread_join)

KERNEL __launch_bounds__(256) spread_part(BY_VALUE Lists lists, BY_VALUE Spans spans, const int64_t* all) { IN_TURN;
  uint32_t list = blockIdx.y, i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < spans.count[list]) lists.of[list][i] = all[spans.first[list] + i];
}
EXPORT(spread_part)

// How many distinct numbers begin in each tile.
KERNEL __launch_bounds__(256) spread_count(const uint32_t* keys, uint32_t n, uint32_t bound, uint32_t* firsts) { IN_TURN;
  uint32_t start = blockIdx.x * TILE + threadIdx.x * TILE_ITEMS, mine = 0, total;
  for (uint32_t i = start; i < start + TILE_ITEMS && i < n; i++) mine += is_first(keys, i, bound);
  sum_before(mine, &total);
  if (threadIdx.x == 0) firsts[blockIdx.x] = total;
}
EXPORT(spread_count)

// How many begin before each tile, in place; and, in `bases`, before the rows of each rank. One block.
KERNEL __launch_bounds__(256) spread_sum(const uint32_t* keys, uint32_t n, uint32_t bound, uint32_t* firsts,
                                         uint32_t tiles, uint32_t ranks, uint32_t each, uint32_t room,
                                         uint32_t* bases, Complaint* complaint, uint32_t op) {
  IN_TURN;
  uint32_t carried = 0;
  for (uint32_t tile = 0; tile < tiles; tile += blockDim.x) {
    uint32_t at = tile + threadIdx.x, mine = at < tiles ? firsts[at] : 0, total;
    uint32_t before = sum_before(mine, &total);
    if (at < tiles) firsts[at] = carried + before;
    carried += total;
  }
  __syncthreads();
  for (uint32_t rank = threadIdx.x; rank <= ranks; rank += blockDim.x) {
    uint32_t lowest = rank * each, low = 0, high = n;
    while (low < high) {
      uint32_t middle = low + (high - low) / 2;
      if (keys[middle] < lowest) low = middle + 1;
      else high = middle;
    }
    uint32_t base = low < n ? firsts[low / TILE] : carried;
    if (low < n)
      for (uint32_t i = low / TILE * TILE; i < low; i++) base += is_first(keys, i, bound);
    bases[rank] = base;
  }
  __syncthreads();
  for (uint32_t rank = threadIdx.x; rank < ranks; rank += blockDim.x) {
    uint32_t count = bases[rank + 1] - bases[rank];
    if (count >= room) complain(complaint, op, TOO_MANY_ROWS, count, rank, room);
  }
}
EXPORT(spread_sum)

// The place of each number, and at that place the row that it is of its rank.
KERNEL __launch_bounds__(256) spread_places(const uint32_t* keys, const uint32_t* positions, uint32_t n,
                                            uint32_t bound, const uint32_t* firsts, const uint32_t* bases,
                                            uint32_t each, uint32_t room, int64_t* places, int32_t* wanted) {
  IN_TURN;
  uint32_t start = blockIdx.x * TILE + threadIdx.x * TILE_ITEMS, mine = 0, total;
  for (uint32_t i = start; i < start + TILE_ITEMS && i < n; i++) mine += is_first(keys, i, bound);
  uint32_t seen = firsts[blockIdx.x] + sum_before(mine, &total);
  for (uint32_t i = start; i < start + TILE_ITEMS && i < n; i++) {
    uint32_t key = keys[i];
    bool first = is_first(keys, i, bound);
    seen += first;
    int64_t place = 0;
    if (key != bound) {
      // From 1: the first place of a rank is nobody's.
      uint32_t rank = key / each, at = seen - bases[rank];
      if (at < room) {
        place = (int64_t)rank * room + at;
        if (first) wanted[place] = (int32_t)(key - rank * each);
      }
    }
    places[positions[i]] = place;
  }
}
EXPORT(spread_places)
