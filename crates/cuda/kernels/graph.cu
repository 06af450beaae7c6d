// Rows that go along the edges of a graph and meet at their ends. Edges are sorted by where they meet, and
// rows are joined in their order.
#include "pairs.cuh"

// 0 stands for the sum, 3 for the least.
const int32_t MEAN = 1, MAX = 2;

/// The edges as kernels see them: sorted by one end, with the other end beside them.
struct Edges {
  uint32_t count;
  /// Rows where edges meet, and rows at their other ends.
  uint32_t places, others;
  int32_t wide, reduce;
  Divider width;
};

/// Whether edges meet anew at number `i`, somewhere.
INLINE bool begins(const ShortPair* pairs, const Edges& edges, uint32_t i) {
  uint32_t place = key_of(pairs[i]);
  return place < edges.places && (i == 0 || key_of(pairs[i - 1]) != place);
}

/// The row at the other end of edge `edge`; none when there is no such row, which is complained of.
INLINE int64_t other_end(const void* others, const Edges& edges, uint32_t edge, Complaint* complaint,
                         uint32_t op) {
  int64_t row = index_at(others, edges.wide, edge);
  if ((uint64_t)row < edges.others) return row;
  complain(complaint, op, OUT_OF_RANGE, row, edge, edges.others);
  return -1;
}

template <typename T> INLINE void
send_rows(const ShortPair* pairs, const void* sources, const T* x, T* out, int32_t* counts, uint32_t threads,
          const Edges& edges, Complaint* complaint, uint32_t op) {
  FOR_EACH_SHORT(thread, threads) {
    uint32_t first = thread, column = split(first, edges.width);
    if (!begins(pairs, edges, first)) continue;
    uint32_t place = key_of(pairs[first]), i = first;
    T joined = T(0);
    for (; i < edges.count && key_of(pairs[i]) == place; i++) {
      int64_t row = other_end(sources, edges, Pairs<ShortPair>::at(pairs[i]), complaint, op);
      if (row < 0) continue;
      T next = x[row * edges.width.by + column];
      if (i == first) joined = next;
      else if (edges.reduce == MAX) joined = next > joined ? next : joined;
      else if (edges.reduce > MAX) joined = next < joined ? next : joined;
      else joined += next;
    }
    out[(int64_t)place * edges.width.by + column] = edges.reduce == MEAN ? joined / (T)(i - first) : joined;
    if (counts && column == 0) counts[place] = (int32_t)(i - first);
  }
}

// The gradient goes back: each source adds up what its targets give it. Of an extreme, every row that
// reached it takes the whole.
template <typename T> INLINE void
return_rows(const ShortPair* pairs, const void* targets, const T* x, const T* out, const T* dout,
            const int32_t* counts, T* dx, uint32_t threads, const Edges& edges, Complaint* complaint,
            uint32_t op) {
  FOR_EACH_SHORT(thread, threads) {
    uint32_t first = thread, column = split(first, edges.width);
    if (!begins(pairs, edges, first)) continue;
    uint32_t place = key_of(pairs[first]);
    int64_t own = (int64_t)place * edges.width.by + column;
    T sum = T(0);
    for (uint32_t i = first; i < edges.count && key_of(pairs[i]) == place; i++) {
      int64_t row = other_end(targets, edges, Pairs<ShortPair>::at(pairs[i]), complaint, op);
      if (row < 0) continue;
      int64_t at = row * edges.width.by + column;
      if (edges.reduce >= MAX) sum += x[own] == out[at] ? dout[at] : T(0);
      else sum += edges.reduce == MEAN ? dout[at] / (T)counts[row] : dout[at];
    }
    dx[own] = sum;
  }
}

#define GRAPHS(T, suffix)                                                                                  \
  KERNEL send_rows_##suffix(const ShortPair* pairs, const void* sources, const T* x, T* out,               \
                            int32_t* counts, uint32_t threads, Edges edges, Complaint* complaint,          \
                            uint32_t op) {                                                                 \
    send_rows(pairs, sources, x, out, counts, threads, edges, complaint, op);                              \
  }                                                                                                        \
  EXPORT(send_rows_##suffix)                                                                               \
  KERNEL return_rows_##suffix(const ShortPair* pairs, const void* targets, const T* x, const T* out,       \
                              const T* dout, const int32_t* counts, T* dx, uint32_t threads, Edges edges,  \
                              Complaint* complaint, uint32_t op) {                                         \
    return_rows(pairs, targets, x, out, dout, counts, dx, threads, edges, complaint, op);                  \
  }                                                                                                        \
  EXPORT(return_rows_##suffix)
GRAPHS(float, f32)
GRAPHS(double, f64)
GRAPHS(int32_t, i32)
GRAPHS(int64_t, i64)

// How many edges lead to each row: whole numbers, whose sum does not depend on their order.
KERNEL count_edges(const void* targets, int32_t wide, int32_t* counts, uint32_t edges, uint32_t rows) {
  FOR_EACH_SHORT(i, edges) {
    int64_t row = index_at(targets, wide, i);
    if ((uint64_t)row < rows) atomicAdd(&counts[row], 1);
  }
}
EXPORT(count_edges)
