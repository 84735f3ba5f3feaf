#include "run/executor.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/visit.h"
#include "plan/node_kernels.h"
#include "plan/timeline.h"

namespace plimsoll {

// The kernel of one instruction with its addresses; empty for instructions without one.
struct Executor::Bound {
  const Kernel* add = nullptr;
  const Kernel* write = nullptr;
  const Kernel* keep = nullptr;  // at a window's start, if gradients are kept
  std::vector<std::byte*> inputs, outputs;
  std::byte* scratch = nullptr;
  std::vector<Peers::Send> sends;
  std::vector<Peers::Receive> receives;
};

struct Executor::Cache {
  struct Entry {
    const Kernel* kernel = nullptr;
    Bytes scratch;  // the kernel's own demand
  };
  std::map<std::string, Entry> by_key;
};

Executor::Executor(const Graph& graph, const Program& program, Device& device, int threads, int loss_chunks, Peers* peers)
    : graph_(graph),
      program_(program),
      device_(device),
      peers_(peers),
      threads_(threads),
      loss_chunks_(loss_chunks),
      shared_(graph, program, device, peers, spare_event()),
      cache_(std::make_unique<Cache>()) {
  std::size_t segments = 0;
  for (const Section section : graph_.sections()) {
    const std::vector<Instruction>& instructions = program_.of(section);
    sections_.push_back({bind(instructions), segments_of(instructions), segments});
    segments += sections_.back().segments.size();
  }
  cache_.reset();
  device_.prepare([&] { prepare(); });
}

Executor::~Executor() = default;

// Equal nodes share one kernel and differ in addresses. The planned scratch is compared with the kernel's own demand: a library
// need not write all of its scratch, so a sentinel would miss one that is too small.
const Kernel* Executor::kernel_for(const RunKernel& run, bool overwrite) {
  const Node& node = graph_.nodes[run.node];
  const NodeRequest asked = request_for(graph_, node, threads_, loss_chunks_, overwrite);
  const KernelRequest& request = asked.request;
  const auto [place, fresh] = cache_->by_key.emplace(kernel_key(request), Cache::Entry{});
  Cache::Entry& entry = place->second;
  if (fresh) {
    Device::BoundKernel bound = device_.bind(request);
    kernels_.push_back(std::move(bound.kernel));
    entry.kernel = kernels_.back().get();
    entry.scratch = bound.scratch;
    std::string algorithm = entry.kernel == nullptr ? std::string() : entry.kernel->algorithm();
    if (!algorithm.empty()) algorithms_.emplace(algorithm_key(request), std::move(algorithm));
  }
  if (run.scratch.bytes < entry.scratch) {
    throw internal_error("executor", fmt::format("{} ({}) needs {} bytes of scratch and was given {}", node.line.text(),
                                                 node.op->name, entry.scratch.n, run.scratch.bytes.n));
  }
  return entry.kernel;
}

// False for nodes whose outputs are indices: these must begin anew with each window.
static bool gives_numbers(const Graph& graph, const Node& node) {
  return std::ranges::any_of(node.outputs, [&](ValueId output) { return is_float(graph.values[output].type.dtype); });
}

std::vector<Executor::Bound> Executor::bind(const std::vector<Instruction>& section) {
  std::vector<Bound> bound(section.size());
  const auto address = [&](const Operand& operand) { return device_.address(operand); };
  const auto memory = [&](const Operand& operand) {
    return std::span(address(operand), static_cast<std::size_t>(operand.bytes.n));
  };
  for (std::size_t i = 0; i < section.size(); ++i) {
    if (const auto* exchange = std::get_if<StartExchange>(&section[i])) {
      ensure(peers_ != nullptr || !device_.on_host(), "executor", "a program that exchanges with other ranks and none of them");
      for (const auto& part : exchange->sends) bound[i].sends.push_back({part.rank, memory(part.memory)});
      for (const auto& part : exchange->receives) bound[i].receives.push_back({part.rank, memory(part.memory)});
    }
    const auto* run = std::get_if<RunKernel>(&section[i]);
    if (run == nullptr) continue;
    const Node& node = graph_.nodes[run->node];
    // With one micro-step per window the adding kernel never runs.
    const bool always_starts = run->starts_round || (program_.rounds == 1 && node.section == Section::micro);
    bound[i].write = kernel_for(*run, run->starts_window);
    bound[i].add = run->starts_window && !always_starts ? kernel_for(*run, false) : bound[i].write;
    bound[i].keep = gives_numbers(graph_, node) ? bound[i].add : bound[i].write;
    for (const Operand& operand : run->inputs) bound[i].inputs.push_back(address(operand));
    for (const Operand& operand : run->outputs) bound[i].outputs.push_back(address(operand));
    bound[i].scratch = address(run->scratch);
  }
  return bound;
}

// True for the copy of an accumulator into tier 0: the first micro-step of a window only writes it and skips the copy.
static bool copies_what_is_written(const Instruction& instruction) {
  const auto* start = std::get_if<StartCopy>(&instruction);
  const auto* wait = std::get_if<WaitCopy>(&instruction);
  return (start != nullptr && start->adds) || (wait != nullptr && wait->adds);
}

// An error names its instruction, or the instruction that waited for the failed copy.
template <class Work>
void Executor::name_failure(const Instruction& instruction, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    throw Error(error.kind, error.exit, error.code, fmt::format("{} ({})", describe(instruction, graph_), error.where),
                error.message, error.expected, error.remedies);
  }
}

void Executor::run(const Instruction& instruction, const Bound* bound, bool window_start, const Feeder& work) {
  if (window_start && !keeps_gradients_ && copies_what_is_written(instruction)) return;
  for (RunObserver* observer : observers_) observer->before(instruction, window_start);
  match(
      instruction,
      [&](const RunKernel& run) {
        const Kernel* at_start = keeps_gradients_ ? bound->keep : bound->write;
        const Kernel* kernel = window_start ? at_start : bound->add;
        if (kernel == nullptr) return;
        name_failure(instruction, [&] {
          device_.expect(run);
          kernel->run({bound->inputs, bound->outputs, bound->scratch, run.range, device_.stream()});
          device_.check();
        });
      },
      [&](const StartCopy& copy) { name_failure(instruction, [&] { device_.start(copy), device_.check(); }); },
      [&](const WaitCopy& copy) { name_failure(instruction, [&] { device_.wait(copy); }); },
      [&](const StartExchange& exchange) {
        if (peers_ == nullptr) return;  // a device that computes nothing
        name_failure(instruction, [&] { peers_->start(exchange.event, {bound->sends, bound->receives}); });
      },
      [&](const WaitExchange& exchange) {
        if (peers_ == nullptr) return;
        try {
          peers_->wait(exchange.event);
        } catch (const Error& error) {
          // The error of another rank has a place of its own.
          if (error.code != "E-RANK-LOST") throw;
          name_failure(instruction, [] { throw; });
        }
      },
      [&](const Feed& feed) {
        work(feed.section);
        device_.fed(feed.writes);
      },
      [&](const Fetch& fetch) { device_.fetch(fetch.reads); },  // results are read after the section
      [&](const LoadState&) { work({}); }, [&](const SaveState&) { work({}); });
  for (RunObserver* observer : std::views::reverse(observers_)) observer->after(instruction, window_start);
}

bool Executor::needs_host(const Instruction& instruction) const {
  return std::holds_alternative<Feed>(instruction) || std::holds_alternative<Fetch>(instruction) ||
         device_.waits_on_host(instruction);
}

std::vector<Executor::Segment> Executor::segments_of(const std::vector<Instruction>& section) const {
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < section.size(); ++i) {
    const bool host = needs_host(section[i]);
    if (host || segments.empty() || segments.back().host) segments.push_back({i, i, host});
    segments.back().end = i + 1;
  }
  return segments;
}

// A segment has three numbers: for writing accumulators, for adding to them and for keeping gradients.
void Executor::run(Section section, const BoundSection& bound, std::size_t segment, bool window_start, const Feeder& work) {
  const std::vector<Instruction>& instructions = program_.of(section);
  const auto [begin, end, host] = bound.segments[segment];
  const auto all = [&, begin = begin, end = end] {
    for (std::size_t i = begin; i < end; ++i) run(instructions[i], &bound.instructions[i], window_start, work);
  };
  if (host) return all();
  const std::size_t form = !window_start ? 0 : keeps_gradients_ ? 2 : 1;
  device_.run(3 * (bound.first + segment) + form, all);
}

void Executor::run(Section section, bool window_start, const Feeder& feed) {
  const BoundSection& bound = sections_[static_cast<std::size_t>(section)];
  for (std::size_t i = 0; i < bound.segments.size(); ++i) run(section, bound, i, window_start, feed);
}

// Runs every segment without the host, in each of its forms. Fed values are zeroed before each form, because buffers of the
// previous form may have overwritten them.
void Executor::prepare() {
  for (const Section section : graph_.sections()) {
    const BoundSection& bound = sections_[static_cast<std::size_t>(section)];
    const Forms forms = forms_of(graph_, section, program_.rounds);
    for (const bool first : {true, false}) {
      if (!(first ? forms.first : forms.later)) continue;
      for (std::size_t i = 0; i < bound.segments.size(); ++i) {
        const Instruction& begin = program_.of(section)[bound.segments[i].begin];
        if (const auto* feed = std::get_if<Feed>(&begin)) device_.fed(feed->writes);
        if (!bound.segments[i].host) run(section, bound, i, first, {});
      }
    }
  }
}

void Executor::run(const std::vector<Instruction>& instructions, const std::function<void()>& work) {
  for (const Instruction& instruction : instructions) {
    run(instruction, nullptr, false, [&](Section) { work(); });
  }
}

void Executor::load(const std::function<void()>& work) { run(program_.load, work); }
void Executor::save(const std::function<void()>& work) { run(program_.save, work); }

void Executor::clear_caches() {
  run(program_.clear, [&] {
    for (const Operand& cache : program_.caches) {
      device_.write(cache, [](std::span<std::byte> part) { std::ranges::fill(part, std::byte{0}); });
    }
  });
}

bool Executor::exchanges(Section section) const {
  return std::ranges::any_of(program_.of(section),
                             [](const Instruction& each) { return std::holds_alternative<StartExchange>(each); });
}

TensorView Executor::view(ValueId value) const {
  const Operand& operand = program_.operands[value];
  ensure(operand.tier == 0, "executor", "a view of what does not rest where kernels run");
  const ValueType& type = graph_.values[value].type;
  return {device_.host(operand), type.dtype, type.shape, {}};
}

}  // namespace plimsoll
