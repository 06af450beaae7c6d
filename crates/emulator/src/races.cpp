// Races of kernels. The compiler calls `__tsan_read4` and its kin before each access of a kernel
// (`-fsanitize=thread`); they are ours here, and no library of the compiler's is linked.
//
// Two accesses of different threads, at least one of them a write, must be ordered: within a block by a
// barrier, or within a warp by warp calls (`known`: how much a lane has heard of another); between
// blocks of a launch by atomic operations or volatile accesses on the same address. Each 4 bytes of
// memory (each byte, once somebody touched only a part) remember their last write and some of their last
// reads in this launch, so what is reported is a race, and of many reads by several warps a race may be
// missed.
#include "races.hpp"

#ifdef CARD_RACES
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <unordered_map>
#include <vector>

#include "memory.hpp"
#include "scheduler.hpp"

namespace card::races {
namespace {

constexpr unsigned WARP = 32;
constexpr uintptr_t CELL = 4;
/// A record of nobody.
constexpr uint32_t NOBODY = ~0u;

/// Accesses of some lanes of one warp that happened at the same time of that warp.
struct Record {
  uint32_t block = NOBODY;
  /// Barriers of the block, and meetings of the warp, until then.
  uint32_t epoch = 0, stamp = 0;
  uint32_t warp = 0, lanes = 0;
  bool is_atomic = false;
};

/// What happened to some bytes.
struct Cell {
  Record write;
  /// The last of them holds the latest read that the others have no room for.
  Record reads[3];
  /// Its bytes have cells of their own.
  bool is_split = false;
};

/// What is known of another block by an atomic operation: all that came before a barrier of its, and
/// what some threads did after that.
struct Heard {
  uint32_t epoch = 0;
  std::vector<uint32_t> threads;

  void add(uint32_t other_epoch, const std::vector<uint32_t>& others) {
    if (other_epoch < epoch) return;
    if (other_epoch > epoch) threads.clear();
    epoch = other_epoch;
    for (uint32_t thread : others)
      if (!has(thread)) threads.push_back(thread);
  }
  bool has(uint32_t thread) const {
    return std::find(threads.begin(), threads.end(), thread) != threads.end();
  }
};
/// By block.
typedef std::unordered_map<uint32_t, Heard> News;

void spread(const News& from, News& to) {
  for (auto& [block, heard] : from) to[block].add(heard.epoch, heard.threads);
}

struct Watch {
  std::unordered_map<uintptr_t, Cell> cells, bytes;
  /// What those who touched an address by atomic operations had done before, or heard of.
  std::unordered_map<uintptr_t, News> told;
  News heard;
  uint32_t block = 0, epoch = 0, thread = 0;
  const char* stack = nullptr;
  size_t stack_bytes = 0;
  /// Where static shared memory is, and what dynamic shared memory this launch has: each block has its own.
  uintptr_t statics = 0, statics_end = 0, dynamic = 0, dynamic_end = 0;
  /// Of each warp: its meetings, and the stamp up to which a lane knows another's accesses.
  std::vector<uint32_t> stamps, known;

  uint32_t warp() const { return thread / WARP; }
  uint32_t lane() const { return thread % WARP; }
  uint32_t& of(uint32_t warp, uint32_t lane, uint32_t other) {
    return known[(warp * WARP + lane) * WARP + other];
  }
  bool is_shared(uintptr_t at) const {
    return (at >= statics && at < statics_end) || (at >= dynamic && at < dynamic_end);
  }
  bool is_ordered(const Record& before);
  void touch(uintptr_t at, size_t count, bool writes, bool is_atomic, const void* code);
  void look(Cell& cell, uintptr_t at, bool writes, bool is_atomic, const void* code);
  void note_read(Cell& cell, bool is_atomic);
  Record now(bool is_atomic) { return {block, epoch, stamps[warp()], warp(), 1u << lane(), is_atomic}; }
};

Watch watch;

/// Whether the thread that runs comes after all that a record stands for, or is all of it.
bool Watch::is_ordered(const Record& before) {
  if (before.block == NOBODY) return true;
  if (before.block != block) {
    auto news = heard.find(before.block);
    if (news == heard.end() || before.epoch > news->second.epoch) return false;
    if (before.epoch < news->second.epoch) return true;
    for (uint32_t lane = 0; lane < WARP; lane++)
      if (before.lanes >> lane & 1 && !news->second.has(before.warp * WARP + lane)) return false;
    return true;
  }
  if (before.epoch < epoch) return true;
  if (before.warp != warp()) return false;
  for (uint32_t other = 0; other < WARP; other++)
    if (before.lanes >> other & 1 && other != lane() && of(warp(), lane(), other) <= before.stamp)
      return false;
  return true;
}

[[noreturn]] void report(const Record& before, bool wrote, uintptr_t at, bool writes, const void* code) {
  char text[160];
  unsigned lane = static_cast<unsigned>(__builtin_ctz(before.lanes));
  std::string place = describe_address(reinterpret_cast<const char*>(at));
  snprintf(text, sizeof text, "race: %s by thread %u of block %u, then %s with %s between; %s (code at %p)",
           wrote ? "written" : "read", before.warp * WARP + lane, before.block, writes ? "written" : "read",
           before.block == watch.block ? "no barrier" : "no atomic operation", place.c_str(), code);
  trap(text);
}

void Watch::note_read(Cell& cell, bool is_atomic) {
  for (Record& read : cell.reads) {
    bool is_same_time = read.block == block && read.epoch == epoch && read.warp == warp() &&
                        read.stamp == stamps[warp()] && read.is_atomic == is_atomic;
    if (is_same_time) {
      read.lanes |= 1u << lane();
      return;
    }
    if (is_ordered(read)) {
      read = now(is_atomic);
      return;
    }
  }
  cell.reads[2] = now(is_atomic);
}

void Watch::look(Cell& cell, uintptr_t at, bool writes, bool is_atomic, const void* code) {
  auto races = [&](const Record& before) { return !(is_atomic && before.is_atomic) && !is_ordered(before); };
  if (races(cell.write)) report(cell.write, true, at, writes, code);
  if (!writes) return note_read(cell, is_atomic);
  for (Record& read : cell.reads)
    if (races(read)) report(read, false, at, writes, code);
  cell.write = now(is_atomic);
  for (Record& read : cell.reads) read = Record{};
}

void Watch::touch(uintptr_t at, size_t count, bool writes, bool is_atomic, const void* code) {
  auto place = reinterpret_cast<const char*>(at);
  if (place >= stack && place < stack + stack_bytes) return;
  // What another block did to its shared memory is no matter of this one.
  uintptr_t own = is_shared(at) ? uintptr_t{block + 1} << 48 : 0;
  for (uintptr_t end = at + count; at < end;) {
    uintptr_t first = at / CELL * CELL, next = std::min(first + CELL, end);
    Cell& cell = cells[first ^ own];
    bool is_whole = at == first && next == first + CELL;
    if (is_whole && !cell.is_split) {
      look(cell, at, writes, is_atomic, code);
    } else {
      if (!cell.is_split) {
        for (uintptr_t byte = first; byte < first + CELL; byte++) bytes[byte ^ own] = cell;
        cell.is_split = true;
      }
      for (uintptr_t byte = at; byte < next; byte++) look(bytes[byte ^ own], byte, writes, is_atomic, code);
    }
    at = next;
  }
}

/// The part of this library that kernels may write: their static shared memory.
int find_statics(dl_phdr_info* info, size_t, void*) {
  auto here = reinterpret_cast<uintptr_t>(&watch);
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const auto& part = info->dlpi_phdr[i];
    uintptr_t start = info->dlpi_addr + part.p_vaddr, end = start + part.p_memsz;
    if (part.p_type == PT_LOAD && part.p_flags & PF_W && here >= start && here < end) {
      watch.statics = start;
      watch.statics_end = end;
      return 1;
    }
  }
  return 0;
}

}  // namespace

void begin_launch(const char* dynamic, size_t bytes) {
  if (!watch.statics) dl_iterate_phdr(find_statics, nullptr);
  watch.dynamic = reinterpret_cast<uintptr_t>(dynamic);
  watch.dynamic_end = watch.dynamic + bytes;
  // Not cleared: that would take as long as the largest launch before.
  watch.cells = {};
  watch.bytes = {};
  watch.told = {};
}

void begin_block(uint64_t number, size_t threads) {
  size_t warps = (threads + WARP - 1) / WARP;
  watch.block = static_cast<uint32_t>(number);
  watch.epoch = 0;
  watch.heard.clear();
  watch.stamps.assign(warps, 1);
  watch.known.assign(warps * WARP * WARP, 0);
}

void resume(unsigned thread, const char* stack, size_t bytes) {
  watch.thread = thread;
  watch.stack = stack;
  watch.stack_bytes = bytes;
}

void meet_all() { watch.epoch++; }

void meet(unsigned warp, unsigned lanes) {
  uint32_t now = ++watch.stamps[warp];
  uint32_t all[WARP] = {};
  for (uint32_t lane = 0; lane < WARP; lane++)
    if (lanes >> lane & 1) {
      for (uint32_t other = 0; other < WARP; other++)
        all[other] = std::max(all[other], watch.of(warp, lane, other));
    }
  // Of who is here, everything until now is known.
  for (uint32_t lane = 0; lane < WARP; lane++)
    if (lanes >> lane & 1) all[lane] = now;
  for (uint32_t lane = 0; lane < WARP; lane++)
    if (lanes >> lane & 1) std::copy(all, all + WARP, &watch.of(warp, lane, 0));
}

void atomic(const void* at, size_t bytes) {
  auto place = reinterpret_cast<uintptr_t>(at);
  watch.touch(place, bytes, true, true, __builtin_return_address(0));
  News& told = watch.told[place];
  spread(told, watch.heard);
  spread(watch.heard, told);
  told[watch.block].add(watch.epoch, {watch.thread});
}

}  // namespace card::races

// What the compiler calls.
using card::races::atomic;
using card::races::watch;
#define HIDDEN extern "C" __attribute__((visibility("hidden"))) void
#define CODE __builtin_return_address(0)
#define ACCESS(size)                                                                                     \
  HIDDEN __tsan_read##size(void* at) { watch.touch(uintptr_t(at), size, false, false, CODE); }           \
  HIDDEN __tsan_write##size(void* at) { watch.touch(uintptr_t(at), size, true, false, CODE); }           \
  HIDDEN __tsan_unaligned_read##size(void* at) { watch.touch(uintptr_t(at), size, false, false, CODE); } \
  HIDDEN __tsan_unaligned_write##size(void* at) { watch.touch(uintptr_t(at), size, true, false, CODE); } \
  HIDDEN __tsan_volatile_read##size(void* at) { atomic(at, size); }                                      \
  HIDDEN __tsan_volatile_write##size(void* at) { atomic(at, size); }                                     \
  HIDDEN __tsan_unaligned_volatile_read##size(void* at) { atomic(at, size); }                            \
  HIDDEN __tsan_unaligned_volatile_write##size(void* at) { atomic(at, size); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
HIDDEN __tsan_read_range(void* at, size_t bytes) { watch.touch(uintptr_t(at), bytes, false, false, CODE); }
HIDDEN __tsan_write_range(void* at, size_t bytes) { watch.touch(uintptr_t(at), bytes, true, false, CODE); }
HIDDEN __tsan_init() {}
HIDDEN __tsan_func_entry(void*) {}
HIDDEN __tsan_func_exit() {}
HIDDEN __tsan_vptr_read(void**) {}
HIDDEN __tsan_vptr_update(void**, void*) {}
#endif
