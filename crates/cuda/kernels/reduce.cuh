// Reductions over some axes, in an order that the shape alone decides (lower/reduce/reduction.rs).
//
// A team of threads makes one result: neighbouring threads take neighbouring elements of it, or (when what
// lies side by side goes into different results) neighbouring results. Where there are few results of many
// elements, each is made in parts by several blocks, which a second kernel joins.
#pragma once
#include "broadcast.cuh"

/// Threads of a block.
const uint32_t REDUCE_THREADS = 256;

struct Reduction {
  /// How many results there are, and of how many elements each is made.
  uint32_t results, length;
  /// Elements of a result that one block takes: all, or its part.
  uint32_t part;
  /// Threads that work on one result, a power of two.
  uint32_t team;
  /// Whether they lie side by side, rather than the results of neighbouring teams.
  uint32_t is_along;
  /// The axes that are kept, and those that are reduced, with the steps of up to two inputs.
  Axes kept, reduced;
};

FILE_OWN {

/// Which result a thread works for, and as which member of its team.
struct Member {
  uint32_t result, number, stride;
};

INLINE Member member_of(const Reduction& how) {
  uint32_t thread = threadIdx.x, teams = REDUCE_THREADS / how.team;
  Member me;
  me.number = how.is_along ? thread % how.team : thread / teams;
  me.result = blockIdx.x * teams + (how.is_along ? thread / how.team : thread % teams);
  me.stride = how.is_along ? 1 : teams;
  return me;
}

/// Joins what the members of each team have; the first member gets it.
template <typename A, typename Join> INLINE A join_team(A mine, uint32_t team, const Member& me, Join join) {
  __shared__ A slots[REDUCE_THREADS];
  slots[threadIdx.x] = mine;
  __syncthreads();
  for (uint32_t half = team / 2; half > 0; half /= 2) {
    if (me.number < half) {
      slots[threadIdx.x] = join(slots[threadIdx.x], slots[threadIdx.x + half * me.stride]);
    }
    __syncthreads();
  }
  return slots[threadIdx.x];
}

/// What this thread's team makes of its part: `element(offsets)` joined, from `start` on. All threads of a
/// block call it; what the first member of a team gets counts.
template <typename A, typename Element, typename Join>
INLINE A reduce_part(const Reduction& how, const Member& me, A start, Element element, Join join) {
  A chains[4] = {start, start, start, start};
  if (me.result < how.results) {
    uint32_t base[2] = {0, 0};
    add_offsets(how.kept, me.result, base);
    uint32_t first = blockIdx.y * how.part, i = first + me.number;
    uint32_t end = first + how.part < how.length ? first + how.part : how.length;
    if (how.reduced.rank == 1) {
      uint32_t x = base[0] + i * how.reduced.steps[0][0], y = base[1] + i * how.reduced.steps[1][0];
      uint32_t x_step = how.team * how.reduced.steps[0][0], y_step = how.team * how.reduced.steps[1][0];
      // Several chains keep several loads under way.
      ROLLED for (; i + 3 * how.team < end; i += 4 * how.team) {
        UNROLL for (int chain = 0; chain < 4; chain++) {
          chains[chain] = join(chains[chain], element(x, y));
          x += x_step, y += y_step;
        }
      }
      ROLLED for (; i < end; i += how.team, x += x_step, y += y_step) {
        chains[0] = join(chains[0], element(x, y));
      }
    } else {
      ROLLED for (; i < end; i += how.team) {
        uint32_t at[2] = {base[0], base[1]};
        add_offsets(how.reduced, i, at);
        chains[0] = join(chains[0], element(at[0], at[1]));
      }
    }
  }
  A all = join(join(chains[0], chains[1]), join(chains[2], chains[3]));
  return join_team(all, how.team, me, join);
}

/// What a warp makes of the parts of the result that it works for.
template <typename A, typename Join>
INLINE A join_parts(const A* parts, uint32_t result, uint32_t count, A start, Join join) {
  A all = start;
  for (uint32_t i = threadIdx.x % WARP_SIZE; i < count; i += WARP_SIZE) {
    all = join(all, parts[(uint64_t)result * count + i]);
  }
  for (int with = 16; with; with >>= 1) all = join(all, __shfl_xor_sync(ALL_LANES, all, with));
  return all;
}

}  // own
