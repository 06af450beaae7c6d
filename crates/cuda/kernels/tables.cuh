// What kernels that work on rows of tables share.
#pragma once
#include "divider.cuh"

FILE_OWN {

/// The row number of a selected row that is none: padding, or one that was added to another. Who reads
/// selected rows passes over it (engine, `device/value.rs`).
const int64_t NO_ROW = (int64_t)(1ull << 63);

/// Elements that are moved at once: 16 bytes, or one element.
template <typename T, int V> struct alignas(sizeof(T) * V) Piece { T x[V]; };

template <typename T, int V> INLINE Piece<T, V> load_piece(const T* at) { return *(const Piece<T, V>*)at; }
template <typename T, int V> INLINE void store_piece(T* at, const Piece<T, V>& piece) {
  *(Piece<T, V>*)at = piece;
}
template <typename T, int V> INLINE Piece<T, V> no_piece() {
  Piece<T, V> piece;
  UNROLL for (int i = 0; i < V; i++) piece.x[i] = T(0);
  return piece;
}
template <typename T, int V> INLINE void add_piece(Piece<T, V>& to, const Piece<T, V>& piece) {
  UNROLL for (int i = 0; i < V; i++) to.x[i] += piece.x[i];
}

}  // own
