// A hash table in the memory of a card: from any 64-bit key to a row of floats.
//
// The index is an array of groups of 64 bytes, which a card's memory gives at once: five keys and the numbers
// of their rows. A key stands in the first group that had room for it, from the one on that its hash names
// (linear probing). Slots of a group fill from the front and are never emptied, so a group whose last slot is
// empty ends a search. Rows are numbered in the order in which they are made, and lie apart, in blocks that
// never move.
//
// In a launch that makes rows, a key may be met whose number is not written yet. Nobody waits for it: who
// meets it takes down `LATER`, and the next launch looks again.
#pragma once
#include "tables.cuh"

FILE_OWN {

const int SLOTS = 5;
/// The key of an empty slot. A row of that key has a group of its own, behind all others.
const uint64_t NO_TABLE_KEY = ~0ull;
const uint32_t NO_NUMBER = ~0u, LATER = ~0u - 1;

struct alignas(64) Group {
  uint64_t keys[SLOTS];
  uint32_t numbers[SLOTS];
  uint32_t unused;
};

struct Index {
  Group* groups;
  /// Without the last one.
  uint64_t count;
};

/// Where rows lie: `1 << shift` of them in a block, `pitch` floats from one to the next.
struct Blocks {
  float* const* at;
  uint32_t shift, pitch;
};

INLINE float* row_at(const Blocks& blocks, uint32_t number) {
  return blocks.at[number >> blocks.shift] + (size_t)(number & ((1u << blocks.shift) - 1)) * blocks.pitch;
}

/// What a group held when it was looked at: all of it is asked for at once. Where rows are made, others may be writing
/// to it; a key or a number that is not there yet is met again (`LATER`).
struct Seen {
  uint64_t keys[SLOTS];
  uint32_t numbers[SLOTS];
};
UNORDERED Seen look(const Group* group) {
  const ulonglong2* at = (const ulonglong2*)group;
  ulonglong2 a = at[0], b = at[1], c = at[2], d = at[3];
  return Seen{{a.x, a.y, b.x, b.y, c.x},
              {(uint32_t)c.y, (uint32_t)(c.y >> 32), (uint32_t)d.x, (uint32_t)(d.x >> 32), (uint32_t)d.y}};
}

/// Whether a key is among those of a group, and the number of its row. By choosing, not by an index, which
/// would have all numbers written to memory first.
INLINE bool is_among(const Seen& seen, uint64_t key, uint32_t& number) {
  bool is_there = false;
  UNROLL for (int i = 0; i < SLOTS; i++) {
    bool is_it = seen.keys[i] == key;
    number = is_it ? seen.numbers[i] : number;
    is_there = is_there || is_it;
  }
  return is_there;
}

/// Spreads keys evenly (the finaliser of SplitMix64).
INLINE uint64_t spread(uint64_t key) {
  key += 0x9e3779b97f4a7c15ull;
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9ull;
  key = (key ^ (key >> 27)) * 0x94d049bb133111ebull;
  return key ^ (key >> 31);
}

/// The number of a key's row, or `NO_NUMBER`.
INLINE uint32_t find_number(const Index& index, uint64_t key) {
  if (key == NO_TABLE_KEY) return index.groups[index.count].numbers[0];
  uint64_t at = __umul64hi(spread(key), index.count);
  uint32_t number = NO_NUMBER;
  for (uint64_t tries = 0; tries < index.count; tries++) {
    Seen seen = look(index.groups + at);
    if (is_among(seen, key, number)) return number;
    if (seen.keys[SLOTS - 1] == NO_TABLE_KEY) break;
    if (++at == index.count) at = 0;
  }
  return NO_NUMBER;
}

/// The number of a key's row where it is known; else `LATER`, and `claimed` is where its number belongs if
/// this thread is the one to make the row. All threads try slots in one order, so a key is claimed once.
INLINE uint32_t claim(const Index& index, uint64_t key, uint32_t*& claimed) {
  claimed = nullptr;
  if (key == NO_TABLE_KEY) {
    Group* own = index.groups + index.count;
    uint32_t number = look(own).numbers[0];
    if (number != NO_NUMBER) return number;
    if (atomicCAS(&own->keys[0], NO_TABLE_KEY, 0ull) == NO_TABLE_KEY) claimed = &own->numbers[0];
    return LATER;
  }
  uint64_t at = __umul64hi(spread(key), index.count);
  uint32_t number = NO_NUMBER;
  for (uint64_t tries = 0; tries < index.count; tries++) {
    Group* group = index.groups + at;
    Seen seen = look(group);
    if (is_among(seen, key, number)) return number == NO_NUMBER ? LATER : number;
    UNROLL for (int i = 0; i < SLOTS; i++) {
      if (seen.keys[i] != NO_TABLE_KEY) continue;
      uint64_t before = atomicCAS(&group->keys[i], NO_TABLE_KEY, key);
      if (before == NO_TABLE_KEY) claimed = &group->numbers[i];
      if (before == NO_TABLE_KEY || before == key) return LATER;
    }
    if (++at == index.count) at = 0;
  }
  // The host keeps slots free, so this is not reached.
  return NO_NUMBER;
}

}  // own
