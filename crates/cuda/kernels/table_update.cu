// Optimizer steps of the rows of a hash table, by their numbers: equal ones are added up and applied at once.
// The weights of a row are followed by its accumulators, so that one line of memory has all that a step
// changes.
#include "rules.cuh"
#include "segments.cuh"
#include "table.cuh"

FILE_OWN {

template <typename Rule> struct UpdateTableRow {
  typedef float T;
  static const int STATES = Rule::STATES;
  struct Held {
    Piece<float, 4> param, state[STATES ? STATES : 1];
  };
  Blocks blocks;
  Rule rule;
  uint32_t width;

  INLINE UpdateTableRow(const Blocks& blocks, const Numbers& numbers, const Attributes& attributes,
                        uint32_t width)
      : blocks(blocks), rule(Settings{numbers, attributes}), width(width) {}
  INLINE Held ahead(uint32_t row, uint32_t, uint32_t column) const {
    const float* at = row_at(blocks, row) + column;
    Held held;
    held.param = load_piece<float, 4>(at);
    UNROLL for (int s = 0; s < STATES; s++) held.state[s] = load_piece<float, 4>(at + (s + 1) * width);
    return held;
  }
  INLINE void finish(uint32_t row, uint32_t, uint32_t column, const Piece<float, 4>& sum, Held held) const {
    float* at = row_at(blocks, row) + column;
    UNROLL for (int i = 0; i < 4; i++) {
      float own[STATES ? STATES : 1];
      UNROLL for (int s = 0; s < STATES; s++) own[s] = held.state[s].x[i];
      rule.step(held.param.x[i], sum.x[i], own);
      UNROLL for (int s = 0; s < STATES; s++) held.state[s].x[i] = own[s];
    }
    store_piece<float, 4>(at, held.param);
    UNROLL for (int s = 0; s < STATES; s++) store_piece<float, 4>(at + (s + 1) * width, held.state[s]);
  }
};

}  // own

#define TABLE_UPDATE(name, Rule)                                                                           \
  KERNEL __launch_bounds__(CHUNK_WARPS* WARP_SIZE, 7) table_update_##name##_wide_f32(                      \
      BY_VALUE Sorted sorted, BY_VALUE Amount amount, const float* values, float* began_before,            \
      float* goes_on, BY_VALUE Blocks blocks, BY_VALUE Numbers numbers, BY_VALUE Attributes attributes) {  \
    UpdateTableRow<Rule<float>> sink(blocks, numbers, attributes, amount.width);                           \
    sum_chunks<4, WIDE_LANES>(sorted, amount, values, began_before, goes_on, sink);                        \
  }                                                                                                        \
  EXPORT(table_update_##name##_wide_f32)                                                                   \
  KERNEL __launch_bounds__(SPAN_THREADS) table_update_spans_##name##_wide_f32(                             \
      BY_VALUE Sorted sorted, BY_VALUE Amount amount, const float* began_before, const float* goes_on,     \
      BY_VALUE Blocks blocks, BY_VALUE Numbers numbers, BY_VALUE Attributes attributes) {                  \
    UpdateTableRow<Rule<float>> sink(blocks, numbers, attributes, amount.width);                           \
    sum_spans<4, WIDE_LANES>(sorted, amount, began_before, goes_on, sink);                                 \
  }                                                                                                        \
  EXPORT(table_update_spans_##name##_wide_f32)
ROW_RULES(TABLE_UPDATE)
