// The machine with its cards: streams, events, captures and what tests ask of it. See streams.cpp.
#pragma once
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "memory.hpp"

namespace card {

/// The error codes of the driver that are used here.
enum Code : int {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NOT_INITIALIZED = 3,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_CONTEXT = 201,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  NOT_READY = 600,
  ILLEGAL_ADDRESS = 700,
  LAUNCH_OUT_OF_RESOURCES = 701,
  MISALIGNED_ADDRESS = 716,
  LAUNCH_FAILED = 719,
  NOT_SUPPORTED = 801,
  CAPTURE_UNSUPPORTED = 900,
  CAPTURE_INVALIDATED = 901,
  CAPTURE_MERGE = 902,
  CAPTURE_UNMATCHED = 903,
  CAPTURE_UNJOINED = 904,
  CAPTURE_ISOLATION = 905,
  CAPTURED_EVENT = 907,
  CAPTURE_WRONG_THREAD = 908,
  // What programs see of a card that fell off the bus.
  UNKNOWN = 999,
};

/// Work for a card. It may run many times, from a graph.
struct Work {
  /// The kernel, or what it is.
  std::string name;
  int card;
  /// A second card whose memory it touches, or -1.
  int other = -1;
  bool is_launch = false;
  std::function<Fault(Random&)> run;
  /// Whether it can run, for work that waits for other cards; it is there from the first time this is asked.
  std::function<bool()> ready = nullptr;
};

/// A point in a stream's work that others wait for.
struct Ticket {
  uint64_t stream;
  bool done = false;
  std::chrono::steady_clock::time_point time;
};

/// Work of a graph, the nodes that it follows and those that follow it.
struct Node {
  std::shared_ptr<Work> work;
  std::vector<size_t> after, before;
};

struct Graph {
  int card;
  std::vector<Node> nodes;
};

struct Task {
  enum Kind { Run, Record, Wait, Replay } kind;
  std::shared_ptr<Work> work;
  std::shared_ptr<Ticket> ticket;
  // Of a replay: its nodes, how many each one still waits for, and who waits for nobody.
  std::shared_ptr<const Graph> graph;
  std::vector<size_t> missing, ready;
  size_t left = 0;
};

/// A recording of one or several streams. Work of a stream follows the nodes of its tail.
struct Capture {
  std::shared_ptr<Graph> graph;
  uint64_t origin;
  int mode;
  std::thread::id thread;
  bool invalid = false;
};

struct Stream {
  uint64_t id;
  int card;
  /// Destroyed by its owner; its work is still done.
  bool closed = false;
  std::deque<Task> tasks;
  std::shared_ptr<Capture> capture;
  std::vector<size_t> tail;
};

struct Event {
  int card;
  bool timing;
  std::shared_ptr<Ticket> ticket;
  // Of one that was last recorded in a capture.
  std::shared_ptr<Capture> capture;
  std::vector<size_t> tail;
};

struct Exec {
  std::shared_ptr<const Graph> graph;
  /// The end of its last replay: the next one follows it, on whatever stream.
  std::shared_ptr<Ticket> last;
};

struct Module {
  int card;
};

struct Function {
  uint64_t module;
  int card;
  const Entry* entry;
  int dynamic_shared = 48 << 10;
};

struct Card {
  /// How often its context is held.
  int retained = 0;
  /// The error that ended its context, which every call then gives.
  Code error = SUCCESS;
};

/// A number that no handle has had. The machine's lock is held.
inline uint64_t next_handle() {
  static uint64_t last = 0x1000;
  return last += 16;
}

/// Objects by handle. A handle is never used again, so a stale one, or one of another kind, is known.
template <typename T> class Table {
 public:
  void* add(std::shared_ptr<T> object) {
    uint64_t handle = next_handle();
    objects[handle] = std::move(object);
    return reinterpret_cast<void*>(handle);
  }
  std::shared_ptr<T> get(const void* handle) const {
    auto found = objects.find(reinterpret_cast<uint64_t>(handle));
    return found == objects.end() ? nullptr : found->second;
  }
  bool remove(const void* handle) { return objects.erase(reinterpret_cast<uint64_t>(handle)) != 0; }
  std::unordered_map<uint64_t, std::shared_ptr<T>> objects;
};

struct Machine {
  static constexpr int MAX_CARDS = 16;

  std::mutex mutex;
  bool initialized = false, lost = false;
  int card_count = 2, driver_version = 13000;
  Card cards[MAX_CARDS];
  Random random;
  /// Counted down to the one that fails; 0 when none shall.
  uint64_t allocation_to_fail = 0, launch_to_fail = 0;
  uint64_t launches = 0;
  /// Calls of the driver, and those of them that waited for a card.
  uint64_t calls = 0, waits = 0;
  /// What went wrong last, in words; it is also printed, unless it was meant to.
  std::string last_fault;
  bool quiet = false;

  Table<Stream> streams;
  Table<Event> events;
  Table<Graph> graphs;
  Table<Exec> execs;
  Table<Module> modules;
  Table<Function> functions;

  /// Gives work to a stream, or to the graph that is recorded there.
  Code submit(Stream& stream, std::shared_ptr<Work> work);
  void record(Stream& stream, std::shared_ptr<Ticket> ticket);
  Code replay(Stream& stream, Exec& exec);

  /// Runs work until this has come, in an order drawn from the seed.
  void run_stream(Stream& stream);
  void run_ticket(Ticket& ticket);
  void run_card(int card);
  /// A little of the work of anybody, for somebody who asks again and again.
  void run_some();

  Code record_event(Stream& stream, Event& event);
  Code wait_event(Stream& stream, Event& event);
  Code begin_capture(Stream& stream, int mode);
  Code end_capture(Stream& stream, std::shared_ptr<Graph>* graph);
  /// Fails calls that a recording in progress forbids this thread, and spoils the recording.
  Code check_capture();

  /// Ends the context of a card: what waits there is dropped.
  void fail(int card, Code code, const std::string& why);
  /// Frees all that belongs to a card.
  void forget_card(int card);

 private:
  /// Null when it waits for the work of another card that nobody has given yet.
  Stream* needed_for(Stream* stream);
  Stream* any_runnable();
  void run_until(const std::function<bool()>& done, const std::function<Stream*()>& next);
  /// Lets other threads give work for a moment.
  void let_others();
  void step(Stream& stream);
  void execute(Work& work);
  void drop_tasks(Stream& stream);
};

Machine& machine();

}  // namespace card
