// How an optimizer changes one element: one structure a rule, from the numbers of a step to the formula.
// The engine's rules (crates/engine/src/optimizer) are the reference.
#pragma once
#include "tables.cuh"

FILE_OWN {

INLINE float root_of(float x) { return sqrtf(x); }
INLINE double root_of(double x) { return sqrt(x); }
INLINE float power_of(float x, float exponent) { return powf(x, exponent); }
INLINE double power_of(double x, double exponent) { return pow(x, exponent); }
template <typename T> INLINE T size_of(T x) { return x < T(0) ? -x : x; }

/// Where the learning rate and the powers of decay rates lie.
struct Numbers {
  const void* rate;
  const void* power[2];
};

/// The attributes of an op, in the order that its rule names them in, and which of the three numbers are of
/// 64 bits.
struct Attributes {
  double of[6];
  uint32_t doubles;
  uint32_t unused;
};

/// What a rule is made from.
struct Settings {
  const Numbers& numbers;
  const Attributes& attributes;

  INLINE double number(const void* at, int which) const {
    return attributes.doubles >> which & 1 ? *(const double*)at : (double)*(const float*)at;
  }
  INLINE double rate() const { return number(numbers.rate, 0); }
  INLINE double power(int which) const { return number(numbers.power[which], 1 + which); }
  INLINE double attribute(int which) const { return attributes.of[which]; }
};

/// A parameter with its gradient and accumulators; room for at least one. What is written may be what is
/// read.
template <typename T, int STATES> struct Target {
  const T* param;
  T* param_out;
  const T* grad;
  const uint32_t* index;
  const T* state[STATES ? STATES : 1];
  T* state_out[STATES ? STATES : 1];
  Numbers numbers;
};

/// What else is known of it: its elements, the first of its blocks, elements in a row.
struct Extent {
  Attributes attributes;
  int64_t count;
  uint32_t first_block;
  Divider width;
};

/// The gradient of element `at`. Where it is merged rows, `index` says for every row of the parameter where
/// in `grad` its own is, from 1; 0 for rows without a gradient. `index` is null for a dense gradient.
template <typename T>
INLINE T grad_at(const T* grad, const uint32_t* index, const Divider& width, int64_t at) {
  if (!index) return grad[at];
  uint32_t row = width.quotient((uint32_t)at), place = index[row];
  return place ? grad[(size_t)(place - 1) * width.by + ((uint32_t)at - row * width.by)] : T(0);
}

template <typename E> struct SgdRule {
  typedef E T;
  static const int STATES = 0;
  T rate;
  INLINE SgdRule(const Settings& s) : rate((T)s.rate()) {}
  INLINE void step(T& param, T grad, T*) const { param = param - rate * grad; }
};

/// mu, l2_decay, rescale_grad, of_grad, of_velocity
template <typename E> struct MomentumRule {
  typedef E T;
  static const int STATES = 1;
  T rate, mu, l2_decay, rescale_grad, of_grad, of_velocity;
  INLINE MomentumRule(const Settings& s)
      : rate((T)s.rate()),
        mu((T)s.attribute(0)),
        l2_decay((T)s.attribute(1)),
        rescale_grad((T)s.attribute(2)),
        of_grad((T)s.attribute(3)),
        of_velocity((T)s.attribute(4)) {}
  INLINE void step(T& param, T grad, T* state) const {
    grad = grad * rescale_grad + param * l2_decay;
    state[0] = state[0] * mu + grad;
    param = param - rate * (grad * of_grad + state[0] * of_velocity);
  }
};

/// epsilon
template <typename E> struct AdagradRule {
  typedef E T;
  static const int STATES = 1;
  T rate, epsilon;
  INLINE AdagradRule(const Settings& s) : rate((T)s.rate()), epsilon((T)s.attribute(0)) {}
  INLINE void step(T& param, T grad, T* state) const {
    state[0] = state[0] + grad * grad;
    param = param - rate * grad / (root_of(state[0]) + epsilon);
  }
};

/// decay, epsilon
template <typename E> struct DecayedAdagradRule {
  typedef E T;
  static const int STATES = 1;
  T rate, decay, epsilon;
  INLINE DecayedAdagradRule(const Settings& s)
      : rate((T)s.rate()), decay((T)s.attribute(0)), epsilon((T)s.attribute(1)) {}
  INLINE void step(T& param, T grad, T* state) const {
    state[0] = decay * state[0] + (T(1) - decay) * grad * grad;
    param = param - rate * grad / (root_of(state[0]) + epsilon);
  }
};

/// Adam and AdamW: beta1, beta2, epsilon, a factor on the rate, the decay per unit of rate, and whether the
/// powers are of the step after this one (which sparse gradients want).
template <typename E> struct AdamRule {
  typedef E T;
  static const int STATES = 2;
  T beta1, beta2, epsilon, rate, left;
  INLINE AdamRule(const Settings& s) : beta1((T)s.attribute(0)), beta2((T)s.attribute(1)) {
    double ahead = s.attribute(5);
    T missing1 = (T)(1.0 - s.power(0) * (ahead != 0.0 ? s.attribute(0) : 1.0));
    T correction = root_of((T)(1.0 - s.power(1) * (ahead != 0.0 ? s.attribute(1) : 1.0)));
    double full = s.rate() * s.attribute(3);
    rate = (T)full * correction / missing1;
    epsilon = (T)s.attribute(2) * correction;
    left = (T)(1.0 - full * s.attribute(4));
  }
  INLINE void step(T& param, T grad, T* state) const {
    state[0] = beta1 * state[0] + (T(1) - beta1) * grad;
    state[1] = beta2 * state[1] + (T(1) - beta2) * grad * grad;
    param = param * left - rate * (state[0] / (root_of(state[1]) + epsilon));
  }
};

/// beta1, beta2, epsilon
template <typename E> struct AdamaxRule {
  typedef E T;
  static const int STATES = 2;
  T beta1, beta2, epsilon, rate;
  INLINE AdamaxRule(const Settings& s)
      : beta1((T)s.attribute(0)), beta2((T)s.attribute(1)), epsilon((T)s.attribute(2)) {
    rate = (T)s.rate() / (T)(1.0 - s.power(0));
  }
  INLINE void step(T& param, T grad, T* state) const {
    state[0] = beta1 * state[0] + (T(1) - beta1) * grad;
    T size = size_of(grad), faded = beta2 * state[1] + epsilon;
    state[1] = size > faded ? size : faded;
    param = param - rate * (state[0] / state[1]);
  }
};

/// rho, epsilon
template <typename E> struct AdadeltaRule {
  typedef E T;
  static const int STATES = 2;
  T rate, rho, epsilon;
  INLINE AdadeltaRule(const Settings& s)
      : rate((T)s.rate()), rho((T)s.attribute(0)), epsilon((T)s.attribute(1)) {}
  INLINE void step(T& param, T grad, T* state) const {
    T fresh = T(1) - rho;
    state[0] = rho * state[0] + fresh * grad * grad;
    T update = -(root_of((state[1] + epsilon) / (state[0] + epsilon)) * grad);
    state[1] = rho * state[1] + fresh * update * update;
    param = param + rate * update;
  }
};

/// decay, epsilon, momentum; the accumulators are the mean square, the last step and, where gradients are
/// centered, the mean gradient.
template <typename E, bool IS_CENTERED> struct RmsProp {
  typedef E T;
  static const int STATES = IS_CENTERED ? 3 : 2;
  T rate, decay, epsilon, momentum;
  INLINE RmsProp(const Settings& s)
      : rate((T)s.rate()),
        decay((T)s.attribute(0)),
        epsilon((T)s.attribute(1)),
        momentum((T)s.attribute(2)) {}
  INLINE void step(T& param, T grad, T* state) const {
    state[0] = decay * state[0] + (T(1) - decay) * (grad * grad);
    T spread = state[0];
    if (IS_CENTERED) {
      state[2] = decay * state[2] + (T(1) - decay) * grad;
      spread = spread - state[2] * state[2];
    }
    state[1] = momentum * state[1] + rate * grad / root_of(spread + epsilon);
    param = param - state[1];
  }
};
template <typename E> using RmsPropRule = RmsProp<E, false>;
template <typename E> using CenteredRmsPropRule = RmsProp<E, true>;

/// l1, l2, -lr_power
template <typename E> struct FtrlRule {
  typedef E T;
  static const int STATES = 2;
  T rate, l1, l2, exponent;
  INLINE FtrlRule(const Settings& s)
      : rate((T)s.rate()),
        // Paddle's kernel adds this much, so that a parameter never divides by zero.
        l1((T)(s.attribute(0) + 1e-10)),
        l2((T)(s.attribute(1) + 1e-10)),
        exponent((T)s.attribute(2)) {}
  INLINE T root(T x) const { return exponent == T(0.5) ? root_of(x) : power_of(x, exponent); }
  INLINE void step(T& param, T grad, T* state) const {
    T sum = state[0] + grad * grad, top = root(sum);
    T linear = state[1] + grad - (top - root(state[0])) / rate * param;
    T moved = ((linear < T(0) ? -l1 : l1) - linear) / (top / rate + (l2 + l2));
    param = size_of(linear) > l1 ? moved : T(0);
    state[0] = sum;
    state[1] = linear;
  }
};

}  // own

// RULES(kernels, name, rule): of all rules, and of those that leave rows alone which have no gradient.
#define ROW_RULES(KERNELS)     \
  KERNELS(sgd, SgdRule)        \
  KERNELS(adagrad, AdagradRule) \
  KERNELS(adam, AdamRule)      \
  KERNELS(ftrl, FtrlRule)
#define RULES(KERNELS)                         \
  ROW_RULES(KERNELS)                           \
  KERNELS(momentum, MomentumRule)              \
  KERNELS(decayed_adagrad, DecayedAdagradRule) \
  KERNELS(adamax, AdamaxRule)                  \
  KERNELS(adadelta, AdadeltaRule)              \
  KERNELS(rmsprop, RmsPropRule)                \
  KERNELS(centered_rmsprop, CenteredRmsPropRule)
