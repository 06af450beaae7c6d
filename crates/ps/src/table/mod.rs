//! Sparse tables: rows by 64-bit key, pure in-memory structures.
