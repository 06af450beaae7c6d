// How good predictions are: accuracy, and the area under the ROC curve from histograms.
#include "tables.cuh"

// How many rows of `indices` contain their label; `hits` was cleared.
#define HITS(I, indices_suffix, L, labels_suffix)                                                          \
  KERNEL accuracy_hits_##indices_suffix##_##labels_suffix(const I* indices, const L* labels, int64_t n,    \
                                                          uint32_t width, int32_t* hits) { IN_TURN;        \
    int32_t own = 0;                                                                                       \
    FOR_EACH(i, n) {                                                                                       \
      bool is_hit = false;                                                                                 \
      for (uint32_t k = 0; k < width; k++) is_hit |= (int64_t)indices[i * width + k] == (int64_t)labels[i]; \
      own += is_hit;                                                                                       \
    }                                                                                                      \
    own = warp_sum(own);                                                                                   \
    if (threadIdx.x % WARP_SIZE == 0 && own) atomicAdd(hits, own);                                         \
  }                                                                                                        \
  EXPORT(accuracy_hits_##indices_suffix##_##labels_suffix)
HITS(int64_t, i64, int64_t, i64)
HITS(int64_t, i64, int32_t, i32)
HITS(int32_t, i32, int64_t, i64)
HITS(int32_t, i32, int32_t, i32)

#define SHARE(T, suffix)                                                                                   \
  KERNEL accuracy_share_##suffix(const int32_t* hits, int32_t samples, T* share, int32_t* total) { IN_TURN; \
    if (thread_number()) return;                                                                           \
    *share = (T)((double)*hits / (double)(samples > 1 ? samples : 1));                                     \
    *total = samples;                                                                                      \
  }                                                                                                        \
  EXPORT(accuracy_share_##suffix)
SHARE(float, f32)
SHARE(double, f64)

FILE_OWN {

/// The histograms of positive and negative samples. With `steps` they are rings: one for each of the last
/// batches, then their sum, then the number of batches so far.
struct Histograms {
  int64_t* positive;
  int64_t* negative;
  /// Zero when the batch is made up, and must not count; null when there is no such mark.
  const float* weight;
  uint32_t buckets;
  uint32_t steps;

  INLINE bool counts() const { return !weight || *weight != 0.0f; }
  INLINE size_t total() const { return (size_t)steps * buckets; }
  /// Where this batch goes.
  INLINE size_t place() const {
    if (!steps) return 0;
    int64_t batches = positive[total() + buckets];
    return (size_t)((batches < 0 ? -batches : batches) % steps) * buckets;
  }
};

}  // own

/// Takes the oldest batch of a ring out of the sum, and clears its place.
KERNEL auc_open(int64_t* positive, int64_t* negative, const float* weight, uint32_t buckets, uint32_t steps) {
  IN_TURN;
  Histograms at{positive, negative, weight, buckets, steps};
  if (!at.counts()) return;
  size_t place = at.place(), total = at.total();
  FOR_EACH(i, at.buckets) {
    at.positive[total + i] -= at.positive[place + i];
    at.negative[total + i] -= at.negative[place + i];
    at.positive[place + i] = 0;
    at.negative[place + i] = 0;
  }
}
EXPORT(auc_open)

FILE_OWN {

/// Counts a batch: the last of `width` columns is the probability. A negative label counts nowhere.
template <typename T, typename L>
INLINE void count(const T* predictions, const L* labels, uint32_t n, uint32_t width, const Histograms& at,
                  Complaint* complaint, uint32_t op) {
  const uint32_t NOWHERE = 0xffffffffu;
  if (!at.counts()) return;
  size_t place = at.place();
  uint32_t lane = threadIdx.x % WARP_SIZE;
  for (uint32_t first = (uint32_t)thread_number() - lane; first < n; first += (uint32_t)thread_count()) {
    uint32_t i = first + lane, key = NOWHERE;
    if (i < n) {
      T probability = predictions[(size_t)i * width + width - 1];
      int64_t label = labels[i];
      if (probability >= T(0) && probability <= T(1)) {
        uint32_t bucket = (uint32_t)(probability * T(at.buckets - 1));
        if (label >= 0) key = bucket * 2 + (label > 0);
      } else if (probability == probability) {
        // Rounded away from what is allowed.
        int64_t value = probability < T(0) ? -1 : (int64_t)ceil(min((double)probability, 1e9));
        complain(complaint, op, OUT_OF_RANGE, value, i, 1);
      } else {
        complain(complaint, op, NOT_FINITE, 0, i, 1);
      }
    }
    // Predictions crowd in few buckets: one lane adds for all that have the same.
    uint32_t same = __match_any_sync(ALL_LANES, key);
    if (key == NOWHERE || (same & ((1u << lane) - 1))) continue;
    int64_t* counter = (key & 1 ? at.positive : at.negative) + place + (key >> 1);
    atomicAdd((uint64_t*)counter, (uint64_t)__popc(same));
  }
}

}  // own

#define COUNT(T, suffix, L, labels_suffix)                                                                 \
  KERNEL auc_count_##suffix##_##labels_suffix(                                                             \
      const T* predictions, const L* labels, uint32_t n, uint32_t width, int64_t* positive,                \
      int64_t* negative, const float* weight, uint32_t buckets, uint32_t steps, Complaint* complaint,      \
      uint32_t op) { IN_TURN;                                                                              \
    Histograms at{positive, negative, weight, buckets, steps};                                             \
    count<T, L>(predictions, labels, n, width, at, complaint, op);                                         \
  }                                                                                                        \
  EXPORT(auc_count_##suffix##_##labels_suffix)
COUNT(float, f32, int64_t, i64)
COUNT(float, f32, int32_t, i32)
COUNT(double, f64, int64_t, i64)
COUNT(double, f64, int32_t, i32)

FILE_OWN {

const int AREA_THREADS = 1024, AREA_WARPS = AREA_THREADS / WARP_SIZE;

/// The sum over all threads after this one, and over all.
template <typename T> INLINE T sum_after(T value, T* warp_sums, T& all) {
  uint32_t lane = threadIdx.x % WARP_SIZE, warp = threadIdx.x / WARP_SIZE;
  T sum = value;
  for (int by = 1; by < WARP_SIZE; by <<= 1) {
    T other = __shfl_down_sync(ALL_LANES, sum, by);
    if (lane + by < WARP_SIZE) sum += other;
  }
  if (lane == 0) warp_sums[warp] = sum;
  __syncthreads();
  all = 0;
  for (uint32_t w = 0; w < AREA_WARPS; w++) {
    all += warp_sums[w];
    if (w > warp) sum += warp_sums[w];
  }
  __syncthreads();
  return sum - value;
}

}  // own

/// Closes a ring, and computes the area under the curve by trapezoids: one block. What is added up are whole
/// numbers, exact below 2^53.
KERNEL __launch_bounds__(AREA_THREADS) auc_area(int64_t* positives_at, int64_t* negatives_at,
                                                const float* weight, uint32_t buckets, uint32_t steps,
                                                double* area) {
  IN_TURN;
  __shared__ int64_t counts[AREA_WARPS];
  __shared__ double areas[AREA_WARPS];
  Histograms at{positives_at, negatives_at, weight, buckets, steps};
  int64_t* positive = at.positive + at.total();
  int64_t* negative = at.negative + at.total();
  bool closes = steps && at.counts();
  size_t place = at.place();
  uint32_t each = (at.buckets + AREA_THREADS - 1) / AREA_THREADS;
  uint32_t first = min(threadIdx.x * each, at.buckets), end = min(first + each, at.buckets);
  int64_t own = 0, own_negative = 0, positives, negatives;
  for (uint32_t i = first; i < end; i++) {
    if (closes) {
      positive[i] += at.positive[place + i];
      negative[i] += at.negative[place + i];
    }
    own += positive[i];
    own_negative += negative[i];
  }
  int64_t above = sum_after(own, counts, positives);
  sum_after(own_negative, counts, negatives);
  double twice = 0, all;
  for (uint32_t i = end; i > first; i--) {
    twice += (double)negative[i - 1] * (double)(2 * above + positive[i - 1]);
    above += positive[i - 1];
  }
  sum_after(twice, areas, all);
  if (threadIdx.x) return;
  if (closes) {
    positive[at.buckets] += 1;
    negative[at.buckets] += 1;
  }
  *area = positives > 0 && negatives > 0 ? all / 2 / (double)positives / (double)negatives : all / 2;
}
EXPORT(auc_area)
