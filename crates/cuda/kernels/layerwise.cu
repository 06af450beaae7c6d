// Lamb and Lars: steps whose length follows from norms of whole tensors. A first kernel leaves sums of
// squares by block, a second one adds them up, each block for itself, and moves the parameter.
#include "block_sums.cuh"
#include "rules.cuh"

FILE_OWN {

/// Leaves two sums of this block.
INLINE void leave_sums(double* partial, double x, double y) {
  x = block_sum(x);
  y = block_sum(y);
  if (threadIdx.x) return;
  partial[blockIdx.x] = x;
  partial[gridDim.x + blockIdx.x] = y;
}

/// The roots of the two sums that all blocks left.
struct Norms {
  double first, second;
};
INLINE Norms norms_of(const double* partial, uint32_t blocks) {
  return Norms{sqrt(sum_of_blocks(partial, blocks)), sqrt(sum_of_blocks(partial + blocks, blocks))};
}

/// beta1, beta2, epsilon, weight_decay, always_adapt
template <typename T> struct Lamb {
  T beta1, beta2, epsilon, weight_decay, unbias1, unbias2;
  INLINE Lamb(const Settings& s)
      : beta1((T)s.attribute(0)),
        beta2((T)s.attribute(1)),
        epsilon((T)s.attribute(2)),
        weight_decay((T)s.attribute(3)),
        unbias1((T)(1.0 / (1.0 - s.power(0)))),
        unbias2((T)(1.0 / (1.0 - s.power(1)))) {}
  INLINE T direction(T param, T mean, T square) const {
    return mean * unbias1 / (root_of(square * unbias2) + epsilon) + weight_decay * param;
  }
};

template <typename T>
INLINE void lamb_moments(const Target<T, 2>& layer, const Extent& extent, double* partial) {
  Lamb<T> lamb(Settings{layer.numbers, extent.attributes});
  double size = 0, step = 0;
  FOR_EACH(i, extent.count) {
    T param = layer.param[i], grad = grad_at(layer.grad, layer.index, extent.width, i);
    T mean = lamb.beta1 * layer.state[0][i] + (T(1) - lamb.beta1) * grad;
    T square = lamb.beta2 * layer.state[1][i] + (T(1) - lamb.beta2) * grad * grad;
    layer.state_out[0][i] = mean;
    layer.state_out[1][i] = square;
    double direction = lamb.direction(param, mean, square);
    size += (double)param * (double)param;
    step += direction * direction;
  }
  leave_sums(partial, size, step);
}

template <typename T>
INLINE void lamb_move(const Target<T, 2>& layer, const Extent& extent, const double* partial,
                      uint32_t blocks) {
  Settings settings{layer.numbers, extent.attributes};
  Norms norms = norms_of(partial, blocks);
  double size = norms.first, step = norms.second;
  bool adapts = settings.attribute(3) > 0 || settings.attribute(4) != 0;
  double ratio = adapts && size > 0 && step > 0 ? size / step : 1;
  T rate = (T)(settings.rate() * ratio);
  Lamb<T> lamb(settings);
  FOR_EACH(i, extent.count) {
    T param = layer.param[i];
    layer.param_out[i] = param - rate * lamb.direction(param, layer.state_out[0][i], layer.state_out[1][i]);
  }
}

/// mu, lars_coeff, lars_weight_decay, epsilon, rescale_grad
template <typename T>
INLINE void lars_norms(const Target<T, 1>& layer, const Extent& extent, double* partial) {
  double size = 0, slope = 0;
  FOR_EACH(i, extent.count) {
    double param = layer.param[i], grad = grad_at(layer.grad, layer.index, extent.width, i);
    size += param * param;
    slope += grad * grad;
  }
  leave_sums(partial, size, slope);
}

template <typename T>
INLINE void lars_move(const Target<T, 1>& layer, const Extent& extent, const double* partial,
                      uint32_t blocks) {
  Settings settings{layer.numbers, extent.attributes};
  double coeff = settings.attribute(1), decay = settings.attribute(2), rescale = settings.attribute(4);
  Norms norms = norms_of(partial, blocks);
  double size = norms.first, slope = norms.second * rescale;
  double rate = settings.rate();
  if (decay > 0 && size > 0 && slope > 0)
    rate *= coeff * size / (slope + decay * size + settings.attribute(3));
  T mu = (T)settings.attribute(0), of_grad = (T)(rate * rescale), of_param = (T)(rate * decay);
  FOR_EACH(i, extent.count) {
    T param = layer.param[i], grad = grad_at(layer.grad, layer.index, extent.width, i);
    T velocity = mu * layer.state[0][i] + (of_grad * grad + of_param * param);
    layer.state_out[0][i] = velocity;
    layer.param_out[i] = param - velocity;
  }
}

}  // own

#define LAYERWISE(T, suffix)                                                                               \
  KERNEL __launch_bounds__(NORM_THREADS) lamb_moments_##suffix(                                            \
      BY_VALUE Target<T, 2> layer, BY_VALUE Extent extent, double* partial) {                              \
    lamb_moments<T>(layer, extent, partial);                                                               \
  }                                                                                                        \
  EXPORT(lamb_moments_##suffix)                                                                            \
  KERNEL __launch_bounds__(NORM_THREADS) lamb_move_##suffix(                                               \
      BY_VALUE Target<T, 2> layer, BY_VALUE Extent extent, const double* partial, uint32_t blocks) {       \
    lamb_move<T>(layer, extent, partial, blocks);                                                          \
  }                                                                                                        \
  EXPORT(lamb_move_##suffix)                                                                               \
  KERNEL __launch_bounds__(NORM_THREADS) lars_norms_##suffix(                                              \
      BY_VALUE Target<T, 1> layer, BY_VALUE Extent extent, double* partial) {                              \
    lars_norms<T>(layer, extent, partial);                                                                 \
  }                                                                                                        \
  EXPORT(lars_norms_##suffix)                                                                              \
  KERNEL __launch_bounds__(NORM_THREADS) lars_move_##suffix(                                               \
      BY_VALUE Target<T, 1> layer, BY_VALUE Extent extent, const double* partial, uint32_t blocks) {       \
    lars_move<T>(layer, extent, partial, blocks);                                                          \
  }                                                                                                        \
  EXPORT(lars_move_##suffix)
LAYERWISE(float, f32)
LAYERWISE(double, f64)
