// Optimizer steps over whole tensors: many tensors of one rule in one launch.
#include "rules.cuh"

FILE_OWN {

const int UPDATE_THREADS = 256, MANY = 64;

template <typename T, int STATES, int MAX> struct Targets {
  Target<T, STATES> of[MAX];
};
template <int MAX> struct Extents {
  Extent of[MAX];
};

template <typename Rule, int MAX>
INLINE void update_tensors(const Targets<typename Rule::T, Rule::STATES, MAX>& targets,
                           const Extents<MAX>& extents, uint32_t count) {
  typedef typename Rule::T T;
  const int V = 16 / sizeof(T), STATES = Rule::STATES;
  uint32_t which = 0;
  while (which + 1 < count && blockIdx.x >= extents.of[which + 1].first_block) which++;
  const Target<T, STATES>& target = targets.of[which];
  const Extent& extent = extents.of[which];
  int64_t first = ((int64_t)(blockIdx.x - extent.first_block) * UPDATE_THREADS + threadIdx.x) * V;
  if (first >= extent.count) return;
  Rule rule(Settings{target.numbers, extent.attributes});
  uint64_t places = (uint64_t)target.param | (uint64_t)target.param_out | (uint64_t)target.grad;
  UNROLL for (int s = 0; s < STATES; s++) places |= (uint64_t)target.state[s] | (uint64_t)target.state_out[s];
  bool is_whole = first + V <= extent.count && places % 16 == 0;
  if (is_whole) {
    Piece<T, V> param = load_piece<T, V>(target.param + first), grad, state[STATES ? STATES : 1];
    UNROLL for (int s = 0; s < STATES; s++) state[s] = load_piece<T, V>(target.state[s] + first);
    if (target.index) {
      UNROLL for (int i = 0; i < V; i++)
        grad.x[i] = grad_at(target.grad, target.index, extent.width, first + i);
    } else {
      grad = load_piece<T, V>(target.grad + first);
    }
    UNROLL for (int i = 0; i < V; i++) {
      T own[STATES ? STATES : 1];
      UNROLL for (int s = 0; s < STATES; s++) own[s] = state[s].x[i];
      rule.step(param.x[i], grad.x[i], own);
      UNROLL for (int s = 0; s < STATES; s++) state[s].x[i] = own[s];
    }
    store_piece<T, V>(target.param_out + first, param);
    UNROLL for (int s = 0; s < STATES; s++) store_piece<T, V>(target.state_out[s] + first, state[s]);
    return;
  }
  for (int64_t at = first; at < min(first + V, extent.count); at++) {
    T param = target.param[at], own[STATES ? STATES : 1];
    UNROLL for (int s = 0; s < STATES; s++) own[s] = target.state[s][at];
    rule.step(param, grad_at(target.grad, target.index, extent.width, at), own);
    target.param_out[at] = param;
    UNROLL for (int s = 0; s < STATES; s++) target.state_out[s][at] = own[s];
  }
}

}  // own

#define UPDATE(name, Rule, T, suffix, MAX, many)                                                           \
  KERNEL __launch_bounds__(UPDATE_THREADS) update_##many##name##_##suffix(                                 \
      BY_VALUE Targets<T, Rule<T>::STATES, MAX> targets, BY_VALUE Extents<MAX> extents, uint32_t count) { IN_TURN; \
    update_tensors<Rule<T>, MAX>(targets, extents, count);                                                 \
  }                                                                                                        \
  EXPORT(update_##many##name##_##suffix)
#define UPDATES(name, Rule)            \
  UPDATE(name, Rule, float, f32, 1, )  \
  UPDATE(name, Rule, double, f64, 1, ) \
  UPDATE(name, Rule, float, f32, MANY, many_)
RULES(UPDATES)

// The powers of decay rates grow by their base from step to step: a block for each. What they were is kept for the
// update, so that this can be done long before.
FILE_OWN {

struct Power {
  const void* from;
  void *to, *before;
};
struct Growth {
  double base;
  uint32_t count;
  uint32_t is_double;
};
template <int MAX> struct Powers {
  Power of[MAX];
};
template <int MAX> struct Growths {
  Growth of[MAX];
};

INLINE void raise_power(const Power& power, const Growth& by) {
  for (uint32_t i = threadIdx.x; i < by.count; i += blockDim.x) {
    if (by.is_double) {
      double before = ((const double*)power.from)[i];
      ((double*)power.before)[i] = before;
      ((double*)power.to)[i] = before * by.base;
    } else {
      float before = ((const float*)power.from)[i];
      ((float*)power.before)[i] = before;
      ((float*)power.to)[i] = before * (float)by.base;
    }
  }
}

}  // own

KERNEL raise_powers(BY_VALUE Powers<2> powers, BY_VALUE Growths<2> by) {
  IN_TURN;
  raise_power(powers.of[blockIdx.x], by.of[blockIdx.x]);
}
EXPORT(raise_powers)
KERNEL raise_many_powers(BY_VALUE Powers<2 * MANY> powers, BY_VALUE Growths<2 * MANY> by) {
  IN_TURN;
  raise_power(powers.of[blockIdx.x], by.of[blockIdx.x]);
}
EXPORT(raise_many_powers)
