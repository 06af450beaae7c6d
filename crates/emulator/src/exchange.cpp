// NCCL's functions for emulated cards: ranks are threads of one process, or one thread with several cards, or each of
// them is a process of its own (`far.hpp`), which then computes its own part from what all have brought.
//
// A call is work of a stream. It is there when it has come to the front, and done when the calls of all ranks with the
// same number are there; until then its stream is blocked, as a card's is. Values are reduced in the order of ranks.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "driver.hpp"
#include "far.hpp"
#include "halves.hpp"

using namespace card;

namespace {

enum Result { OK = 0, CUDA_FAILED = 1, SYSTEM = 2, BAD_ARGUMENT = 4, BAD_USAGE = 5 };
enum Type { I8 = 0, U8 = 1, I32 = 2, U32 = 3, I64 = 4, U64 = 5, F16 = 6, F32 = 7, F64 = 8, BF16 = 9 };
enum How { SUM = 0, PROD = 1, MAX = 2, MIN = 3, MEAN = 4 };
enum Kind { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER };

struct Name {
  char bytes[128];
};

/// What a rank has brought to a call.
struct Posted {
  Kind kind;
  size_t count;
  int type, how, root, card;
  const char* from;
  char* to;
  bool done = false;
  Fault fault;
  /// Of a rank of another process: what it has brought.
  bool is_far = false;
  std::vector<char> data = {};
};

/// One half of a message between two ranks.
struct Half {
  char* at;
  size_t bytes;
  int card;
  bool done = false;
  Fault fault;
  /// Of a rank of another process: what it has sent.
  bool is_far = false;
  std::vector<char> data = {};
};

/// The ranks of a group.
struct World {
  int size;
  std::vector<bool> joined;
  std::vector<std::deque<std::shared_ptr<Posted>>> calls;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Half>>> sent, wanted;
  /// Ranks of other processes; the only one of this process then is `own`.
  std::map<int, std::unique_ptr<Link>> far;
  int own = 0;
};

struct Comm {
  std::shared_ptr<World> world;
  int rank, card;
  bool aborted = false;
};

std::map<std::string, std::shared_ptr<World>>& worlds() {
  static auto* all = new std::map<std::string, std::shared_ptr<World>>;
  return *all;
}

Table<Comm>& comms() {
  static auto* all = new Table<Comm>;
  return *all;
}

std::string& last_error() {
  static auto* text = new std::string;
  return *text;
}

size_t size_of(int type) {
  switch (type) {
    case I8: case U8: return 1;
    case F16: case BF16: return 2;
    case I32: case U32: case F32: return 4;
    case I64: case U64: case F64: return 8;
    default: return 0;
  }
}

template <typename T> T combine(T a, T b, int how) {
  switch (how) {
    case SUM: case MEAN: return static_cast<T>(a + b);
    case PROD: return static_cast<T>(a * b);
    case MAX: return std::max(a, b);
    default: return std::min(a, b);
  }
}

template <typename T> void fold_as(char* sum, const char* more, size_t count, int how) {
  for (size_t i = 0; i < count; i++) {
    T a, b;
    std::memcpy(&a, sum + i * sizeof(T), sizeof(T));
    std::memcpy(&b, more + i * sizeof(T), sizeof(T));
    a = combine(a, b, how);
    std::memcpy(sum + i * sizeof(T), &a, sizeof(T));
  }
}

/// Numbers of 16 bits become those of 32 and are rounded each time, as a card that adds them would.
float wide(uint16_t bits, int type) {
  return type == BF16 ? value<float>(uint32_t{bits} << 16) : float_from_half(bits);
}

uint16_t narrow(float x, int type) {
  return type == BF16 ? static_cast<uint16_t>(rounded_bits(x, 16) >> 16) : half_from_float(x);
}

void fold_halves(char* sum, const char* more, size_t count, int how, int type) {
  for (size_t i = 0; i < count; i++) {
    uint16_t a, b;
    std::memcpy(&a, sum + i * 2, 2);
    std::memcpy(&b, more + i * 2, 2);
    a = narrow(combine(wide(a, type), wide(b, type), how), type);
    std::memcpy(sum + i * 2, &a, 2);
  }
}

void fold(char* sum, const char* more, size_t count, int how, int type) {
  switch (type) {
    case I8: return fold_as<int8_t>(sum, more, count, how);
    case U8: return fold_as<uint8_t>(sum, more, count, how);
    case I32: return fold_as<int32_t>(sum, more, count, how);
    case U32: return fold_as<uint32_t>(sum, more, count, how);
    case I64: return fold_as<int64_t>(sum, more, count, how);
    case U64: return fold_as<uint64_t>(sum, more, count, how);
    case F32: return fold_as<float>(sum, more, count, how);
    case F64: return fold_as<double>(sum, more, count, how);
    default: return fold_halves(sum, more, count, how, type);
  }
}

template <typename T> void divide_as(char* sum, size_t count, size_t by) {
  for (size_t i = 0; i < count; i++) {
    T x;
    std::memcpy(&x, sum + i * sizeof(T), sizeof(T));
    x /= static_cast<T>(by);
    std::memcpy(sum + i * sizeof(T), &x, sizeof(T));
  }
}

void divide(char* sum, size_t count, size_t by, int type) {
  if (type == F32) return divide_as<float>(sum, count, by);
  if (type == F64) return divide_as<double>(sum, count, by);
  for (size_t i = 0; i < count; i++) {
    uint16_t x;
    std::memcpy(&x, sum + i * 2, 2);
    x = narrow(wide(x, type) / static_cast<float>(by), type);
    std::memcpy(sum + i * 2, &x, 2);
  }
}

bool is_float(int type) { return type == F16 || type == F32 || type == F64 || type == BF16; }

/// Copies between a card's memory and the host's.
Fault touch(int card, const void* at, size_t bytes, const std::function<void()>& copy) {
  if (!bytes) return {};
  const Allocation* piece = memory().find(at, bytes);
  if (!piece || !piece->ready)
    return {Fault::Address, "an exchange of " + std::to_string(bytes) + " bytes: access to " + describe_address(at)};
  memory().open_only(card, piece->card);
  return run_guarded(copy);
}

std::vector<char> taken(Posted& call, size_t bytes) {
  if (call.is_far) {
    call.data.resize(bytes);
    return call.data;
  }
  std::vector<char> data(bytes);
  call.fault = touch(call.card, call.from, bytes, [&] { std::memcpy(data.data(), call.from, bytes); });
  return data;
}

void give(Posted& call, const char* data, size_t bytes) {
  if (call.is_far) return;
  Fault fault = touch(call.card, call.to, bytes, [&] { std::memcpy(call.to, data, bytes); });
  if (call.fault.kind == Fault::None) call.fault = fault;
}

void run_together(const std::vector<std::shared_ptr<Posted>>& calls) {
  const Posted& first = *calls[0];
  size_t part = first.count * size_of(first.type), ranks = calls.size();
  size_t brought = first.kind == REDUCE_SCATTER ? part * ranks : part;
  std::vector<std::vector<char>> data;
  for (auto& call : calls) data.push_back(taken(*call, brought));
  std::vector<char> result;
  if (first.kind == ALL_GATHER) {
    for (auto& one : data) result.insert(result.end(), one.begin(), one.end());
  } else if (first.kind == BROADCAST) {
    result = data[static_cast<size_t>(first.root)];
  } else {
    result = data[0];
    for (size_t rank = 1; rank < ranks; rank++)
      fold(result.data(), data[rank].data(), brought / size_of(first.type), first.how, first.type);
    if (first.how == MEAN) divide(result.data(), brought / size_of(first.type), ranks, first.type);
  }
  for (size_t rank = 0; rank < ranks; rank++) {
    bool scattered = first.kind == REDUCE_SCATTER;
    bool gets = first.kind != REDUCE || rank == static_cast<size_t>(first.root);
    if (gets) give(*calls[rank], result.data() + (scattered ? rank * part : 0), scattered ? part : result.size());
    calls[rank]->done = true;
  }
}

/// The bytes that a rank brings to a call.
size_t brought_to(const World& world, const Posted& call) {
  size_t part = call.count * size_of(call.type);
  return call.kind == REDUCE_SCATTER ? part * static_cast<size_t>(world.size) : part;
}

/// Takes in what ranks of other processes have brought.
void take_in(World& world) {
  Head head;
  std::vector<char> data;
  for (auto& [rank, link] : world.far)
    while (link->receive(head, data)) {
      if (!head.is_call) {
        auto half = std::make_shared<Half>();
        half->bytes = data.size();
        half->is_far = true;
        half->data = data;
        world.sent[{rank, world.own}].push_back(half);
        continue;
      }
      auto posted = std::make_shared<Posted>();
      posted->kind = static_cast<Kind>(head.kind);
      posted->count = head.count;
      posted->type = head.type;
      posted->how = head.how;
      posted->root = head.root;
      posted->is_far = true;
      posted->data = data;
      world.calls[static_cast<size_t>(rank)].push_back(posted);
    }
}

/// Does what all ranks have come to.
void match(World& world) {
  take_in(world);
  auto is_there = [](auto& calls) { return !calls.empty(); };
  while (std::all_of(world.calls.begin(), world.calls.end(), is_there)) {
    std::vector<std::shared_ptr<Posted>> calls;
    for (auto& queue : world.calls) {
      calls.push_back(queue.front());
      queue.pop_front();
    }
    bool agree = std::all_of(calls.begin(), calls.end(), [&](auto& call) {
      const Posted& first = *calls[0];
      return call->kind == first.kind && call->count == first.count && call->type == first.type &&
             call->how == first.how && call->root == first.root;
    });
    if (agree) {
      run_together(calls);
      continue;
    }
    for (auto& call : calls) {
      call->fault = {Fault::Other, "the ranks of an exchange make different calls"};
      call->done = true;
    }
  }
  for (auto& [pair, sent] : world.sent) {
    auto& wanted = world.wanted[pair];
    while (!sent.empty() && !wanted.empty()) {
      auto from = sent.front(), to = wanted.front();
      sent.pop_front();
      wanted.pop_front();
      std::vector<char> data(from->bytes);
      if (from->is_far)
        data = from->data;
      else
        from->fault =
            touch(from->card, from->at, from->bytes, [&] { std::memcpy(data.data(), from->at, data.size()); });
      to->fault = from->bytes != to->bytes
                      ? Fault{Fault::Other, "a message has another size than is wanted"}
                      : touch(to->card, to->at, to->bytes, [&] { std::memcpy(to->at, data.data(), data.size()); });
      from->done = to->done = true;
    }
  }
}

/// A call as work of a stream, with what it posts when it has come to the front.
template <typename Post> int give_work(const std::shared_ptr<Comm>& comm, void* stream_handle, Post post) {
  auto stream = machine().streams.get(stream_handle);
  if (!stream || stream->closed || stream->card != comm->card) return BAD_ARGUMENT;
  // What is there of the run that is under way; a graph's work runs again and again.
  using Parts = decltype(post());
  auto parts = std::make_shared<Parts>();
  auto work = std::make_shared<Work>();
  work->name = "exchange";
  work->card = comm->card;
  work->ready = [=] {
    if (comm->aborted) return true;
    if (parts->empty()) *parts = post();
    match(*comm->world);
    return std::all_of(parts->begin(), parts->end(), [](auto& part) { return part->done; });
  };
  work->run = [=](Random&) -> Fault {
    Fault fault;
    for (auto& part : *parts)
      if (fault.kind == Fault::None && !comm->aborted) fault = part->fault;
    parts->clear();
    return fault;
  };
  return machine().submit(*stream, work) == SUCCESS ? OK : CUDA_FAILED;
}

int together(Kind kind, const void* from, void* to, size_t count, int type, int how, int root, void* comm_handle,
             void* stream) {
  Call call;
  if (call.code) return CUDA_FAILED;
  auto comm = comms().get(comm_handle);
  if (!comm || comm->aborted || !size_of(type) || how < 0 || how > MEAN) return BAD_ARGUMENT;
  if (how == MEAN && !is_float(type)) return BAD_ARGUMENT;
  if (root < 0 || root >= comm->world->size) return BAD_ARGUMENT;
  return give_work(comm, stream, [=] {
    auto posted = std::make_shared<Posted>();
    posted->kind = kind;
    posted->count = count;
    posted->type = type;
    posted->how = how;
    posted->root = root;
    posted->card = comm->card;
    posted->from = static_cast<const char*>(from);
    posted->to = static_cast<char*>(to);
    comm->world->calls[static_cast<size_t>(comm->rank)].push_back(posted);
    if (!comm->world->far.empty()) {
      auto data = taken(*posted, brought_to(*comm->world, *posted));
      Head head{1, kind, type, how, root, count, data.size()};
      for (auto& [rank, link] : comm->world->far) link->send(head, data);
    }
    return std::vector<std::shared_ptr<Posted>>{posted};
  });
}

/// A rank that meets the others, which come on threads of their own or in other processes. Who has the higher number
/// connects.
struct Meeting {
  std::string group;
  int size, rank;
  std::shared_ptr<World> world;
  int listener = -1, near = 0;
  std::map<int, int> far = {};

  ~Meeting() {
    if (listener >= 0) close(listener);
  }

  std::vector<bool> joined() {
    std::lock_guard<std::mutex> lock(machine().mutex);
    return world->joined;
  }

  /// Whether all are here; looks for those who are not.
  bool is_complete() {
    if (listener < 0) listener = listen_as(group, rank);
    auto here = joined();
    near = static_cast<int>(std::count(here.begin(), here.end(), true));
    for (int other = 0; other < rank && near < size; other++) {
      if (here[static_cast<size_t>(other)] || far.count(other)) continue;
      int socket = connect_to(group, other, rank);
      if (socket < 0) continue;
      // It may have come to this process in between.
      if (joined()[static_cast<size_t>(other)])
        close(socket);
      else
        far[other] = socket;
    }
    int other = -1;
    for (int socket; listener >= 0 && (socket = accept_from(listener, other)) >= 0;) {
      bool is_known = other <= rank || other >= size || far.count(other) || joined()[static_cast<size_t>(other)];
      if (is_known)
        close(socket);
      else
        far[other] = socket;
    }
    return near + static_cast<int>(far.size()) >= size;
  }
};

/// A message of the group of calls that a thread is about to make.
struct Message {
  std::shared_ptr<Comm> comm;
  void* stream;
  char* at;
  size_t bytes;
  int peer;
  bool is_sent;
};

struct Pending {
  int depth = 0;
  std::vector<Message> messages;
};

Pending& pending() {
  static thread_local Pending pending;
  return pending;
}

int flush(std::vector<Message> messages) {
  if (messages.empty()) return OK;
  auto comm = messages[0].comm;
  void* stream = messages[0].stream;
  for (auto& message : messages)
    if (message.comm != comm || message.stream != stream) return BAD_USAGE;
  return give_work(comm, stream, [=] {
    std::vector<std::shared_ptr<Half>> halves;
    for (auto& message : messages) {
      auto half = std::make_shared<Half>();
      half->at = message.at;
      half->bytes = message.bytes;
      half->card = comm->card;
      auto& queues = message.is_sent ? comm->world->sent : comm->world->wanted;
      auto link = comm->world->far.find(message.peer);
      if (message.is_sent && link != comm->world->far.end()) {
        std::vector<char> data(half->bytes);
        half->fault = touch(half->card, half->at, half->bytes, [&] { std::memcpy(data.data(), half->at, data.size()); });
        link->second->send(Head{0, 0, 0, 0, 0, 0, data.size()}, data);
        half->done = true;
        halves.push_back(half);
        continue;
      }
      int from = message.is_sent ? comm->rank : message.peer, to = message.is_sent ? message.peer : comm->rank;
      queues[{from, to}].push_back(half);
      halves.push_back(half);
    }
    return halves;
  });
}

int message(void* at, size_t count, int type, int peer, void* comm_handle, void* stream, bool is_sent) {
  Call call;
  if (call.code) return CUDA_FAILED;
  auto comm = comms().get(comm_handle);
  if (!comm || comm->aborted || !size_of(type) || peer < 0 || peer >= comm->world->size) return BAD_ARGUMENT;
  Message made{comm, stream, static_cast<char*>(at), count * size_of(type), peer, is_sent};
  if (!pending().depth) return flush({made});
  pending().messages.push_back(made);
  return OK;
}

}  // namespace

API int ncclGetVersion(int* version) {
  *version = 22700;
  return OK;
}

API const char* ncclGetErrorString(int code) {
  switch (code) {
    case OK: return "no error";
    case CUDA_FAILED: return "unhandled cuda error";
    case SYSTEM: return "unhandled system error";
    case BAD_ARGUMENT: return "invalid argument";
    case BAD_USAGE: return "invalid usage";
    default: return "internal error";
  }
}

API const char* ncclGetLastError(void*) { return last_error().c_str(); }

API int ncclGetUniqueId(Name* name) {
  std::lock_guard<std::mutex> lock(machine().mutex);
  std::memset(name, 0, sizeof *name);
  snprintf(name->bytes, sizeof name->bytes, "emulated %d %llu", static_cast<int>(getpid()),
           static_cast<unsigned long long>(next_handle()));
  return OK;
}

API int ncclCommInitRank(void** handle, int size, Name name, int rank) {
  name.bytes[sizeof name.bytes - 1] = 0;
  int card;
  std::shared_ptr<World> world;
  {
    Call call;
    if (call.code) return CUDA_FAILED;
    if (size < 1 || rank < 0 || rank >= size) return BAD_ARGUMENT;
    card = call.card;
    auto& found = worlds()[name.bytes];
    if (!found) {
      found = std::make_shared<World>();
      found->size = size;
      found->joined.resize(static_cast<size_t>(size));
      found->calls.resize(static_cast<size_t>(size));
    }
    world = found;
    if (world->size != size || world->joined[static_cast<size_t>(rank)]) return BAD_USAGE;
    world->joined[static_cast<size_t>(rank)] = true;
  }
  Meeting meeting{"bireme " + std::string(name.bytes), size, rank, world};
  // One that never comes is the caller's to notice.
  for (int looks = 0; looks < 60'000; looks++) {
    if (meeting.is_complete()) {
      std::lock_guard<std::mutex> lock(machine().mutex);
      worlds().erase(name.bytes);
      if (!meeting.far.empty() && meeting.near > 1) {
        last_error() = "emulated cards exchange within one process, or each rank is a process of its own";
        return SYSTEM;
      }
      for (auto& [other, socket] : meeting.far) world->far[other] = std::make_unique<Link>(socket);
      world->own = rank;
      auto comm = std::make_shared<Comm>();
      comm->world = world;
      comm->rank = rank;
      comm->card = card;
      *handle = comms().add(comm);
      return OK;
    }
    usleep(1000);
  }
  last_error() = "the other ranks did not come";
  return SYSTEM;
}

API int ncclCommAbort(void* handle) {
  std::lock_guard<std::mutex> lock(machine().mutex);
  auto comm = comms().get(handle);
  if (!comm) return BAD_ARGUMENT;
  comm->aborted = true;
  comms().remove(handle);
  return OK;
}

API int ncclCommDestroy(void* handle) {
  std::lock_guard<std::mutex> lock(machine().mutex);
  return comms().remove(handle) ? OK : BAD_ARGUMENT;
}

API int ncclCommGetAsyncError(void* handle, int* code) {
  std::lock_guard<std::mutex> lock(machine().mutex);
  *code = OK;
  return comms().get(handle) ? OK : BAD_ARGUMENT;
}

API int ncclAllReduce(const void* from, void* to, size_t count, int type, int how, void* comm, void* stream) {
  return together(ALL_REDUCE, from, to, count, type, how, 0, comm, stream);
}

API int ncclReduce(const void* from, void* to, size_t count, int type, int how, int root, void* comm, void* stream) {
  return together(REDUCE, from, to, count, type, how, root, comm, stream);
}

API int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, void* comm, void* stream) {
  return together(BROADCAST, from, to, count, type, 0, root, comm, stream);
}

API int ncclAllGather(const void* from, void* to, size_t count, int type, void* comm, void* stream) {
  return together(ALL_GATHER, from, to, count, type, 0, 0, comm, stream);
}

API int ncclReduceScatter(const void* from, void* to, size_t count, int type, int how, void* comm, void* stream) {
  return together(REDUCE_SCATTER, from, to, count, type, how, 0, comm, stream);
}

API int ncclSend(const void* from, size_t count, int type, int peer, void* comm, void* stream) {
  return message(const_cast<void*>(from), count, type, peer, comm, stream, true);
}

API int ncclRecv(void* to, size_t count, int type, int peer, void* comm, void* stream) {
  return message(to, count, type, peer, comm, stream, false);
}

API int ncclGroupStart() {
  pending().depth++;
  return OK;
}

API int ncclGroupEnd() {
  if (!pending().depth) return BAD_USAGE;
  if (--pending().depth) return OK;
  Call call;
  return call.code ? CUDA_FAILED : flush(std::move(pending().messages));
}
