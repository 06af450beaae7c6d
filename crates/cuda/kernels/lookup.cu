// Rows of tables by id: one table, or many side by side with dense features, and the gradients.
//
// An id outside of its table is complained of, and row 0 stands for it; a padding id reads zeros, and its
// gradient is a row that is none.
#include "tables.cuh"

FILE_OWN {

/// Row `ids[i]` of a table to row `i` of `out`, in pieces: `pieces` of them in a row, `pitch` from one row of the table to
/// the next.
template <typename P, typename I>
INLINE void look_up(const P* table, const I* ids, P* out, uint32_t count, Divider pieces, int64_t pitch,
                    int64_t rows, int64_t padding, Complaint* complaint, uint32_t op) {
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
    out[i] = rows ? table[id * pitch + piece] : P{};
  }
}

}  // own

#define LOOK_UP(P, size, I, suffix)                                                                        \
  KERNEL __launch_bounds__(256) look_up_##size##_##suffix(                                                 \
      const P* table, const I* ids, P* out, uint32_t count, Divider pieces, int64_t pitch, int64_t rows,   \
      int64_t padding, Complaint* complaint, uint32_t op) { IN_TURN;                                       \
    look_up<P, I>(table, ids, out, count, pieces, pitch, rows, padding, complaint, op);                    \
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
                                                        Complaint* complaint, uint32_t op) { IN_TURN;      \
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

/// The parts of a row: looked up, or dense features.
struct Places {
  /// Tables or dense features; of the gradient, where theirs goes. Null where nobody asks, and for a gap.
  float* values[MAX_PARTS];
  /// Of 64 bits, or of 32 (`narrow`); null for dense features.
  const void* ids[MAX_PARTS];
  /// Of the gradient: row numbers.
  int64_t* numbers[MAX_PARTS];
};

/// The shape of one part.
struct Part {
  /// Of the table: the id that reads zeros, and its rows.
  int64_t padding, rows;
  /// Columns of one id, and how many ids a sample has.
  Divider width;
  uint32_t ids;
  /// Pieces of a sample, and in all.
  Divider pieces;
  uint32_t count;
  /// Where it begins in a row.
  uint32_t column;
  /// Elements from one row of the table, or of the features, to the next; of the gradient, the width.
  uint32_t pitch;
};

/// Their shapes, which of them have ids of 32 bits (a bit for each), and the elements from one row to the next.
struct Parts {
  Part of[MAX_PARTS];
  uint64_t narrow;
  uint32_t pitch;
  uint32_t unused;
};

/// What row numbers are made of: the ids of parts that are looked up.
struct Numbered {
  int64_t padding[MAX_PARTS];
  int64_t rows[MAX_PARTS];
  /// As in `Parts`.
  uint64_t narrow;
  uint32_t count[MAX_PARTS];
};

/// Id number `at` of a part.
INLINE int64_t id_of(const Places& places, uint64_t narrow, uint32_t part, uint32_t at) {
  const void* ids = places.ids[part];
  return narrow >> part & 1 ? ((const int32_t*)ids)[at] : ((const int64_t*)ids)[at];
}

/// Where a piece of a part belongs: which element of which sample, and of which id of the part.
struct Belongs {
  uint32_t sample, element, at;
  /// Its place in the row that has all parts.
  uint32_t joined;
};
template <int V> INLINE Belongs belongs(const Part& part, uint32_t pitch, uint32_t piece) {
  Belongs place;
  place.sample = part.pieces.quotient(piece);
  place.element = (piece - place.sample * part.pieces.by) * V;
  place.joined = place.sample * pitch + part.column + place.element;
  place.at = place.sample;
  if (part.ids > 1) {
    uint32_t id = part.width.quotient(place.element);
    place.element -= id * part.width.by;
    place.at = place.sample * part.ids + id;
  }
  return place;
}

/// The same numbers as elements of another type: tables are of 32 bits, a row may be of 16.
template <typename To, typename From, int V> INLINE Piece<To, V> as(const Piece<From, V>& from) {
  Piece<To, V> to;
  UNROLL for (int i = 0; i < V; i++) to.x[i] = Store<To>::of(load(from.x[i]));
  return to;
}

/// A row of blocks for each part; `N` pieces are under way in a thread at once.
template <typename E, int V, int N>
INLINE void join(const Places& places, const Parts& parts, E* out, Complaint* complaint, uint32_t op) {
  const Part& part = parts.of[blockIdx.y];
  const float* values = places.values[blockIdx.y];
  bool ids = places.ids[blockIdx.y] != nullptr;
  uint32_t first = blockIdx.x * blockDim.x * N + threadIdx.x;
  const float* from[N];
  uint32_t to[N];
  // How many there are of dense features: their rows begin anywhere, and may end within a piece.
  int32_t features[N];
  UNROLL for (int i = 0; i < N; i++) {
    uint32_t piece = first + i * blockDim.x;
    from[i] = nullptr;
    if (piece >= part.count) continue;
    Belongs place = belongs<V>(part, parts.pitch, piece);
    to[i] = place.joined;
    int64_t row = place.at;
    if (ids) {
      row = id_of(places, parts.narrow, blockIdx.y, place.at);
      if (row == part.padding) continue;
      if (row < 0 || row >= part.rows) {
        complain(complaint, op, OUT_OF_RANGE, row, place.at, part.rows);
        if (!part.rows) continue;
        row = 0;
      }
    }
    features[i] = (int32_t)part.width.by - (int32_t)place.element;
    if (values) from[i] = values + row * part.pitch + place.element;
  }
  Piece<float, V> pieces[N];
  UNROLL for (int i = 0; i < N; i++) {
    pieces[i] = from[i] && ids ? load_piece<float, V>(from[i]) : no_piece<float, V>();
    if (!from[i] || ids) continue;
    UNROLL for (int e = 0; e < V; e++)
      if (e < features[i]) pieces[i].x[e] = from[i][e];
  }
  UNROLL for (int i = 0; i < N; i++)
    if (first + i * blockDim.x < part.count) store_piece<E, V>(out + to[i], as<E>(pieces[i]));
}

template <typename E, int V, int N> INLINE void split(const Places& places, const Parts& parts, const E* grad) {
  const Part& part = parts.of[blockIdx.y];
  float* values = places.values[blockIdx.y];
  if (!values) return;
  bool is_looked_up = places.ids[blockIdx.y] != nullptr;
  uint32_t first = blockIdx.x * blockDim.x * N + threadIdx.x;
  UNROLL for (int i = 0; i < N; i++) {
    uint32_t piece = first + i * blockDim.x;
    if (piece >= part.count) continue;
    Belongs place = belongs<V>(part, parts.pitch, piece);
    Piece<float, V> moved = as<float>(load_piece<E, V>(grad + place.joined));
    float* to = values + (size_t)place.at * part.width.by + place.element;
    if (is_looked_up) {
      store_piece<float, V>(to, moved);
      continue;
    }
    UNROLL for (int e = 0; e < V; e++)
      if (place.element + e < part.width.by) to[e] = moved.x[e];
  }
}

}  // own

#define JOIN(E, suffix, V, N)                                                                              \
  KERNEL __launch_bounds__(256) join_parts_##V##x##N##_##suffix(                                           \
      BY_VALUE Places places, BY_VALUE Parts parts, E* out, Complaint* complaint, uint32_t op) { IN_TURN;  \
    join<E, V, N>(places, parts, out, complaint, op);                                                      \
  }                                                                                                        \
  EXPORT(join_parts_##V##x##N##_##suffix)                                                                  \
  KERNEL __launch_bounds__(256) split_parts_##V##x##N##_##suffix(BY_VALUE Places places,                   \
                                                                 BY_VALUE Parts parts, const E* grad) { IN_TURN; \
    split<E, V, N>(places, parts, grad);                                                                   \
  }                                                                                                        \
  EXPORT(split_parts_##V##x##N##_##suffix)
#define JOINS(E, suffix)   \
  JOIN(E, suffix, 1, 1)    \
  JOIN(E, suffix, 4, 1)    \
  JOIN(E, suffix, 1, 4)    \
  JOIN(E, suffix, 4, 4)
JOINS(float, f32)
JOINS(bf16, bf16)
JOINS(f16, f16)

// The row numbers of the gradients of all parts, as `looked_up_rows`: a row of blocks for each part.
KERNEL __launch_bounds__(256) number_parts(BY_VALUE Places places, BY_VALUE Numbered numbered,
                                           Complaint* complaint, uint32_t op) {
  IN_TURN;
  uint32_t part = blockIdx.y, at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= numbered.count[part]) return;
  int64_t row = id_of(places, numbered.narrow, part, at), rows = numbered.rows[part];
  bool is_padding = row == numbered.padding[part], is_row = row >= 0 && row < rows;
  if (!is_row && !is_padding) complain(complaint, op, OUT_OF_RANGE, row, at, rows);
  places.numbers[part][at] = is_row && !is_padding ? row : NO_ROW;
}
EXPORT(number_parts)

FILE_OWN {

/// Lists of keys, and where the rows of each go.
struct Keys {
  const int64_t* keys[MAX_PARTS];
  int64_t* rows[MAX_PARTS];
};
struct KeyCounts { uint32_t of[MAX_PARTS]; };

/// A key that is none of the pass; the host's `Problem::UnknownKey`.
const uint32_t UNKNOWN_KEY = 5;

/// A slot of the index of a pass: a row below 0 is a slot without a key.
struct KeyAndRow { int64_t key, row; };

}  // own

// Keys to the rows that they have in the tables of a pass (`find_rows`): a row of blocks for each list of keys.
KERNEL __launch_bounds__(256) find_rows(BY_VALUE Keys lists, BY_VALUE KeyCounts counts, const KeyAndRow* index,
                                        uint32_t slots, uint32_t shift, int64_t padding, int32_t has_padding,
                                        uint32_t first, Complaint* complaint, uint32_t op) {
  IN_TURN;
  uint32_t list = blockIdx.y, i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= counts.of[list]) return;
  int64_t key = lists.keys[list][i], row = 0;
  if (!has_padding || key != padding) {
    uint32_t at = (uint32_t)((uint64_t)key * 0x9E3779B97F4A7C15ull >> shift);
    row = -1;
    for (uint32_t probe = 0; probe < slots; probe++) {
      KeyAndRow found = index[at];
      if (found.row < 0) break;
      if (found.key == key) {
        row = found.row;
        break;
      }
      at = (at + 1) & (slots - 1);
    }
    if (row < 0) {
      complain(complaint, op, UNKNOWN_KEY, key, i, first + list);
      row = 0;
    }
  }
  lists.rows[list][i] = row;
}
EXPORT(find_rows)
