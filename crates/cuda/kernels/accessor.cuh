// What a push does to a record of one of Paddle's accessors, and what a pull of it gives. The engine's formulas
// (crates/engine/src/accessor) are the reference.
//
// A lent record is [mark, pushed shows, pushed clicks, slot, unseen days, delta score, shows, clicks, first weight and
// its state, long part and its state, whether that was made]; places count from the mark. Before the long part is made
// its place holds its first values.
#pragma once
#include "prelude.cuh"

FILE_OWN {

const uint32_t NAIVE = 0, ADAGRAD = 1, STD_ADAGRAD = 2, ADAM = 3, SHARED_ADAM = 4;
const int PUSHED = 1, UNSEEN_DAYS = 4, DELTA_SCORE = 5;

/// A sparse rule: the sum of squares that AdaGrad begins with, or Adam's decay rates and epsilon.
struct SparseRule {
  uint32_t kind;
  float rate, low, high;
  float numbers[3];
  uint32_t unused;
};

/// The settings of an accessor, and the places of a lent record.
struct Accessor {
  double least_shows;
  float nonclk_coeff, click_coeff, embedx_threshold;
  uint32_t show_scale;
  /// Columns of a pull, of those the ones before the long part, and numbers of a lent record.
  uint32_t width, head, lent;
  /// Numbers of a count.
  uint32_t numbers;
  uint32_t show, embed, embed_state, embedx, embedx_state, has_embedx;
  SparseRule embed_rule, embedx_rule;
};

INLINE double count_of(const float* at, uint32_t numbers) {
  return numbers == 2 ? (double)at[0] + (double)at[1] : (double)at[0];
}
INLINE void add_count(float* at, uint32_t numbers, float more) {
  double count = count_of(at, numbers) + (double)more;
  at[0] = (float)count;
  if (numbers == 2) at[1] = (float)(count - (double)at[0]);
}

INLINE void start_state(const SparseRule& rule, float* state, uint32_t width) {
  if (rule.kind == ADAGRAD) state[0] = 0;
  if (rule.kind == STD_ADAGRAD)
    for (uint32_t i = 0; i < width; i++) state[i] = 0;
  if (rule.kind != ADAM && rule.kind != SHARED_ADAM) return;
  uint32_t moments = rule.kind == ADAM ? 2 * width : 2;
  for (uint32_t i = 0; i < moments; i++) state[i] = 0;
  state[moments] = rule.numbers[0];
  state[moments + 1] = rule.numbers[1];
}

/// Updates weights; `scale` is the number of shows that the gradient is a sum over.
INLINE void step_of(const SparseRule& rule, float* weights, float* state, const float* grads, uint32_t width,
                    float scale) {
  scale = scale > 0 ? scale : 1;
  float beta1 = rule.numbers[0], beta2 = rule.numbers[1], epsilon = rule.numbers[2];
  double first = 0, second = 0;
  float ratio = 0, step = 0;
  if (rule.kind == ADAGRAD) ratio = sqrtf(rule.numbers[0] / (rule.numbers[0] + state[0]));
  const float* powers = state + (rule.kind == ADAM ? 2 * width : 2);
  if (rule.kind == ADAM || rule.kind == SHARED_ADAM)
    step = rule.rate * sqrtf(1 - powers[1]) / (1 - powers[0]);
  for (uint32_t i = 0; i < width; i++) {
    float weight = weights[i], grad = grads[i];
    if (rule.kind == NAIVE) {
      weight -= rule.rate * grad;
    } else if (rule.kind == ADAGRAD) {
      grad = grad / scale;
      weight -= rule.rate * grad * ratio;
      first += (double)grad * (double)grad;
    } else if (rule.kind == STD_ADAGRAD) {
      grad = grad / scale;
      weight -= rule.rate * grad * sqrtf(rule.numbers[0] / (rule.numbers[0] + state[i]));
      state[i] += grad * grad;
    } else if (rule.kind == ADAM) {
      float mean = beta1 * state[i] + (1 - beta1) * grad;
      float square = beta2 * state[width + i] + (1 - beta2) * grad * grad;
      weight -= step * (mean / (sqrtf(square) + epsilon));
      state[i] = mean;
      state[width + i] = square;
    } else {
      float mean = beta1 * state[0] + (1 - beta1) * grad;
      float square = beta2 * state[1] + (1 - beta2) * grad * grad;
      weight -= step * (mean / (sqrtf(square) + epsilon));
      first += (double)mean;
      second += (double)square;
    }
    weights[i] = weight < rule.low ? rule.low : weight > rule.high ? rule.high : weight;
  }
  double count = width ? width : 1;
  if (rule.kind == ADAGRAD) state[0] += (float)(first / count);
  if (rule.kind == SHARED_ADAM) {
    state[0] = (float)(first / count);
    state[1] = (float)(second / count);
  }
  if (rule.kind == ADAM || rule.kind == SHARED_ADAM) {
    float* raised = state + (rule.kind == ADAM ? 2 * width : 2);
    raised[0] *= beta1;
    raised[1] *= beta2;
  }
}

INLINE double score_of(const Accessor& a, double shows, double clicks) {
  return (shows - clicks) * (double)a.nonclk_coeff + clicks * (double)a.click_coeff;
}

/// Takes the gradient of the pulled columns.
INLINE void push(const Accessor& a, float* lent, const float* grads, float shows, float clicks) {
  if (lent[0] < 0) return;
  lent[0] = 1;
  uint32_t click = a.show + a.numbers, dim = a.width - a.head;
  add_count(lent + a.show, a.numbers, shows);
  add_count(lent + click, a.numbers, clicks);
  lent[DELTA_SCORE] += (float)score_of(a, (double)shows, (double)clicks);
  lent[UNSEEN_DAYS] = 0;
  double all_shows = count_of(lent + a.show, a.numbers), all_clicks = count_of(lent + click, a.numbers);
  if (all_shows < a.least_shows) return;
  float scale = a.show_scale ? shows : 1;
  step_of(a.embed_rule, lent + a.embed, lent + a.embed_state, grads + a.head - 1, 1, scale);
  if (lent[a.has_embedx] != 0) {
    step_of(a.embedx_rule, lent + a.embedx, lent + a.embedx_state, grads + a.head, dim, scale);
  } else if (score_of(a, all_shows, all_clicks) >= (double)a.embedx_threshold) {
    start_state(a.embedx_rule, lent + a.embedx_state, dim);
    lent[a.has_embedx] = 1;
  }
}

/// Writes what a pull gives.
INLINE void pull(const Accessor& a, const float* lent, float* out) {
  double shows = count_of(lent + a.show, a.numbers);
  bool is_admitted = lent[0] > 0 && shows >= a.least_shows;
  bool is_long = is_admitted && lent[a.has_embedx] != 0;
  if (a.head == 3) {
    out[0] = is_admitted ? (float)shows : 0;
    out[1] = is_admitted ? (float)count_of(lent + a.show + a.numbers, a.numbers) : 0;
  }
  out[a.head - 1] = is_admitted ? lent[a.embed] : 0;
  for (uint32_t i = a.head; i < a.width; i++) out[i] = is_long ? lent[a.embedx + i - a.head] : 0;
}

}  // own
