// What kernels over rows and columns share: types, packs of neighbours, and sums over the threads that work
// on one row or one column. All sums have a fixed order, so that bits repeat from run to run.
#pragma once
#include "formulas.cuh"

// KERNELS(element type, what names of kernels end in)
#define WIDE_FLOATS(KERNELS) KERNELS(float, f32) KERNELS(double, f64)
#define ALL_FLOATS(KERNELS) WIDE_FLOATS(KERNELS) KERNELS(bf16, bf16) KERNELS(f16, f16)

// Before a loop whose body is long: that it stays one.
#ifdef EMULATED_CARD
#define ROLLED
#else
#define ROLLED _Pragma("unroll 1")
#endif

// A name of their own keeps these from meeting others of the same name when all files are linked together.
namespace rows {

/// Threads of a block in all kernels that include this file.
const int BLOCK = 256;

/// Neighbours that are loaded and stored at once.
template <typename E, int COUNT> struct __align__(sizeof(E) * COUNT) Pack { E at[COUNT]; };

/// The sum over a block, the same bits in every thread; all threads must call it.
template <typename T> INLINE T block_sum(T x) {
  __shared__ T parts[BLOCK / WARP_SIZE];
  x = warp_sum(x);
  // The parts of an earlier sum have been read by all.
  __syncthreads();
  if (threadIdx.x % WARP_SIZE == 0) parts[threadIdx.x / WARP_SIZE] = x;
  __syncthreads();
  T total = T(0);
  for (int warp = 0; warp < BLOCK / WARP_SIZE; warp++) total += parts[warp];
  return total;
}

/// The greatest of a block; NaN if there is one.
template <typename T> INLINE T block_max(T x) {
  __shared__ T parts[BLOCK / WARP_SIZE];
  x = warp_max(x);
  __syncthreads();
  if (threadIdx.x % WARP_SIZE == 0) parts[threadIdx.x / WARP_SIZE] = x;
  __syncthreads();
  T top = parts[0];
  for (int warp = 1; warp < BLOCK / WARP_SIZE; warp++) {
    T other = parts[warp];
    top = other > top || other != other ? other : top;
  }
  return top;
}

/// The threads that share a row: a warp or a block. Rows are dealt out to the teams of the grid.
template <int SIZE> struct Team {
  static INLINE int64_t first_row() { return (int64_t)blockIdx.x * (BLOCK / SIZE) + threadIdx.x / SIZE; }
  static INLINE int64_t count() { return (int64_t)gridDim.x * (BLOCK / SIZE); }
  static INLINE int rank() { return threadIdx.x % SIZE; }
  template <typename T> static INLINE T sum(T x) { return SIZE == WARP_SIZE ? warp_sum(x) : block_sum(x); }
  template <typename T> static INLINE T max(T x) { return SIZE == WARP_SIZE ? warp_max(x) : block_max(x); }
};
#define FOR_EACH_ROW(TEAM, row, rows) \
  for (int64_t row = TEAM::first_row(); row < (rows); row += TEAM::count())

/// Column sums: a block takes a tile of columns, one for each lane of a warp, and a chunk of rows, which its
/// warps share. What it found for its chunk goes to `partials`, and a second kernel adds up the chunks.
const int TILE = 32;
const int TILE_LANES = BLOCK / TILE;

/// The sums over the threads of a tile that have the same column; right in those of lane 0.
template <int COUNT, typename T> INLINE void tile_sum(T* sums) {
  __shared__ T parts[TILE_LANES][TILE];
  int column = threadIdx.x % TILE, lane = threadIdx.x / TILE;
  for (int i = 0; i < COUNT; i++) {
    __syncthreads();
    parts[lane][column] = sums[i];
    __syncthreads();
    if (lane == 0) {
      T total = T(0);
      for (int other = 0; other < TILE_LANES; other++) total += parts[other][column];
      sums[i] = total;
    }
  }
}

/// A column of a tile (counted in packs of `PACK`), and the rows of this thread: `first`, `first +
/// TILE_LANES`, … below `end`.
struct TileRows {
  int64_t column, first, end;
  INLINE TileRows(int64_t rows, int64_t rows_per_chunk) {
    column = (int64_t)blockIdx.x * TILE + threadIdx.x % TILE;
    int64_t start = (int64_t)blockIdx.y * rows_per_chunk;
    first = start + threadIdx.x / TILE;
    end = start + rows_per_chunk < rows ? start + rows_per_chunk : rows;
  }
};

}  // namespace rows
using namespace rows;
