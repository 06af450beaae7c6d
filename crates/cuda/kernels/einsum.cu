// What an Einstein sum does around its products: puts elements in another order, and sums over axes that only
// one operand has.
#include "rows.cuh"

FILE_OWN {

const int MAX_AXES = 16;

/// Axes that are kept, then axes that are summed: their sizes, and how far a step along them moves in what is
/// read and in what is written.
struct Axes {
  int32_t kept, all;
  uint32_t sizes[MAX_AXES];
  uint32_t from[MAX_AXES];
  uint32_t to[MAX_AXES];
  uint32_t unused[14];
};

template <typename E> INLINE void reorder(const E* xs, E* out, const Axes& axes, int64_t n, int64_t each) {
  typedef typename Math<E>::type T;
  FOR_EACH(i, n) {
    uint32_t rest = (uint32_t)i;
    int64_t from = 0, to = 0;
    for (int axis = axes.kept - 1; axis >= 0; axis--) {
      uint32_t outer = rest / axes.sizes[axis], position = rest - outer * axes.sizes[axis];
      from += (int64_t)position * axes.from[axis];
      to += (int64_t)position * axes.to[axis];
      rest = outer;
    }
    T sum = T(0);
    for (uint32_t part = 0; part < (uint32_t)each; part++) {
      int64_t at = from;
      uint32_t left = part;
      for (int axis = axes.all - 1; axis >= axes.kept; axis--) {
        uint32_t outer = left / axes.sizes[axis];
        at += (int64_t)(left - outer * axes.sizes[axis]) * axes.from[axis];
        left = outer;
      }
      sum += T(load(xs[at]));
    }
    out[to] = Store<E>::of(sum);
  }
}

}  // own

#define EINSUM_KERNELS(E, suffix)                                                                          \
  KERNEL reorder_##suffix(const E* xs, E* out, Axes axes, int64_t n, int64_t each) {                       \
    reorder<E>(xs, out, axes, n, each);                                                                    \
  }                                                                                                        \
  EXPORT(reorder_##suffix)
ALL_FLOATS(EINSUM_KERNELS)
