// What tests ask of the emulated machine: see lib.rs.
#include <algorithm>

#include "driver.hpp"

using namespace card;

namespace {
struct Locked {
  std::lock_guard<std::mutex> lock{machine().mutex};
};
}  // namespace

API void card_seed(uint64_t seed) {
  Locked locked;
  machine().random.state = seed;
}

API void card_fail_allocation(uint64_t number) {
  Locked locked;
  machine().allocation_to_fail = number;
}

API void card_fail_launch(uint64_t number) {
  Locked locked;
  machine().launch_to_fail = number;
}

API void card_lose() {
  Locked locked;
  machine().lost = true;
}

API void card_set_memory(uint64_t bytes) {
  Locked locked;
  memory().limit = bytes;
}

API void card_set_count(uint64_t count) {
  Locked locked;
  Machine& all = machine();
  all.card_count = static_cast<int>(std::min<uint64_t>(count, Machine::MAX_CARDS));
  for (int number = 0; number < all.card_count; number++) all.physical[number] = number;
}

API void card_set_driver_version(uint64_t version) {
  Locked locked;
  machine().driver_version = static_cast<int>(version);
}

API uint64_t card_allocated() {
  Locked locked;
  return memory().allocated(-1);
}

API uint64_t card_launches() {
  Locked locked;
  return machine().launches;
}

API uint64_t card_early_launches() {
  Locked locked;
  return machine().early_launches;
}

API uint64_t card_calls() {
  Locked locked;
  return machine().calls;
}

API uint64_t card_waits() {
  Locked locked;
  return machine().waits;
}

/// The words for the last fault, cut to the room that there is.
API void card_last_fault(char* out, size_t room) {
  Locked locked;
  snprintf(out, room, "%s", machine().last_fault.c_str());
}

API void card_set_quiet(uint64_t quiet) {
  Locked locked;
  machine().quiet = quiet != 0;
}

/// A machine as it was at first, with whatever contexts are still held.
API void card_reset() {
  Locked locked;
  Machine& all = machine();
  all.random.state = 0;
  all.allocation_to_fail = all.launch_to_fail = 0;
  all.lost = all.quiet = false;
  all.last_fault.clear();
  all.driver_version = 13000;
  all.look_around();
}
