// What the functions of the driver and of cuBLASLt begin with.
#pragma once
#include "machine.hpp"

#define API extern "C" __attribute__((visibility("default")))

namespace card {

/// The lock that every call holds, and the card whose context is current on this thread.
struct Call {
  std::lock_guard<std::mutex> lock;
  /// Why the call fails already; `SUCCESS` otherwise.
  Code code;
  int card;
  Call();
};

/// One side of a copy: where it is, whose it is.
struct Side {
  char* at;
  /// Bytes from the start of one row to that of the next.
  size_t pitch;
};

/// Queues a copy of rows of bytes. Memory of the host that is not page-locked is read at once, or
/// waited for.
Code copy_rows(Stream& stream, Side to, Side from, size_t rows, size_t row_bytes);

/// The card whose context is current on this thread, or -1.
int& current_card();

}  // namespace card
