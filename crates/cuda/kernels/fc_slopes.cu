// The gradient of the input of an `fc` taken through the relu that made this input: one product on tensor cores, where a
// library's would be followed by a pass over all of it. For batches so small that launches cost more than products.
#include "tiles.cuh"

FILE_OWN {

/// Asks for the next terms of both factors.
template <typename E>
INLINE void load_parts(Part& left, Part& right, const E* dz, const E* w, uint32_t part, const Slopes& of) {
  load_part(left, dz, blockIdx.y * TILE, of.rows, part * TILE, of.terms);
  load_part(right, w, blockIdx.x * TILE, of.columns, part * TILE, of.terms);
}

/// `dx = dz * wᵀ` where `x` is positive, and 0 elsewhere.
template <typename E> INLINE void fc_slopes(const E* dz, const E* w, const E* x, E* dx, const Slopes& of) {
  __shared__ Part lefts[PARTS], rights[PARTS];
  uint32_t parts = (of.terms + TILE - 1) / TILE;
  UNROLL for (uint32_t part = 0; part < PARTS - 1; part++) {
    if (part < parts) load_parts(lefts[part], rights[part], dz, w, part, of);
    end_group();
  }
  Own own(blockIdx.y * TILE, blockIdx.x * TILE);
  Inputs inputs;
  inputs.load(x, own, of);
  Sums sums = {};
  for (uint32_t part = 0; part < parts; part++) {
    wait_for_groups<PARTS - 2>();
    // This part is there for all, and all are done with the one before, whose place the next takes.
    __syncthreads();
    uint32_t next = part + PARTS - 1;
    if (next < parts) load_parts(lefts[next % PARTS], rights[next % PARTS], dz, w, next, of);
    end_group();
    multiply<E>(sums, lefts[part % PARTS], rights[part % PARTS], of.terms - part * TILE);
  }
  inputs.store(sums, dx, own, of);
}

}  // own

#define FC_SLOPES(E, suffix)                                                                               \
  KERNEL __launch_bounds__(THREADS) fc_slopes_##suffix(const E* dz, const E* w, const E* x, E* dx,         \
                                                       BY_VALUE Slopes of) { IN_TURN;                      \
    fc_slopes<E>(dz, w, x, dx, of);                                                                        \
  }                                                                                                        \
  EXPORT(fc_slopes_##suffix)
FC_SLOPES(bf16, bf16)
FC_SLOPES(f16, f16)
