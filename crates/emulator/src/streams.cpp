// Streams: work is queued and runs only when somebody waits for it.
//
// Work of streams that no event orders runs in an order drawn from the seed, and may not have run at
// all when another stream's has; so a wait that is missing in the program shows in its results.
// A replayed graph takes its nodes in any order that their dependencies allow.
#include "machine.hpp"

#include <unistd.h>

#include <algorithm>

namespace card {

Machine& machine() {
  static Machine* machine = new Machine;
  return *machine;
}

// ---- running ---------------------------------------------------------------------------------------------

namespace {

bool can_run(const Work& work) { return !work.ready || work.ready(); }

/// Nodes of a replay that could be next, by their places among those that wait for no other.
std::vector<size_t> runnable_nodes(const Task& task) {
  std::vector<size_t> places;
  for (size_t i = 0; i < task.ready.size(); i++)
    if (can_run(*task.graph->nodes[task.ready[i]].work)) places.push_back(i);
  return places;
}

bool is_blocked(const Stream& stream) {
  const Task& task = stream.tasks.front();
  switch (task.kind) {
    case Task::Wait: return !task.ticket->done;
    case Task::Run: return !can_run(*task.work);
    case Task::Replay: return task.left && runnable_nodes(task).empty();
    default: return false;
  }
}

}  // namespace

/// The stream whose next work brings this one on.
Stream* Machine::needed_for(Stream* stream) {
  // An event is recorded before anybody can wait for it, so this ends.
  while (is_blocked(*stream)) {
    if (stream->tasks.front().kind != Task::Wait) return nullptr;
    auto found = streams.objects.find(stream->tasks.front().ticket->stream);
    if (found == streams.objects.end() || found->second->tasks.empty()) {
      stream->tasks.front().ticket->done = true;
      break;
    }
    stream = found->second.get();
  }
  return stream;
}

Stream* Machine::any_runnable() {
  std::vector<Stream*> runnable;
  for (auto& [id, stream] : streams.objects)
    if (!stream->tasks.empty() && !is_blocked(*stream)) runnable.push_back(stream.get());
  // The order of a hash table must not decide.
  std::sort(runnable.begin(), runnable.end(), [](Stream* a, Stream* b) { return a->id < b->id; });
  return runnable.empty() ? nullptr : runnable[random.below(runnable.size())];
}

void Machine::run_until(const std::function<bool()>& done, const std::function<Stream*()>& next) {
  // Some waits do no more than they must, some do much of what others queued.
  uint64_t eagerness = random.below(3);
  while (!done()) {
    Stream* stream = random.below(2) < eagerness ? any_runnable() : nullptr;
    if (!stream) stream = needed_for(next());
    if (!stream) stream = any_runnable();
    if (stream)
      step(*stream);
    else
      let_others();
  }
  memory().close();
}

void Machine::let_others() {
  memory().close();
  // Whoever called holds the lock, and everything is looked at again afterwards.
  mutex.unlock();
  usleep(100);
  mutex.lock();
}

void Machine::run_stream(Stream& stream) {
  run_until([&] { return stream.tasks.empty(); }, [&] { return &stream; });
}

void Machine::run_ticket(Ticket& ticket) {
  run_until([&] { return ticket.done || !streams.objects.count(ticket.stream); },
            [&] { return streams.objects[ticket.stream].get(); });
}

void Machine::run_card(int card) {
  auto busy = [&]() -> Stream* {
    Stream* first = nullptr;
    for (auto& [id, stream] : streams.objects)
      if (stream->card == card && !stream->tasks.empty() && (!first || stream->id < first->id))
        first = stream.get();
    return first;
  };
  run_until([&] { return !busy(); }, busy);
}

void Machine::run_some() {
  for (uint64_t left = 1 + random.below(3); left; left--)
    if (Stream* stream = any_runnable()) step(*stream);
  memory().close();
}

/// Does the next piece of a stream's work.
void Machine::step(Stream& stream) {
  Task& task = stream.tasks.front();
  if (task.kind == Task::Run) {
    auto work = task.work;
    stream.tasks.pop_front();
    execute(*work);
  } else if (task.kind == Task::Replay && task.left) {
    auto places = runnable_nodes(task);
    if (places.empty()) return;
    size_t pick = places[random.below(places.size())], number = task.ready[pick];
    task.ready.erase(task.ready.begin() + static_cast<long>(pick));
    task.left--;
    auto graph = task.graph;
    for (size_t next : graph->nodes[number].before)
      if (--task.missing[next] == 0) task.ready.push_back(next);
    execute(*graph->nodes[number].work);
  } else {
    if (task.kind == Task::Record) {
      task.ticket->done = true;
      task.ticket->time = std::chrono::steady_clock::now();
    }
    stream.tasks.pop_front();
  }
  if (stream.closed && stream.tasks.empty()) streams.objects.erase(stream.id);
}

void Machine::execute(Work& work) {
  if (cards[work.card].error != SUCCESS) return;
  if (work.is_launch) {
    launches++;
    if (launch_to_fail && --launch_to_fail == 0)
      return fail(work.card, LAUNCH_FAILED, "`" + work.name + "`: told to fail");
  }
  memory().open_only(work.card, work.other);
  Fault fault = work.run(random);
  if (fault.kind == Fault::None) return;
  Code code = fault.kind == Fault::Address ? ILLEGAL_ADDRESS
              : fault.kind == Fault::Misaligned ? MISALIGNED_ADDRESS
                                                : LAUNCH_FAILED;
  fail(work.card, code, "`" + work.name + "`: " + fault.text);
}

void Machine::drop_tasks(Stream& stream) {
  for (Task& task : stream.tasks)
    if (task.kind == Task::Record) task.ticket->done = true;
  stream.tasks.clear();
}

void Machine::fail(int card, Code code, const std::string& why) {
  last_fault = why;
  if (!quiet) fprintf(stderr, "emulated card %d: %s\n", card, why.c_str());
  if (cards[card].error == SUCCESS) cards[card].error = code;
  for (auto& [id, stream] : streams.objects)
    if (stream->card == card) drop_tasks(*stream);
}

void Machine::forget_card(int card) {
  auto forget = [card](auto& table) {
    for (auto at = table.objects.begin(); at != table.objects.end();)
      at = at->second->card == card ? table.objects.erase(at) : std::next(at);
  };
  for (auto& [id, stream] : streams.objects)
    if (stream->card == card) drop_tasks(*stream);
  forget(streams);
  forget(events);
  forget(graphs);
  forget(modules);
  forget(functions);
  for (auto at = execs.objects.begin(); at != execs.objects.end();)
    at = at->second->graph->card == card ? execs.objects.erase(at) : std::next(at);
  memory().release_card(card);
  cards[card] = Card{};
}

// ---- giving work -----------------------------------------------------------------------------------------

Code Machine::submit(Stream& stream, std::shared_ptr<Work> work) {
  if (!stream.capture) {
    Task task{Task::Run, std::move(work), nullptr, nullptr, {}, {}, 0};
    stream.tasks.push_back(std::move(task));
    return SUCCESS;
  }
  if (stream.capture->invalid) return CAPTURE_INVALIDATED;
  auto& nodes = stream.capture->graph->nodes;
  for (size_t node : stream.tail) nodes[node].before.push_back(nodes.size());
  nodes.push_back({std::move(work), stream.tail, {}});
  stream.tail = {nodes.size() - 1};
  return SUCCESS;
}

void Machine::record(Stream& stream, std::shared_ptr<Ticket> ticket) {
  stream.tasks.push_back({Task::Record, nullptr, std::move(ticket), nullptr, {}, {}, 0});
}

Code Machine::replay(Stream& stream, Exec& exec) {
  // A graph in a graph would be a child node, which we never ask for.
  if (stream.capture) return CAPTURE_UNSUPPORTED;
  if (exec.last && !exec.last->done)
    stream.tasks.push_back({Task::Wait, nullptr, exec.last, nullptr, {}, {}, 0});
  Task task{Task::Replay, nullptr, nullptr, exec.graph, {}, {}, exec.graph->nodes.size()};
  for (auto& node : exec.graph->nodes) {
    if (node.after.empty()) task.ready.push_back(task.missing.size());
    task.missing.push_back(node.after.size());
  }
  stream.tasks.push_back(std::move(task));
  exec.last = std::make_shared<Ticket>();
  exec.last->stream = stream.id;
  record(stream, exec.last);
  return SUCCESS;
}

// ---- events and recordings -------------------------------------------------------------------------------

Code Machine::record_event(Stream& stream, Event& event) {
  event.capture = nullptr;
  if (stream.capture) {
    if (stream.capture->invalid) return CAPTURE_INVALIDATED;
    event.capture = stream.capture;
    event.tail = stream.tail;
    event.ticket = nullptr;
    return SUCCESS;
  }
  event.ticket = std::make_shared<Ticket>();
  event.ticket->stream = stream.id;
  record(stream, event.ticket);
  return SUCCESS;
}

Code Machine::wait_event(Stream& stream, Event& event) {
  if (stream.capture && stream.capture->invalid) return CAPTURE_INVALIDATED;
  if (event.capture && event.capture->invalid) return CAPTURED_EVENT;
  if (event.capture) {
    if (stream.capture && stream.capture != event.capture) return CAPTURE_MERGE;
    if (!stream.capture) {
      // A fork: this stream's work is recorded too, until the recording ends.
      stream.capture = event.capture;
      stream.tail = {};
    }
    auto& tail = stream.tail;
    for (size_t node : event.tail)
      if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
    return SUCCESS;
  }
  if (stream.capture) {
    stream.capture->invalid = true;
    return CAPTURE_ISOLATION;
  }
  if (event.ticket && !event.ticket->done)
    stream.tasks.push_back({Task::Wait, nullptr, event.ticket, nullptr, {}, {}, 0});
  return SUCCESS;
}

Code Machine::begin_capture(Stream& stream, int mode) {
  if (stream.capture || mode < 0 || mode > 2) return stream.capture ? CAPTURE_UNSUPPORTED : INVALID_VALUE;
  stream.capture = std::make_shared<Capture>();
  stream.capture->graph = std::make_shared<Graph>();
  stream.capture->graph->card = stream.card;
  stream.capture->origin = stream.id;
  stream.capture->mode = mode;
  stream.capture->thread = std::this_thread::get_id();
  stream.tail = {};
  return SUCCESS;
}

Code Machine::end_capture(Stream& stream, std::shared_ptr<Graph>* graph) {
  auto capture = stream.capture;
  if (!capture) return INVALID_VALUE;
  if (capture->origin != stream.id) return CAPTURE_UNMATCHED;
  if (capture->mode != 2 && capture->thread != std::this_thread::get_id()) return CAPTURE_WRONG_THREAD;
  auto& nodes = capture->graph->nodes;
  std::vector<bool> joined(nodes.size());
  for (size_t node : stream.tail) joined[node] = true;
  for (size_t i = nodes.size(); i-- > 0;)
    if (joined[i])
      for (size_t earlier : nodes[i].after) joined[earlier] = true;
  Code code = capture->invalid ? CAPTURE_INVALIDATED : SUCCESS;
  for (auto& [id, other] : streams.objects) {
    if (other->capture != capture) continue;
    for (size_t node : other->tail)
      if (!joined[node] && code == SUCCESS) code = CAPTURE_UNJOINED;
    other->capture = nullptr;
    other->tail = {};
  }
  capture->invalid = true;
  if (code == SUCCESS) *graph = capture->graph;
  return code;
}

Code Machine::check_capture() {
  for (auto& [id, stream] : streams.objects) {
    auto& capture = stream->capture;
    if (!capture || capture->mode == 2) continue;
    if (capture->mode == 1 && capture->thread != std::this_thread::get_id()) continue;
    capture->invalid = true;
    return CAPTURE_UNSUPPORTED;
  }
  return SUCCESS;
}

}  // namespace card
