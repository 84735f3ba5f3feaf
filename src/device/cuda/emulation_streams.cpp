#include "device/cuda/emulation_streams.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "base/error.h"

namespace plimsoll::cuda::emulation {
namespace {

struct EmulatedStream;

// A record of an event: its place in a stream, and true if the stream has reached it.
struct Mark {
  EmulatedStream* stream = nullptr;
  bool passed = false;
};

struct EmulatedEvent {
  std::shared_ptr<Mark> latest;
};

// Work or, with an event, its record or a wait. A wait is for the event's latest record at the time of the call.
struct Step {
  std::function<void()> work;
  EmulatedEvent* event = nullptr;
  bool records = false;
  std::shared_ptr<Mark> mark;
};

struct EmulatedStream {
  std::deque<Step> steps;
};

struct EmulatedGraph {
  std::vector<std::pair<EmulatedStream*, Step>> steps;
  // During a capture, for each participating stream and each recorded event: the number of steps of other streams that precede
  // it.
  std::map<EmulatedStream*, std::map<EmulatedStream*, std::size_t>> known;
  std::map<EmulatedEvent*, std::map<EmulatedStream*, std::size_t>> recorded;
  std::map<EmulatedStream*, std::size_t> given;
};

// Adds a step: a stream comes after its own steps and after the records that it has waited for.
void take_in(EmulatedGraph& graph, EmulatedStream& stream, const Step& step) {
  if (step.event != nullptr && !step.records) {
    const auto recorded = graph.recorded.find(step.event);
    ensure(recorded != graph.recorded.end(), "emulation", "a graph waits for what was recorded before it");
    for (const auto& [other, steps] : recorded->second) {
      std::size_t& most = graph.known[&stream][other];
      most = std::max(most, steps);
    }
  }
  const auto known = graph.known.find(&stream);
  ensure(known != graph.known.end(), "emulation", "a graph is given work of a stream that takes no part in it");
  known->second[&stream] = ++graph.given[&stream];
  if (step.event != nullptr && step.records) graph.recorded[step.event] = known->second;
}

// Checks that the origin comes after all work. A record without a wait is no work.
void check_joined(EmulatedGraph& graph, EmulatedStream& origin) {
  std::map<EmulatedStream*, std::size_t> last;  // work of each
  std::map<EmulatedStream*, std::size_t> at;
  for (const auto& [stream, step] : graph.steps) {
    ++at[stream];
    if (step.event == nullptr) last[stream] = at[stream];
  }
  for (const auto& [stream, steps] : last) {
    ensure(graph.known[&origin][stream] >= steps, "emulation", "a graph ends while a stream has not come back");
  }
}

std::recursive_mutex mutex;  // guards all below, and the running kernels
std::vector<EmulatedStream*> streams;
thread_local EmulatedGraph* capturing = nullptr;
Captures captures;
std::mt19937_64 draws;
bool draws_order = false;

void run_until(const std::shared_ptr<Mark>& mark);

void run_next(EmulatedStream& stream) {
  ensure(!stream.steps.empty(), "emulation", "a stream that nothing is left on is waited for");
  const Step step = std::move(stream.steps.front());
  stream.steps.pop_front();
  if (step.event == nullptr) return step.work();
  if (!step.records) return run_until(step.mark);
  step.mark->passed = true;
}

void run_until(const std::shared_ptr<Mark>& mark) {
  while (mark != nullptr && !mark->passed) run_next(*mark->stream);
}

void run_some() {
  if (!draws_order) return;
  for (std::uint64_t steps = draws() % 8; steps > 0 && !streams.empty(); --steps) {
    EmulatedStream& stream = *streams[draws() % streams.size()];
    if (!stream.steps.empty()) run_next(stream);
  }
}

// The record of a wait is fixed when the stream gets the wait.
void give(EmulatedStream& stream, Step step) {
  const std::lock_guard lock(mutex);
  if (capturing != nullptr) {
    take_in(*capturing, stream, step);
    capturing->steps.emplace_back(&stream, std::move(step));
    return;
  }
  if (step.event != nullptr && step.records) step.event->latest = std::make_shared<Mark>(Mark{&stream});
  if (step.event != nullptr) step.mark = step.event->latest;
  stream.steps.push_back(std::move(step));
  run_some();
}

void not_while_capturing() { ensure(capturing == nullptr, "emulation", "the host waits while a graph is captured"); }

}  // namespace

void draw_order(std::uint64_t seed) {
  draws.seed(seed);
  draws_order = seed != 0;
}

void* make_stream() {
  const std::lock_guard lock(mutex);
  return streams.emplace_back(new EmulatedStream);
}
void* make_event() { return new EmulatedEvent; }

void destroy_stream(void* stream) {
  const std::lock_guard lock(mutex);
  synchronize(stream);
  std::erase(streams, static_cast<EmulatedStream*>(stream));
  delete static_cast<EmulatedStream*>(stream);
}
void destroy_event(void* event) { delete static_cast<EmulatedEvent*>(event); }

void submit(void* stream, std::function<void()> work) {
  if (stream == nullptr) return work();
  give(*static_cast<EmulatedStream*>(stream), {std::move(work)});
}
void record(void* event, void* stream) {
  give(*static_cast<EmulatedStream*>(stream), {{}, static_cast<EmulatedEvent*>(event), true});
}
void wait(void* stream, void* event) {
  give(*static_cast<EmulatedStream*>(stream), {{}, static_cast<EmulatedEvent*>(event), false});
}

void wait_on_host(void* event) {
  not_while_capturing();
  const std::lock_guard lock(mutex);
  run_until(static_cast<EmulatedEvent*>(event)->latest);
}

void synchronize(void* stream) {
  not_while_capturing();
  const std::lock_guard lock(mutex);
  auto& all = *static_cast<EmulatedStream*>(stream);
  while (!all.steps.empty()) run_next(all);
}

void synchronize_all() {
  const std::lock_guard lock(mutex);
  for (EmulatedStream* stream : streams) synchronize(stream);
}

void* capture(void* origin, const std::function<void()>& work) {
  not_while_capturing();
  auto& begins = *static_cast<EmulatedStream*>(origin);
  auto graph = std::make_unique<EmulatedGraph>();
  graph->known[&begins] = {};
  capturing = graph.get();
  try {
    work();
  } catch (...) {
    capturing = nullptr;
    throw;
  }
  capturing = nullptr;
  check_joined(*graph, begins);
  ++captures.graphs;
  captures.work += static_cast<std::size_t>(
      std::ranges::count_if(graph->steps, [](const auto& each) { return each.second.event == nullptr; }));
  return graph.release();
}
std::size_t captured(void* graph) { return static_cast<EmulatedGraph*>(graph)->steps.size(); }
Captures all_captures() { return captures; }
void launch(void* graph) {
  for (const auto& [stream, step] : static_cast<EmulatedGraph*>(graph)->steps) give(*stream, step);
}
void destroy_graph(void* graph) { delete static_cast<EmulatedGraph*>(graph); }

}  // namespace plimsoll::cuda::emulation
