// Products of 16-bit floats in tiles of 64 x 64 elements, a block of 128 threads each, and the gradients that go through a
// relu behind them.
#pragma once
#include "tensor_cores.cuh"

FILE_OWN {

// Each of the four warps of a block computes 32 x 32 elements. A block has three parts of the factors at hand, 64 terms
// each: one is computed with while the others arrive.
const int THREADS = 128, TILE = 64, PARTS = 3;
const int WARP_TILE = 32, LEFTS = WARP_TILE / 16, RIGHTS = WARP_TILE / 8;
/// Elements of 16 bytes, and how many of these a row of a part has.
const int PACK = 8, PACKS = TILE / PACK;

template <typename E> struct __align__(16) Elements { E at[PACK]; };

/// A part of a factor: 64 rows of 64 elements. Packs lie in another order in each row, so that those of eight rows are in
/// different banks.
struct Part {
  uint4 packs[TILE * PACKS];
  INLINE uint4* at(int row, int pack) { return packs + row * PACKS + (pack ^ (row & 7)); }
};

/// Asks for 64 rows of a matrix of `rows x columns` from row `row` on, and of these 64 columns from `column` on.
template <typename E>
INLINE void load_part(Part& part, const E* from, uint32_t row, uint32_t rows, uint32_t column, uint32_t columns) {
  UNROLL for (int i = 0; i < TILE * PACKS / THREADS; i++) {
    int at = i * THREADS + threadIdx.x, r = at / PACKS, pack = at % PACKS;
    bool is_there = row + r < rows && column + pack * PACK < columns;
    size_t place = is_there ? (size_t)(row + r) * columns + column + pack * PACK : 0;
    copy_later(part.at(r, pack), from + place, is_there);
  }
}

/// Where the warp of this thread has its part of the tile of its block.
INLINE int warp_row() { return threadIdx.x / WARP_SIZE / 2 * WARP_TILE; }
INLINE int warp_column() { return threadIdx.x / WARP_SIZE % 2 * WARP_TILE; }

/// Sums of a thread: element (i, j, at) is in row `16 i + 8 * (at / 2) + g` and column `8 j + 2 q + at % 2` of its warp's.
struct Sums {
  float at[LEFTS][RIGHTS][4];
};

/// Adds the products of up to 64 terms; the right factor is transposed.
template <typename E> INLINE void multiply(Sums& sums, Part& left, Part& right, uint32_t terms) {
  int lane = threadIdx.x % WARP_SIZE, row = warp_row(), column = warp_column();
  UNROLL for (int k = 0; k < TILE / 16; k++) {
    // The same for all threads.
    if ((uint32_t)k * 16 >= terms) break;
    uint32_t a[LEFTS][4], b[RIGHTS / 2][4];
    UNROLL for (int i = 0; i < LEFTS; i++) load_matrices(a[i], left.at(row + i * 16 + lane % 16, k * 2 + lane / 16));
    UNROLL for (int j = 0; j < RIGHTS / 2; j++)
      load_matrices(b[j], right.at(column + j * 16 + lane % 8 + lane / 16 * 8, k * 2 + lane / 8 % 2));
    UNROLL for (int i = 0; i < LEFTS; i++)
      UNROLL for (int j = 0; j < RIGHTS; j++) Cores<E>::add_product(sums.at[i][j], a[i], b[j / 2] + j % 2 * 2);
  }
}

/// What a launch knows: `dz` has `rows` rows of `terms`, `w` has `columns` of them; `x` and `dx` are `rows x columns`.
struct Slopes {
  uint32_t rows, columns, terms;
};

/// The first row and column of which a thread has elements.
struct Own {
  uint32_t row, column;
  INLINE Own(uint32_t first_row, uint32_t first_column) {
    uint32_t lane = threadIdx.x % WARP_SIZE;
    row = first_row + warp_row() + lane / 4;
    column = first_column + warp_column() + lane % 4 * 2;
  }
};

/// What a relu made of the elements whose gradients a thread has, in pairs.
struct Inputs {
  uint32_t at[LEFTS][2][RIGHTS];

  /// Without `x` all are positive.
  template <typename E> INLINE void load(const E* x, const Own& own, const Slopes& of) {
    const uint32_t POSITIVE = 0x3c003c00u;
    UNROLL for (int i = 0; i < LEFTS; i++)
      UNROLL for (int half = 0; half < 2; half++)
        UNROLL for (int j = 0; j < RIGHTS; j++) {
          uint32_t r = own.row + i * 16 + half * 8, c = own.column + j * 8;
          bool is_there = x && r < of.rows && c < of.columns;
          at[i][half][j] = is_there ? *(const uint32_t*)(x + (size_t)r * of.columns + c) : POSITIVE;
        }
  }

  /// Keeps sums where the inputs are positive.
  template <typename E> INLINE void store(const Sums& sums, E* dx, const Own& own, const Slopes& of) const {
    UNROLL for (int i = 0; i < LEFTS; i++)
      UNROLL for (int half = 0; half < 2; half++)
        UNROLL for (int j = 0; j < RIGHTS; j++) {
          uint32_t r = own.row + i * 16 + half * 8, c = own.column + j * 8, input = at[i][half][j];
          if (r >= of.rows || c >= of.columns) continue;
          float low = ::load(low_of<E>(input)) > 0.0f ? sums.at[i][j][2 * half] : 0.0f;
          float high = ::load(high_of<E>(input)) > 0.0f ? sums.at[i][j][2 * half + 1] : 0.0f;
          *(uint32_t*)(dx + (size_t)r * of.columns + c) = pair_of(Store<E>::of(low), Store<E>::of(high));
        }
  }
};

}  // own
