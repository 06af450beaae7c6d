// Rows of tables by id: one table, or many side by side with dense features, and the gradients.
//
// An id outside of its table is complained of, and row 0 stands for it; a padding id reads zeros, and its
// gradient is a row that is none.
#include "tables.cuh"

FILE_OWN {

/// Row `ids[i]` of a table to row `i` of `out`, in pieces: `pieces` of them in a row.
template <typename P, typename I>
INLINE void look_up(const P* table, const I* ids, P* out, uint32_t count, Divider pieces, int64_t rows,
                    int64_t padding, Complaint* complaint, uint32_t op) {
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    uint32_t at = pieces.quotient(i), piece = i - at * pieces.by;
    int64_t id = ids[at];
    if (id == padding) {
      out[i] = P{};
      continue;
    }
    if (id < 0 || id >= rows) {
      complain(complaint, op, OUT_OF_RANGE, id, at, rows);
      id = 0;
    }
    out[i] = rows ? table[id * pieces.by + piece] : P{};
  }
}

}  // own

#define LOOK_UP(P, size, I, suffix)                                                                        \
  KERNEL __launch_bounds__(256) look_up_##size##_##suffix(                                                 \
      const P* table, const I* ids, P* out, uint32_t count, Divider pieces, int64_t rows, int64_t padding, \
      Complaint* complaint, uint32_t op) {                                                                 \
    look_up<P, I>(table, ids, out, count, pieces, rows, padding, complaint, op);                           \
  }                                                                                                        \
  EXPORT(look_up_##size##_##suffix)
#define LOOK_UPS(P, size)            \
  LOOK_UP(P, size, int64_t, i64)     \
  LOOK_UP(P, size, int32_t, i32)
typedef Piece<uint32_t, 4> Bytes16;
LOOK_UPS(Bytes16, 16)
LOOK_UPS(uint64_t, 8)
LOOK_UPS(uint32_t, 4)
LOOK_UPS(uint16_t, 2)

// The row numbers of a gradient: the ids, but none for padding.
#define LOOKED_UP(I, suffix)                                                                               \
  KERNEL __launch_bounds__(256) looked_up_rows_##suffix(const I* ids, int64_t* numbers, int64_t n,         \
                                                        int64_t rows, int64_t padding,                     \
                                                        Complaint* complaint, uint32_t op) {               \
    FOR_EACH(i, n) {                                                                                       \
      int64_t id = ids[i];                                                                                 \
      bool is_row = id >= 0 && id < rows;                                                                  \
      if (!is_row && id != padding) complain(complaint, op, OUT_OF_RANGE, id, i, rows);                    \
      numbers[i] = is_row && id != padding ? id : NO_ROW;                                                  \
    }                                                                                                      \
  }                                                                                                        \
  EXPORT(looked_up_rows_##suffix)
LOOKED_UP(int64_t, i64)
LOOKED_UP(int32_t, i32)

FILE_OWN {

const uint32_t MAX_PARTS = 64;

/// Neighbouring parts of a row that have the same shape.
struct Stretch {
  /// Its columns.
  uint32_t column, end;
  /// Its first part, and how many ids each part has for a sample.
  uint32_t part, ids;
  /// Columns of one id.
  Divider width;
};

/// The parts of a row: looked up, or dense features.
struct Places {
  /// Tables or dense features; of the gradient, where theirs goes (null where nobody asks).
  float* values[MAX_PARTS];
  /// Null for dense features.
  const int64_t* ids[MAX_PARTS];
  /// Of the gradient: row numbers.
  int64_t* numbers[MAX_PARTS];
};

/// Their shapes.
struct Parts {
  int64_t padding[MAX_PARTS];
  int64_t rows[MAX_PARTS];
  Stretch stretches[MAX_PARTS];
  /// Elements of a row of all parts, also those of other launches.
  uint32_t pitch;
  /// The columns of this launch, as many pieces, and its pieces in all.
  uint32_t first_column;
  Divider pieces;
  uint32_t count;
  /// Where its columns end; behind them a row has a gap, which is filled with zeros.
  uint32_t end_column;
  uint32_t unused;
};

/// What row numbers are made of: the ids of parts that are looked up.
struct Numbered {
  int64_t padding[MAX_PARTS];
  int64_t rows[MAX_PARTS];
  uint32_t count[MAX_PARTS];
};

/// Where an element of a row belongs.
struct Belongs {
  uint32_t part, width, element;
  /// The position of its id among those of its part; the sample, for dense features.
  uint32_t at;
};
INLINE Belongs belongs(const Parts& parts, uint32_t sample, uint32_t column) {
  uint32_t s = 0;
  while (column >= parts.stretches[s].end) s++;
  const Stretch& stretch = parts.stretches[s];
  uint32_t within = column - stretch.column, id = stretch.width.quotient(within);
  Belongs place;
  place.width = stretch.width.by;
  place.element = within - id * place.width;
  place.part = stretch.part + id;
  place.at = sample;
  if (stretch.ids > 1) {
    place.part = stretch.part + id / stretch.ids;
    place.at = sample * stretch.ids + id % stretch.ids;
  }
  return place;
}

/// `N` pieces are under way in a thread at once.
template <int V, int N>
INLINE void join(const Places& places, const Parts& parts, float* out, Complaint* complaint, uint32_t op) {
  uint32_t first = blockIdx.x * blockDim.x * N + threadIdx.x;
  const float* from[N];
  uint32_t to[N], features[N];
  UNROLL for (int i = 0; i < N; i++) {
    uint32_t piece = first + i * blockDim.x;
    from[i] = nullptr;
    features[i] = 0;
    if (piece >= parts.count) continue;
    uint32_t sample = parts.pieces.quotient(piece);
    uint32_t column = parts.first_column + (piece - sample * parts.pieces.by) * V;
    to[i] = sample * parts.pitch + column;
    if (column >= parts.end_column) continue;
    Belongs place = belongs(parts, sample, column);
    int64_t row = place.at;
    if (places.ids[place.part]) {
      row = places.ids[place.part][place.at];
      if (row == parts.padding[place.part]) continue;
      if (row < 0 || row >= parts.rows[place.part]) {
        complain(complaint, op, OUT_OF_RANGE, row, place.at, parts.rows[place.part]);
        if (!parts.rows[place.part]) continue;
        row = 0;
      }
    } else {
      // Their rows begin anywhere, and may end within a piece.
      features[i] = place.width - place.element;
    }
    from[i] = places.values[place.part] + row * place.width + place.element;
  }
  Piece<float, V> pieces[N];
  UNROLL for (int i = 0; i < N; i++) {
    pieces[i] = from[i] && !features[i] ? load_piece<float, V>(from[i]) : no_piece<float, V>();
    UNROLL for (int e = 0; e < V; e++)
      if (e < (int)features[i]) pieces[i].x[e] = from[i][e];
  }
  UNROLL for (int i = 0; i < N; i++)
    if (first + i * blockDim.x < parts.count) store_piece<float, V>(out + to[i], pieces[i]);
}

template <int V, int N> INLINE void split(const Places& places, const Parts& parts, const float* grad) {
  uint32_t first = blockIdx.x * blockDim.x * N + threadIdx.x;
  UNROLL for (int i = 0; i < N; i++) {
    uint32_t piece = first + i * blockDim.x;
    if (piece >= parts.count) continue;
    uint32_t sample = parts.pieces.quotient(piece);
    uint32_t column = parts.first_column + (piece - sample * parts.pieces.by) * V;
    if (column >= parts.end_column) continue;
    Belongs place = belongs(parts, sample, column);
    float* to = places.values[place.part];
    if (!to) continue;
    Piece<float, V> values = load_piece<float, V>(grad + (size_t)sample * parts.pitch + column);
    to += (size_t)place.at * place.width + place.element;
    if (places.ids[place.part]) {
      store_piece<float, V>(to, values);
      continue;
    }
    UNROLL for (int e = 0; e < V; e++)
      if (place.element + e < place.width) to[e] = values.x[e];
  }
}

}  // own

#define JOIN(V, N)                                                                                         \
  KERNEL __launch_bounds__(256) join_parts_##V##x##N(BY_VALUE Places places, BY_VALUE Parts parts,         \
                                                     float* out, Complaint* complaint, uint32_t op) {      \
    join<V, N>(places, parts, out, complaint, op);                                                         \
  }                                                                                                        \
  EXPORT(join_parts_##V##x##N)                                                                             \
  KERNEL __launch_bounds__(256) split_parts_##V##x##N(BY_VALUE Places places, BY_VALUE Parts parts,        \
                                                      const float* grad) {                                 \
    split<V, N>(places, parts, grad);                                                                      \
  }                                                                                                        \
  EXPORT(split_parts_##V##x##N)
JOIN(1, 1)
JOIN(4, 1)
JOIN(1, 4)
JOIN(4, 4)

// The row numbers of the gradients of all parts, as `looked_up_rows`: a row of blocks for each part.
KERNEL __launch_bounds__(256) number_parts(BY_VALUE Places places, BY_VALUE Numbered numbered,
                                           Complaint* complaint, uint32_t op) {
  uint32_t part = blockIdx.y, at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= numbered.count[part]) return;
  int64_t row = places.ids[part][at], rows = numbered.rows[part];
  bool is_padding = row == numbered.padding[part], is_row = row >= 0 && row < rows;
  if (!is_row && !is_padding) complain(complaint, op, OUT_OF_RANGE, row, at, rows);
  places.numbers[part][at] = is_row && !is_padding ? row : NO_ROW;
}
EXPORT(number_parts)
