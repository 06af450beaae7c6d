// How kernels run: see scheduler.cpp.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "card.hpp"

namespace card {

/// Numbers from a seed: the same seed gives the same order of everything.
struct Random {
  uint64_t state = 0;
  uint64_t next();
  uint64_t below(uint64_t n) { return next() % n; }
  template <typename T> void shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; i--) std::swap(items[i - 1], items[below(i)]);
  }
};

/// A kernel with its grid and the bytes of its arguments.
struct Launch {
  const Entry* entry;
  dim3 grid, block;
  unsigned shared_bytes;
  /// Whether it may start before what is ahead of it has ended: its threads must then wait for that.
  bool early;
  /// Each argument by itself, in words so that it is aligned for any type up to 16 bytes.
  std::vector<std::vector<unsigned __int128>> args;
};

/// Why work on the card ended early.
struct Fault {
  enum Kind { None, Address, Misaligned, Other };
  Kind kind = None;
  std::string text;
};

/// The kernel of this name, or null.
const Entry* find_kernel(const char* name);
/// Runs all blocks in an order drawn from `random`.
Fault run_kernel(Launch& launch, Random& random);
/// Runs host code that touches the card's memory: a copy, a product.
Fault run_guarded(const std::function<void()>& body);

}  // namespace card
