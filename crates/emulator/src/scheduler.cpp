// Runs the blocks of a launch, one after another, on the host thread that waits for them.
//
// Every CUDA thread has a stack. It runs until it waits (barrier, warp call) or ends; stacks are used
// again at once, so a kernel without barriers needs only one. Anything wrong jumps out of the launch:
// nothing in a kernel has a destructor that would be missed.
#include "scheduler.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <mutex>

#include "coroutine.hpp"
#include "memory.hpp"
#include "races.hpp"

dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace card {
namespace {

constexpr size_t SHARED_LIMIT = 256 << 10;
constexpr unsigned WARP = 32;
/// How often in a row a thread may wait for others in a loop before nobody is expected to come.
constexpr unsigned PATIENCE = 1 << 16;

Entry*& entries() {
  static Entry* first = nullptr;
  return first;
}

// ---- a block ---------------------------------------------------------------------------------------------

enum class State : unsigned char { Ready, AtBarrier, AtWarpCall, Done };

struct Thread {
  State state = State::Ready;
  bool has_waited = false;
  int line = 0;
  void* stack_pointer = nullptr;
  char* stack = nullptr;
};

/// A call of some lanes of a warp that not all of them have reached yet.
struct Meeting {
  unsigned mask = 0, arrived = 0;
  uint64_t words[WARP];
};

/// The block that runs, and what is kept between blocks. There is one: launches take turns.
struct Runner {
  std::vector<Thread> threads;
  /// Meetings of each warp; two at once have no lane in common.
  std::vector<std::vector<Meeting>> meetings;
  /// What the last warp call gave each thread.
  std::vector<uint64_t> brought;
  std::vector<char*> stacks;
  std::vector<unsigned> warp_order;
  void* own_stack_pointer = nullptr;
  unsigned running = 0;
  int votes = 0, vote_result = 0;
  unsigned idle_rounds = 0;
  const Launch* launch = nullptr;
  void** args = nullptr;
  char* shared_end = nullptr;
  // What ends a launch.
  std::atomic<bool> active{false};
  pthread_t host;
  sigjmp_buf escape;
  Fault::Kind kind = Fault::None;
  char why[160];
  const char* address = nullptr;

  char* take_stack();
  void resume(unsigned number);
  void pause(State state);
  bool release();
  void run_warp(unsigned warp, bool upwards, bool* ran, bool* left);
  void run_block(dim3 block, Random& random);
  void fill_shared();
};

Runner runner;

void thread_main() {
  runner.launch->entry->run(runner.args);
  if (runner.launch->early && !runner.threads[runner.running].has_waited)
    trap("a thread of a kernel that was launched early did not wait for the kernel before it");
  runner.pause(State::Done);
}

char* Runner::take_stack() {
  if (!stacks.empty()) {
    char* stack = stacks.back();
    stacks.pop_back();
    return stack;
  }
  // The lowest page stays closed: a thread that needs more than its stack is told so.
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* base = mmap(nullptr, STACK + page_size(), PROT_NONE, flags, -1, 0);
  if (base == MAP_FAILED) trap("no memory for the stack of a thread");
  char* stack = static_cast<char*>(base) + page_size();
  if (mprotect(stack, STACK, PROT_READ | PROT_WRITE)) trap("no memory for the stack of a thread");
  return stack;
}

void Runner::pause(State state) {
  Thread& self = threads[running];
  self.state = state;
  card_switch(&self.stack_pointer, own_stack_pointer);
}

void Runner::resume(unsigned number) {
  Thread& thread = threads[number];
  running = number;
  if (number < blockDim.x)
    threadIdx = {number, 0, 0};
  else
    threadIdx = {number % blockDim.x, number / blockDim.x % blockDim.y, number / (blockDim.x * blockDim.y)};
  if (!thread.stack) {
    thread.stack = take_stack();
    thread.stack_pointer = prepare_stack(thread.stack, thread_main);
  }
  races::resume(number, thread.stack, STACK);
  card_switch(&own_stack_pointer, thread.stack_pointer);
  if (thread.state == State::Done) {
    stacks.push_back(thread.stack);
    thread.stack = nullptr;
  }
}

/// Lets go who has waited for the last one to come. False when nobody may go on.
bool Runner::release() {
  size_t waiting = 0, done = 0;
  for (Thread& thread : threads) {
    waiting += thread.state == State::AtBarrier;
    done += thread.state == State::Done;
  }
  if (waiting == 0 || waiting + done != threads.size()) return false;
  if (done) trap("some threads of a block have ended and others wait at a barrier");
  for (Thread& thread : threads) {
    if (thread.line != threads[0].line) trap("threads of a block wait at different barriers");
    thread.state = State::Ready;
  }
  vote_result = votes;
  votes = 0;
  races::meet_all();
  return true;
}

void Runner::run_warp(unsigned warp, bool upwards, bool* ran, bool* left) {
  unsigned first = warp * WARP, end = std::min<unsigned>(first + WARP, static_cast<unsigned>(threads.size()));
  for (unsigned step = 0; step < end - first; step++) {
    unsigned number = upwards ? first + step : end - 1 - step;
    if (threads[number].state == State::Ready) {
      resume(number);
      *ran = true;
    }
    *left |= threads[number].state != State::Done;
  }
}

/// Nothing may be assumed of shared memory when a block starts.
void Runner::fill_shared() {
  if (!launch->shared_bytes) return;
  if (!shared_end) {
    void* base = mmap(nullptr, SHARED_LIMIT + page_size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || mprotect(base, SHARED_LIMIT, PROT_READ | PROT_WRITE))
      trap("no memory for the shared memory of a block");
    shared_end = static_cast<char*>(base) + SHARED_LIMIT;
  }
  size_t used = (launch->shared_bytes + 15) / 16 * 16;
  std::memset(shared_end - used, 0xcb, used);
}

void Runner::run_block(dim3 block, Random& random) {
  blockIdx = block;
  size_t count = size_t{blockDim.x} * blockDim.y * blockDim.z;
  threads.assign(count, Thread{});
  size_t warps = (count + WARP - 1) / WARP;
  if (warp_order.size() != warps) {
    warp_order.resize(warps);
    for (unsigned i = 0; i < warps; i++) warp_order[i] = i;
    meetings.resize(warps);
    brought.resize(warps * WARP * WARP);
  }
  for (auto& open : meetings) open.clear();
  votes = 0;
  idle_rounds = 0;
  fill_shared();
  races::begin_block(block.x + uint64_t{gridDim.x} * (block.y + uint64_t{gridDim.y} * block.z), count);
  for (;;) {
    bool ran = false, left = false;
    random.shuffle(warp_order);
    bool upwards = random.next() & 1;
    for (unsigned warp : warp_order) run_warp(warp, upwards, &ran, &left);
    if (!left) return;
    if (!ran && !release()) trap("threads of a warp wait for others that do not come");
  }
}

// ---- faults ----------------------------------------------------------------------------------------------

struct sigaction previous[NSIG];

void on_fault(int signal, siginfo_t* info, void*) {
  if (!runner.active || !pthread_equal(runner.host, pthread_self())) {
    // Not a kernel: whoever cared for this signal before gets it when the instruction runs again.
    sigaction(signal, &previous[signal], nullptr);
    return;
  }
  runner.address = static_cast<const char*>(info->si_addr);
  runner.kind = Fault::Address;
  bool is_page_fault = signal == SIGSEGV && info->si_code != SI_KERNEL;
  if (!is_page_fault) runner.kind = Fault::Misaligned;
  if (signal == SIGFPE) {
    runner.kind = Fault::Other;
    std::strcpy(runner.why, "division of a whole number by zero");
  }
  siglongjmp(runner.escape, 1);
}

void catch_faults() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    // The compiler turns a misaligned access into an illegal instruction.
    for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE})
      sigaction(signal, &action, &previous[signal]);
  });
}

std::string explain() {
  switch (runner.kind) {
    case Fault::Misaligned: return "access to an address that is not a multiple of the element's size";
    case Fault::Address: {
      for (Thread& thread : runner.threads)
        if (thread.stack && runner.address < thread.stack && runner.address >= thread.stack - page_size())
          return "a thread needs more than its stack of 64 KB";
      return "access to " + describe_address(runner.address);
    }
    default: return runner.why;
  }
}

}  // namespace

Fault run_guarded(const std::function<void()>& body) {
  catch_faults();
  // On a stack of its own a fault can be told even in a coroutine whose stack is used up.
  static char fault_stack[64 << 10];
  stack_t alternate = {}, before = {};
  alternate.ss_sp = fault_stack;
  alternate.ss_size = sizeof fault_stack;
  sigaltstack(&alternate, &before);
  runner.kind = Fault::None;
  runner.host = pthread_self();
  runner.active = true;
  if (sigsetjmp(runner.escape, 1) == 0) body();
  runner.active = false;
  sigaltstack(&before, nullptr);
  Fault fault;
  fault.kind = runner.kind;
  if (fault.kind != Fault::None) fault.text = explain();
  for (Thread& thread : runner.threads)
    if (thread.stack) runner.stacks.push_back(thread.stack), thread.stack = nullptr;
  return fault;
}

Fault run_kernel(Launch& launch, Random& random) {
  std::vector<void*> args;
  for (auto& bytes : launch.args) args.push_back(bytes.data());
  uint64_t count = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  std::vector<uint64_t> blocks(count);
  for (uint64_t i = 0; i < count; i++) blocks[i] = i;
  random.shuffle(blocks);
  gridDim = launch.grid;
  blockDim = launch.block;
  runner.launch = &launch;
  runner.args = args.data();
  Fault fault = run_guarded([&] {
    runner.fill_shared();
    races::begin_launch(runner.shared_end ? runner.shared_end - SHARED_LIMIT : nullptr, SHARED_LIMIT);
    for (uint64_t i : blocks) {
      unsigned x = static_cast<unsigned>(i % gridDim.x), y = static_cast<unsigned>(i / gridDim.x % gridDim.y);
      runner.run_block({x, y, static_cast<unsigned>(i / gridDim.x / gridDim.y)}, random);
    }
  });
  if (fault.kind != Fault::None) {
    char place[96];
    snprintf(place, sizeof place, "block (%u, %u, %u), thread %u: ", blockIdx.x, blockIdx.y, blockIdx.z,
             runner.running);
    fault.text = place + fault.text;
  }
  return fault;
}

uint64_t Random::next() {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

const Entry* find_kernel(const char* name) {
  for (Entry* entry = entries(); entry; entry = entry->next)
    if (std::strcmp(entry->name, name) == 0) return entry;
  return nullptr;
}

// ---- what kernels call -----------------------------------------------------------------------------------

Entry::Entry(const char* name, void (*run)(void**), const size_t* sizes)
    : name(name), run(run), sizes(sizes), next(entries()) {
  entries() = this;
}

unsigned lane() { return runner.running % WARP; }

void wait_for_earlier() { runner.threads[runner.running].has_waited = true; }

void* dynamic_shared() {
  size_t used = (runner.launch->shared_bytes + 15) / 16 * 16;
  if (!used) trap("the launch gave no dynamic shared memory");
  return runner.shared_end - used;
}

int barrier(int line, int predicate) {
  runner.votes += predicate != 0;
  runner.idle_rounds = 0;
  runner.threads[runner.running].line = line;
  runner.pause(State::AtBarrier);
  return runner.vote_result;
}

void give_way() {
  if (++runner.idle_rounds > PATIENCE * runner.threads.size())
    trap("a thread waits in a loop for what does not come: blocks do not run side by side");
  runner.pause(State::Ready);
}

Brought meet(unsigned mask, uint64_t word) {
  unsigned self = lane(), warp = runner.running / WARP, first = warp * WARP;
  unsigned here = static_cast<unsigned>(runner.threads.size()) - first;
  unsigned present = here >= WARP ? ~0u : (1u << here) - 1;
  if (!(mask >> self & 1)) trap("a lane takes part in a warp call that does not name it");
  if (mask != ~0u && mask & ~present) trap("a warp call names lanes that do not exist");
  unsigned wanted = mask & present;
  auto& open = runner.meetings[warp];
  size_t at = 0;
  while (at < open.size() && open[at].mask != wanted) {
    if (open[at].mask & wanted) trap("lanes of a warp call name different partners");
    at++;
  }
  if (at == open.size()) {
    open.push_back({});
    open[at].mask = wanted;
    std::memset(open[at].words, 0xcb, sizeof open[at].words);
  }
  open[at].words[self] = word;
  open[at].arrived |= 1u << self;
  runner.idle_rounds = 0;
  if (open[at].arrived == wanted) {
    // Each lane has a copy: it may read it after others have met again.
    for (unsigned i = 0; i < WARP; i++)
      if (wanted >> i & 1) {
        std::memcpy(&runner.brought[(first + i) * WARP], open[at].words, sizeof open[at].words);
        runner.threads[first + i].state = State::Ready;
      }
    open.erase(open.begin() + static_cast<long>(at));
    races::meet(warp, wanted);
  } else {
    runner.pause(State::AtWarpCall);
  }
  return {&runner.brought[(first + self) * WARP], wanted};
}

void trap(const char* why) {
  runner.kind = Fault::Other;
  snprintf(runner.why, sizeof runner.why, "%s", why);
  siglongjmp(runner.escape, 1);
}

}  // namespace card
