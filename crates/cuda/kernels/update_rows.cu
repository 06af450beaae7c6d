// Optimizer steps of the rows that a sparse gradient names: equal rows are added up and applied at once.
#include "rules.cuh"
#include "segments.cuh"

FILE_OWN {

/// The parameter and accumulators whose rows are updated.
template <typename T, int STATES> struct Rows {
  T* param;
  T* state[STATES ? STATES : 1];
  Numbers numbers;
};

/// Elements from one row to the next, of the parameter and of each accumulator.
struct Pitches {
  uint32_t of[4];
};

template <typename Rule, int V> struct UpdateRow {
  typedef typename Rule::T T;
  static const int STATES = Rule::STATES;
  struct Held {
    Piece<T, V> param, state[STATES ? STATES : 1];
  };
  const Rows<T, STATES>& rows;
  const Pitches& pitches;
  Rule rule;

  INLINE UpdateRow(const Rows<T, STATES>& rows, const Pitches& pitches, const Attributes& attributes)
      : rows(rows), pitches(pitches), rule(Settings{rows.numbers, attributes}) {}
  INLINE T* param(uint32_t row, uint32_t column) const {
    return rows.param + ((size_t)row * pitches.of[0] + column);
  }
  INLINE T* state(int which, uint32_t row, uint32_t column) const {
    return rows.state[which] + ((size_t)row * pitches.of[1 + which] + column);
  }
  INLINE Held ahead(uint32_t row, uint32_t, uint32_t column) const {
    Held held;
    held.param = load_piece<T, V>(param(row, column));
    UNROLL for (int s = 0; s < STATES; s++) held.state[s] = load_piece<T, V>(state(s, row, column));
    return held;
  }
  INLINE void finish(uint32_t row, uint32_t, uint32_t column, const Piece<T, V>& sum, Held held) const {
    UNROLL for (int i = 0; i < V; i++) {
      T own[STATES ? STATES : 1];
      UNROLL for (int s = 0; s < STATES; s++) own[s] = held.state[s].x[i];
      rule.step(held.param.x[i], sum.x[i], own);
      UNROLL for (int s = 0; s < STATES; s++) held.state[s].x[i] = own[s];
    }
    store_piece<T, V>(param(row, column), held.param);
    UNROLL for (int s = 0; s < STATES; s++) store_piece<T, V>(state(s, row, column), held.state[s]);
  }
};

}  // own

#define UPDATE_ROWS_FROM(name, Rule, T, V, LANES, suffix, S)                                                \
  KERNEL __launch_bounds__(CHUNK_WARPS* WARP_SIZE, 7) update_rows_##name##_##suffix(                       \
      BY_VALUE Sorted sorted, BY_VALUE Amount amount, const S* values, T* began_before, T* goes_on,        \
      BY_VALUE Rows<T, Rule<T>::STATES> rows, BY_VALUE Pitches pitches, BY_VALUE Attributes attributes) { IN_TURN; \
    UpdateRow<Rule<T>, V> sink(rows, pitches, attributes);                                                 \
    sum_chunks<V, LANES>(sorted, amount, values, began_before, goes_on, sink);                             \
  }                                                                                                        \
  EXPORT(update_rows_##name##_##suffix)
#define UPDATE_ROWS(name, Rule, T, V, LANES, suffix)                                                       \
  UPDATE_ROWS_FROM(name, Rule, T, V, LANES, suffix, T)                                                     \
  KERNEL __launch_bounds__(SPAN_THREADS) update_row_spans_##name##_##suffix(                               \
      BY_VALUE Sorted sorted, BY_VALUE Amount amount, const T* began_before, const T* goes_on,             \
      BY_VALUE Rows<T, Rule<T>::STATES> rows, BY_VALUE Pitches pitches, BY_VALUE Attributes attributes) { IN_TURN; \
    UpdateRow<Rule<T>, V> sink(rows, pitches, attributes);                                                 \
    sum_spans<V, LANES>(sorted, amount, began_before, goes_on, sink);                                      \
  }                                                                                                        \
  EXPORT(update_row_spans_##name##_##suffix)
#define ROW_UPDATES(name, Rule)                              \
  UPDATE_ROWS(name, Rule, float, 4, WIDE_LANES, wide_f32)    \
  UPDATE_ROWS_FROM(name, Rule, float, 4, WIDE_LANES, wide_f32_from_bf16, bf16) \
  UPDATE_ROWS_FROM(name, Rule, float, 4, WIDE_LANES, wide_f32_from_f16, f16) \
  UPDATE_ROWS(name, Rule, float, 1, THIN_LANES, thin_f32)    \
  UPDATE_ROWS(name, Rule, float, 1, ODD_LANES, odd_f32)      \
  UPDATE_ROWS(name, Rule, double, 1, THIN_LANES, thin_f64)   \
  UPDATE_ROWS(name, Rule, double, 1, ODD_LANES, odd_f64)
ROW_RULES(ROW_UPDATES)
