// Products of 16-bit floats on tensor cores, with sums of 32 bits, and what feeds them. All are the work of a warp: each
// lane holds pieces of three matrices, the accumulated one, the left factor of 16 x 16 and the right one of 16 x 8:
// lane `4 * g + q` has rows g and g + 8 and, of each 8 columns, 2q and 2q + 1. The emulated card does the same by exchanging
// what lanes hold, so that all that depends on who holds what is tested there.
#pragma once
#include "prelude.cuh"

FILE_OWN {

/// Copies 16 bytes to shared memory while the thread goes on; zeros, where there is nothing to copy.
INLINE void copy_later(void* to, const void* from, bool is_there) {
#ifdef EMULATED_CARD
  if (is_there) *(uint4*)to = *(const uint4*)from;
  else *(uint4*)to = make_uint4(0, 0, 0, 0);
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from),
               "r"(is_there ? 16 : 0)
               : "memory");
#endif
}

/// Ends a group of copies of this thread.
INLINE void end_group() {
#ifndef EMULATED_CARD
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Waits until all groups of this thread but the last `PENDING` are there.
template <int PENDING> INLINE void wait_for_groups() {
#ifndef EMULATED_CARD
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

/// Four matrices of 8 x 8 from shared memory: lane `8 * i + r` says where row `r` of matrix `i` lies, and each lane gets the
/// two elements of each that it holds.
INLINE void load_matrices(uint32_t (&pieces)[4], const void* row) {
#ifdef EMULATED_CARD
  card::Brought met = card::meet(ALL_LANES, (uint64_t)row);
  uint32_t lane = card::lane();
  for (int i = 0; i < 4; i++) pieces[i] = ((const uint32_t*)met.words[8 * i + lane / 4])[lane % 4];
  // Nobody writes these rows before all have read.
  __syncwarp();
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(pieces[0]), "=r"(pieces[1]), "=r"(pieces[2]), "=r"(pieces[3])
               : "r"((uint32_t)__cvta_generic_to_shared(row))
               : "memory");
#endif
}

/// The same, each matrix transposed.
INLINE void load_transposed(uint32_t (&pieces)[4], const void* row) {
#ifdef EMULATED_CARD
  card::Brought met = card::meet(ALL_LANES, (uint64_t)row);
  uint32_t lane = card::lane();
  for (int i = 0; i < 4; i++) {
    uint32_t low = ((const uint16_t*)met.words[8 * i + lane % 4 * 2])[lane / 4];
    uint32_t high = ((const uint16_t*)met.words[8 * i + lane % 4 * 2 + 1])[lane / 4];
    pieces[i] = low | high << 16;
  }
  __syncwarp();
#else
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(pieces[0]), "=r"(pieces[1]), "=r"(pieces[2]), "=r"(pieces[3])
               : "r"((uint32_t)__cvta_generic_to_shared(row))
               : "memory");
#endif
}

/// Two neighbours as one word, and back.
template <typename E> INLINE uint32_t pair_of(E low, E high) { return (uint32_t)low.bits | (uint32_t)high.bits << 16; }
template <typename E> INLINE E low_of(uint32_t pair) { return E{(uint16_t)pair}; }
template <typename E> INLINE E high_of(uint32_t pair) { return E{(uint16_t)(pair >> 16)}; }

/// Adds the product of a left factor, four matrices of 8 x 8, and a right one, two of them, transposed as they are held.
template <typename E> struct Cores;
#ifdef EMULATED_CARD
template <typename E> struct Cores {
  static void add_product(float (&sums)[4], const uint32_t (&a)[4], const uint32_t* b) {
    uint32_t lane = card::lane(), g = lane / 4, q = lane % 4;
    // Each meeting takes the place of the one before: terms 0 to 7 and 8 to 15 of both rows, then both columns.
    uint64_t left[2][4], right[2][4];
    for (int half = 0; half < 2; half++) {
      card::Brought met = card::meet(ALL_LANES, a[2 * half] | (uint64_t)a[2 * half + 1] << 32);
      for (int i = 0; i < 4; i++) left[half][i] = met.words[4 * g + i];
    }
    card::Brought met = card::meet(ALL_LANES, b[0] | (uint64_t)b[1] << 32);
    for (int column = 0; column < 2; column++)
      for (int i = 0; i < 4; i++) right[column][i] = met.words[4 * (2 * q + column) + i];
    for (int i = 0; i < 4; i++)
      for (int k = 0; k < 16; k++) {
        int at = k % 8 / 2, shift = k % 2 * 16;
        uint64_t x = left[k / 8][at] >> (i / 2 * 32 + shift), y = right[i % 2][at] >> (k / 8 * 32 + shift);
        sums[i] += load(E{(uint16_t)x}) * load(E{(uint16_t)y});
      }
  }
};
#else
#define CORES(E, type)                                                                                       \
  template <> struct Cores<E> {                                                                              \
    static INLINE void add_product(float (&sums)[4], const uint32_t (&a)[4], const uint32_t* b) {            \
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "                            \
                   "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                         \
                   : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])                              \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                      \
    }                                                                                                        \
  };
CORES(bf16, "bf16")
CORES(f16, "f16")
#undef CORES
#endif

}  // own
