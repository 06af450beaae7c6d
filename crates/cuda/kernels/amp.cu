// Loss scaling: gradients divided by the factor of their loss, and the factor changed by what was found in them.
#include "packs.cuh"

FILE_OWN {

/// When a factor changes (`lower/amp.rs` makes it).
struct Policy {
  int32_t raise_after, lower_after;
  float raise_by, lower_by;
  int32_t stops;
};

}  // own

// `found` is set by whoever finds something that is not finite: all write the same.
#define UNSCALE(name, E, suffix)                                                                           \
  KERNEL name##_##suffix(const E* xs, E* out, int64_t n, const float* scale, bool* found) { IN_TURN;       \
    typedef Math<E>::type T;                                                                               \
    T factor = (T)(1.0 / (double)*scale);                                                                  \
    map_each<Wide<E>::COUNT>(xs, out, n, [=](T x) -> T {                                                   \
      T y = x * factor;                                                                                    \
      if (y - y != y - y) *found = true;                                                                   \
      return y;                                                                                            \
    });                                                                                                    \
  }                                                                                                        \
  EXPORT(name##_##suffix)
FOR_FLOATS(UNSCALE, unscale)

// Makes memory zero if something was found.
KERNEL clear_if(const bool* found, uint8_t* out, int64_t bytes) {
  IN_TURN;
  if (!*found) return;
  FOR_EACH(i, bytes) out[i] = 0;
}
EXPORT(clear_if)

KERNEL update_loss_scaling(const bool* found, const bool* stop, const float* scale, const int32_t* good,
                           const int32_t* bad, float* new_scale, int32_t* new_good, int32_t* new_bad,
                           Policy policy) {
  IN_TURN;
  if (threadIdx.x) return;
  float factor = *scale;
  int32_t goods = *good, bads = *bad;
  if (!(stop ? *stop : policy.stops != 0)) {
    if (*found) {
      goods = 0;
      bads++;
      if (bads == policy.lower_after) {
        float lowered = factor * policy.lower_by;
        // A factor below 1 would make gradients smaller still.
        factor = lowered < 1.0f ? 1.0f : lowered;
        bads = 0;
      }
    } else {
      bads = 0;
      goods++;
      if (goods == policy.raise_after) {
        float raised = factor * policy.raise_by;
        if (raised - raised == raised - raised) factor = raised;
        goods = 0;
      }
    }
  }
  *new_scale = factor;
  *new_good = goods;
  *new_bad = bads;
}
EXPORT(update_loss_scaling)
