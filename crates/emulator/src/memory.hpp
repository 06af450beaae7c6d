// The memory of the emulated cards and page-locked memory of the host: see memory.cpp.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "scheduler.hpp"

namespace card {

size_t page_size();

/// A piece of a card's memory. The pages around it are closed.
struct Allocation {
  int card;
  /// Where it starts, what was asked for, and that rounded to 16 bytes.
  char* at;
  size_t bytes, used;
  /// The pages that it lies on.
  char* pages;
  size_t mapped;
  /// Whether its allocation has run on its stream: until then nobody may touch it.
  bool ready = false;
  /// Whether its pages can be touched now.
  bool open = false;
};

/// All memory that is allocated now, by address. Addresses are never used twice.
class Memory {
 public:
  /// Bytes that each card has.
  size_t limit = size_t{1} << 30;

  /// Addresses for so many bytes, or null where the card has no more.
  char* reserve(int card, size_t bytes, Random& random);
  /// Lets the memory be used, filled with a pattern so that what is read before it is written is seen.
  void make_ready(char* at);
  /// Gives the memory back. False when bytes beside it have been written to.
  bool release(char* at);
  void release_card(int card);
  /// The piece that holds all of these bytes, or null.
  const Allocation* find(const void* at, size_t bytes) const;
  const Allocation* nearest(const void* at) const;
  /// Lets this card's memory (and that of a second one, for copies) be touched, and no other's.
  void open_only(int card, int second = -1);
  /// Closes everything to the host.
  void close();
  size_t allocated(int card) const;

  void* pin(size_t bytes);
  bool unpin(void* at);
  /// Start and size of the page-locked memory that holds these bytes; null when it is not page-locked.
  const std::pair<char* const, size_t>* find_pinned(const void* at, size_t bytes) const;

 private:
  void set_open(Allocation& piece, bool open);
  /// Which cards' memory is open, or -1.
  int open_card_ = -1, open_second_ = -1;
  std::map<int, size_t> taken_;
  std::map<char*, Allocation> live_;
  std::map<char*, size_t> pinned_;
};

Memory& memory();
/// Words for an address that a kernel must not touch.
std::string describe_address(const void* at);

}  // namespace card
