// Memory with closed pages around every piece.
//
// A piece ends where a page ends, or starts where one starts, as the seed says; so an access outside
// of it is a fault on one side for certain, and a write on the other side is found when the piece is
// freed. Only the card whose work runs can touch its memory: pages of other cards are closed, and so
// are all when the host runs its own code (as long as there are few pieces: it costs a call for each).
#include "memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace card {
namespace {

constexpr int PATTERN = 0xcb;
/// Address space that is asked for at once; it costs nothing until it is used.
constexpr size_t SPAN = size_t{64} << 30;
/// Larger pieces are filled at both ends only, by half of this: filling costs real memory.
constexpr size_t FILLED = size_t{8} << 20;
/// With more pieces than this the host's own accesses are not caught.
constexpr size_t CLOSED_TO_HOST = 64;

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/// Closed addresses that nobody has had before.
char* take_addresses(size_t bytes) {
  static char *next = nullptr, *end = nullptr;
  if (static_cast<size_t>(end - next) < bytes) {
    size_t span = std::max(SPAN, bytes);
    void* base = mmap(nullptr, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return nullptr;
    next = static_cast<char*>(base);
    end = next + span;
  }
  char* taken = next;
  next += bytes;
  return taken;
}

bool is_pattern(const char* from, const char* to) {
  return std::all_of(from, to, [](char byte) { return static_cast<unsigned char>(byte) == PATTERN; });
}

}  // namespace

size_t page_size() {
  static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

Memory& memory() {
  static Memory* memory = new Memory;
  return *memory;
}

char* Memory::reserve(int card, size_t bytes, Random& random) {
  size_t used = round_up(bytes, 16), mapped = round_up(used, page_size());
  if (bytes > limit || taken_[card] + bytes > limit) return nullptr;
  char* pages = take_addresses(mapped + 2 * page_size());
  if (!pages) return nullptr;
  pages += page_size();
  bool at_end = random.next() & 1;
  char* at = at_end ? pages + (mapped - used) : pages;
  live_[at] = Allocation{card, at, bytes, used, pages, mapped};
  taken_[card] += bytes;
  return at;
}

void Memory::set_open(Allocation& piece, bool open) {
  if (piece.open == open || !piece.ready) return;
  mprotect(piece.pages, piece.mapped, open ? PROT_READ | PROT_WRITE : PROT_NONE);
  piece.open = open;
}

void Memory::make_ready(char* at) {
  auto found = live_.find(at);
  if (found == live_.end()) return;
  Allocation& piece = found->second;
  piece.ready = true;
  set_open(piece, true);
  size_t half = std::min(piece.mapped, FILLED / 2);
  std::memset(piece.pages, PATTERN, half);
  half = std::min(piece.mapped - half, FILLED / 2);
  std::memset(piece.pages + piece.mapped - half, PATTERN, half);
  if (piece.card != open_card_ && piece.card != open_second_) set_open(piece, false);
}

bool Memory::release(char* at) {
  auto found = live_.find(at);
  if (found == live_.end()) return true;
  Allocation& piece = found->second;
  bool whole = true;
  if (piece.ready) {
    set_open(piece, true);
    whole = is_pattern(piece.pages, piece.at) &&
            is_pattern(piece.at + piece.used, piece.pages + piece.mapped);
  }
  // New closed pages in their place give the memory back and keep the addresses.
  mmap(piece.pages, piece.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  taken_[piece.card] -= piece.bytes;
  live_.erase(found);
  return whole;
}

void Memory::release_card(int card) {
  for (auto at = live_.begin(); at != live_.end();) {
    char* start = at->first;
    bool ours = at->second.card == card;
    ++at;
    if (ours) release(start);
  }
}

const Allocation* Memory::find(const void* at, size_t bytes) const {
  const Allocation* piece = nearest(at);
  if (!piece) return nullptr;
  size_t offset = static_cast<size_t>(static_cast<const char*>(at) - piece->at);
  return offset <= piece->bytes && bytes <= piece->bytes - offset ? piece : nullptr;
}

/// The last piece that starts at or before an address.
const Allocation* Memory::nearest(const void* at) const {
  auto next = live_.upper_bound(static_cast<char*>(const_cast<void*>(at)));
  return next == live_.begin() ? nullptr : &std::prev(next)->second;
}

void Memory::open_only(int card, int second) {
  if (open_card_ == card && open_second_ == second) return;
  open_card_ = card;
  open_second_ = second;
  for (auto& [at, piece] : live_) set_open(piece, piece.card == card || piece.card == second);
}

void Memory::close() {
  if (live_.size() > CLOSED_TO_HOST) return;
  open_card_ = open_second_ = -1;
  for (auto& [at, piece] : live_) set_open(piece, false);
}

size_t Memory::allocated(int card) const {
  size_t sum = 0;
  for (auto& [number, bytes] : taken_)
    if (card < 0 || number == card) sum += bytes;
  return sum;
}

void* Memory::pin(size_t bytes) {
  size_t mapped = round_up(std::max<size_t>(bytes, 1), page_size());
  char* pages = take_addresses(mapped + 2 * page_size());
  if (!pages) return nullptr;
  pages += page_size();
  if (mprotect(pages, mapped, PROT_READ | PROT_WRITE)) return nullptr;
  std::memset(pages, PATTERN, std::min(mapped, FILLED));
  pinned_[pages] = bytes;
  return pages;
}

bool Memory::unpin(void* at) {
  auto found = pinned_.find(static_cast<char*>(at));
  if (found == pinned_.end()) return false;
  size_t mapped = round_up(std::max<size_t>(found->second, 1), page_size());
  mmap(at, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  pinned_.erase(found);
  return true;
}

const std::pair<char* const, size_t>* Memory::find_pinned(const void* at, size_t bytes) const {
  auto next = pinned_.upper_bound(static_cast<char*>(const_cast<void*>(at)));
  if (next == pinned_.begin()) return nullptr;
  auto& piece = *std::prev(next);
  size_t offset = static_cast<size_t>(static_cast<const char*>(at) - piece.first);
  return offset <= piece.second && bytes <= piece.second - offset ? &piece : nullptr;
}

std::string describe_address(const void* at) {
  char text[200];
  auto address = static_cast<const char*>(at);
  const Allocation* piece = memory().nearest(at);
  const Allocation* next = memory().nearest(address + page_size());
  if (piece && address < piece->at + piece->bytes && !piece->ready)
    snprintf(text, sizeof text, "memory whose allocation has not run on its stream yet (%zu bytes)",
             piece->bytes);
  else if (piece && address < piece->at + piece->bytes)
    snprintf(text, sizeof text, "memory of card %d (%zu bytes)", piece->card, piece->bytes);
  else if (piece && address < piece->pages + piece->mapped + page_size())
    snprintf(text, sizeof text, "an address %zu bytes behind the end of a buffer of %zu bytes",
             static_cast<size_t>(address - piece->at - piece->bytes), piece->bytes);
  else if (next && next->at > address)
    snprintf(text, sizeof text, "an address %zu bytes before a buffer of %zu bytes",
             static_cast<size_t>(next->at - address), next->bytes);
  else
    snprintf(text, sizeof text, "%p, which is in no buffer now", at);
  return text;
}

}  // namespace card
