// The last two layers of a click model, a relu layer of up to 64 columns and the logit, on tensor cores: a block has whole
// rows, so both layers are one kernel, and so are the gradients of what the lower one reads.
#include "tiles.cuh"

FILE_OWN {

/// What a launch knows: `x` has `rows` rows of `terms`, and `w` is `terms x columns`.
struct Logit {
  uint32_t rows, columns, terms;
};

/// Asks for the next terms of both factors.
template <typename E>
INLINE void load_parts(Part& left, Part& right, const E* x, const E* w, uint32_t part, const Logit& by) {
  load_part(left, x, blockIdx.x * TILE, by.rows, part * TILE, by.terms);
  load_part(right, w, part * TILE, by.terms, 0, by.columns);
}

/// `hidden = relu(x * w + bias)`, `out = hidden * head + head_bias`. A warp has 16 rows.
template <typename E>
INLINE void logit(const E* x, const E* w, const E* bias, const E* head, const E* head_bias, E* hidden, float* out,
                  const Logit& by) {
  const int PAIRS = TILE / 16;
  __shared__ Part lefts[PARTS], rights[PARTS];
  int warp = threadIdx.x / WARP_SIZE, lane = threadIdx.x % WARP_SIZE;
  uint32_t parts = (by.terms + TILE - 1) / TILE;
  UNROLL for (uint32_t part = 0; part < PARTS - 1; part++) {
    if (part < parts) load_parts(lefts[part], rights[part], x, w, part, by);
    end_group();
  }
  float sums[PAIRS][2][4] = {};
  for (uint32_t part = 0; part < parts; part++) {
    wait_for_groups<PARTS - 2>();
    __syncthreads();
    uint32_t next = part + PARTS - 1;
    if (next < parts) load_parts(lefts[next % PARTS], rights[next % PARTS], x, w, next, by);
    end_group();
    Part &left = lefts[part % PARTS], &right = rights[part % PARTS];
    UNROLL for (int k = 0; k < TILE / 16; k++) {
      if (part * TILE + k * 16 >= by.terms) break;
      uint32_t a[4], b[4];
      load_matrices(a, left.at(warp * 16 + lane % 16, k * 2 + lane / 16));
      UNROLL for (int j = 0; j < PAIRS; j++) {
        if (j * 16 >= (int)by.columns) break;
        load_transposed(b, right.at(k * 16 + lane % 16, j * 2 + lane / 16));
        Cores<E>::add_product(sums[j][0], a, b);
        Cores<E>::add_product(sums[j][1], a, b + 2);
      }
    }
  }
  // Element (j, i, at) of this thread is in row `8 * (at / 2) + g` and column `16 j + 8 i + 2 q + at % 2`.
  uint32_t row = blockIdx.x * TILE + warp * 16 + lane / 4, column = lane % 4 * 2;
  float logits[2] = {};
  UNROLL for (int j = 0; j < PAIRS; j++)
    UNROLL for (int i = 0; i < 2; i++) {
      uint32_t c = column + j * 16 + i * 8;
      if (c >= by.columns) break;
      float first = load(bias[c]), second = load(bias[c + 1]), by_first = load(head[c]), by_second = load(head[c + 1]);
      UNROLL for (int half = 0; half < 2; half++) {
        float low = sums[j][i][2 * half] + first, high = sums[j][i][2 * half + 1] + second;
        E kept_low = Store<E>::of(low > 0.0f ? low : 0.0f), kept_high = Store<E>::of(high > 0.0f ? high : 0.0f);
        logits[half] += load(kept_low) * by_first + load(kept_high) * by_second;
        uint32_t r = row + half * 8;
        if (r < by.rows) *(uint32_t*)(hidden + (size_t)r * by.columns + c) = pair_of(kept_low, kept_high);
      }
    }
  UNROLL for (int half = 0; half < 2; half++) {
    logits[half] += __shfl_xor_sync(ALL_LANES, logits[half], 1);
    logits[half] += __shfl_xor_sync(ALL_LANES, logits[half], 2);
    uint32_t r = row + half * 8;
    if (lane % 4 == 0 && r < by.rows) out[r] = logits[half] + load(head_bias[0]);
  }
}

/// `dz` is the gradient `dout` of the logit times its weights, where `hidden` is positive; `dx = dz * wᵀ`, where `x` is
/// positive if there is one. The blocks of the first columns keep `dz`.
template <typename E>
INLINE void logit_slopes(const float* dout, const E* hidden, const E* head, const E* w, const E* x, E* dz, E* dx,
                         const Slopes& of) {
  __shared__ Part left, right;
  uint32_t first_row = blockIdx.y * TILE, first_column = blockIdx.x * TILE;
  load_part(right, w, first_column, of.columns, 0, of.terms);
  end_group();
  Own own(first_row, first_column);
  Inputs inputs;
  inputs.load(x, own, of);
  UNROLL for (int i = 0; i < TILE * PACKS / THREADS; i++) {
    int at = i * THREADS + threadIdx.x, r = at / PACKS, pack = at % PACKS;
    uint32_t row = first_row + r;
    bool is_there = row < of.rows && pack * PACK < (int)of.terms;
    Elements<E> slopes = {};
    if (is_there) {
      size_t place = (size_t)row * of.terms + pack * PACK;
      Elements<E> outputs = *(const Elements<E>*)(hidden + place), weights = *(const Elements<E>*)(head + pack * PACK);
      float d = dout[row];
      UNROLL for (int e = 0; e < PACK; e++)
        slopes.at[e] = Store<E>::of(load(outputs.at[e]) > 0.0f ? d * load(weights.at[e]) : 0.0f);
      if (blockIdx.x == 0) *(Elements<E>*)(dz + place) = slopes;
    }
    *(Elements<E>*)left.at(r, pack) = slopes;
  }
  wait_for_groups<0>();
  __syncthreads();
  Sums sums = {};
  multiply<E>(sums, left, right, of.terms);
  inputs.store(sums, dx, own, of);
}

}  // own

#define LOGIT(E, suffix)                                                                                   \
  KERNEL __launch_bounds__(THREADS)                                                                        \
      logit_##suffix(const E* x, const E* w, const E* bias, const E* head, const E* head_bias, E* hidden,  \
                     float* out, BY_VALUE Logit by) { IN_TURN;                                             \
    logit<E>(x, w, bias, head, head_bias, hidden, out, by);                                                \
  }                                                                                                        \
  EXPORT(logit_##suffix)                                                                                   \
  KERNEL __launch_bounds__(THREADS)                                                                        \
      logit_slopes_##suffix(const float* dout, const E* hidden, const E* head, const E* w, const E* x,     \
                            E* dz, E* dx, BY_VALUE Slopes of) { IN_TURN;                                   \
    logit_slopes<E>(dout, hidden, head, w, x, dz, dx, of);                                                 \
  }                                                                                                        \
  EXPORT(logit_slopes_##suffix)
LOGIT(bf16, bf16)
LOGIT(f16, f16)
