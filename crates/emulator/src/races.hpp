// Finds accesses of two threads to the same memory that nothing orders: what compute-sanitizer's
// racecheck does for shared memory, here for all memory of a card. See races.cpp.
//
// Only a build with BIREME_CARD_RACES set has it; elsewhere the calls are empty.
#pragma once
#include <cstddef>
#include <cstdint>

namespace card::races {

#ifdef CARD_RACES
/// A kernel starts, with this dynamic shared memory: what ran before it is over.
void begin_launch(const char* dynamic, size_t bytes);
/// The next block of it, with so many threads.
void begin_block(uint64_t number, size_t threads);
/// A thread goes on, on this stack: its own memory is not watched.
void resume(unsigned thread, const char* stack, size_t bytes);
/// All threads of the block have met.
void meet_all();
/// These lanes of a warp have met.
void meet(unsigned warp, unsigned lanes);
/// The thread that runs changes or reads this by an atomic operation, which orders what came before.
void atomic(const void* at, size_t bytes);
#else
inline void begin_launch(const char*, size_t) {}
inline void begin_block(uint64_t, size_t) {}
inline void resume(unsigned, const char*, size_t) {}
inline void meet_all() {}
inline void meet(unsigned, unsigned) {}
#endif

}  // namespace card::races
