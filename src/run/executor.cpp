#include "run/executor.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "base/error.h"
#include "base/visit.h"
#include "plan/node_kernels.h"

namespace plimsoll {

// The kernel of one instruction with its addresses; empty for instructions without one.
struct Executor::Bound {
  const Kernel* add = nullptr;
  const Kernel* write = nullptr;
  std::vector<std::byte*> inputs, outputs;
  std::byte* scratch = nullptr;
};

struct Executor::Cache {
  struct Entry {
    const Kernel* kernel = nullptr;
    Bytes scratch;  // what the kernel says that it needs
  };
  std::map<std::string, Entry> by_key;
};

Executor::Executor(const Graph& graph, const Program& program, std::byte* base, int threads, int loss_chunks, DeviceKind device,
                   const Stores& stores)
    : graph_(graph),
      program_(program),
      base_(base),
      threads_(threads),
      loss_chunks_(loss_chunks),
      device_(device),
      stores_(stores),
      cache_(std::make_unique<Cache>()) {
  for (const Section section : kSections) sections_.push_back(bind(program_.of(section)));
  cache_.reset();
}

Executor::~Executor() = default;

// Equal nodes share one kernel: what differs are the addresses. A library need not write all of its scratch, so that a sentinel
// behind it may stay intact where too little was planned: the kernel itself is asked.
const Kernel* Executor::kernel_for(const RunKernel& run, bool overwrite) {
  const Node& node = graph_.nodes[run.node];
  const NodeRequest asked = request_for(graph_, node, threads_, loss_chunks_, overwrite);
  const KernelRequest& request = asked.request;
  const auto [place, fresh] = cache_->by_key.emplace(kernel_key(request), Cache::Entry{});
  Cache::Entry& entry = place->second;
  if (fresh) {
    const CpuKernel* kernel = find_cpu_kernel(*node.op);
    ensure(kernel != nullptr, "executor", "an op has no kernel");
    kernels_.push_back(kernel->bind(request));
    entry.kernel = kernels_.back().get();
    if (kernel->choose != nullptr) entry.scratch = kernel->choose(request).scratch;
  }
  if (run.scratch.bytes < entry.scratch) {
    throw internal_error("executor", fmt::format("{} ({}) needs {} bytes of scratch and was given {}", node.line.text(),
                                                 node.op->name, entry.scratch.n, run.scratch.bytes.n));
  }
  return entry.kernel;
}

std::vector<Executor::Bound> Executor::bind(const std::vector<Instruction>& section) {
  std::vector<Bound> bound(section.size());
  if (device_ == DeviceKind::null) return bound;
  const auto address = [&](const Operand& operand) { return base_ + operand.offset.n; };
  for (std::size_t i = 0; i < section.size(); ++i) {
    const auto* run = std::get_if<RunKernel>(&section[i]);
    if (run == nullptr) continue;
    const Node& node = graph_.nodes[run->node];
    // With one micro-step a window the adding kernel never runs.
    const bool always_starts = program_.rounds == 1 && node.section == Section::micro;
    bound[i].write = kernel_for(*run, run->starts_window);
    bound[i].add = run->starts_window && !always_starts ? kernel_for(*run, false) : bound[i].write;
    for (const Operand& operand : run->inputs) bound[i].inputs.push_back(address(operand));
    for (const Operand& operand : run->outputs) bound[i].outputs.push_back(address(operand));
    bound[i].scratch = address(run->scratch);
  }
  return bound;
}

// The first micro-step of a window writes its accumulators: nothing has to come in for that.
static bool copies_what_is_written(const Instruction& instruction) {
  const auto* start = std::get_if<StartCopy>(&instruction);
  const auto* wait = std::get_if<WaitCopy>(&instruction);
  return (start != nullptr && start->adds) || (wait != nullptr && wait->adds);
}

void Executor::run(const std::vector<Instruction>& instructions, const std::vector<Bound>& bound, bool window_start,
                   const Feeder& work) {
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    if (window_start && copies_what_is_written(instruction)) continue;
    if (observer_ != nullptr) observer_->before(instruction, window_start);
    match(
        instruction,
        [&](const RunKernel& run) {
          const Kernel* kernel = window_start ? bound[i].write : bound[i].add;
          if (kernel != nullptr) kernel->run({bound[i].inputs, bound[i].outputs, bound[i].scratch, run.range});
        },
        [&](const StartCopy& copy) { start(copy); }, [&](const WaitCopy& copy) { wait(copy); },
        [&](const Feed& feed) { work(feed.section); }, [&](const LoadState&) { work({}); }, [&](const SaveState&) { work({}); },
        [](const Fetch&) {});  // results are read after the section
    if (observer_ != nullptr) observer_->after(instruction, window_start);
  }
}

void Executor::run(Section section, bool window_start, const Feeder& feed) {
  run(program_.of(section), sections_[static_cast<std::size_t>(section)], window_start, feed);
}

void Executor::load(const std::function<void()>& work) {
  run(program_.load, std::vector<Bound>(program_.load.size()), false, [&](Section) { work(); });
}
void Executor::save(const std::function<void()>& work) {
  run(program_.save, std::vector<Bound>(program_.save.size()), false, [&](Section) { work(); });
}

TierStore& Executor::store_of(std::uint8_t tier) const {
  TierStore* store = stores_.at(tier);
  ensure(store != nullptr, "executor", "a program that copies between tiers lacks one");
  return *store;
}

void Executor::start(const StartCopy& copy) {
  if (device_ == DeviceKind::null) return;
  const auto memory = [&](const Operand& operand) {
    return std::span(base_ + operand.offset.n, static_cast<std::size_t>(operand.bytes.n));
  };
  if (copy.from.tier != 0) {
    store_of(copy.from.tier).start_read(copy.event, copy.from.offset, memory(copy.to));
  } else {
    store_of(copy.to.tier).start_write(copy.event, copy.to.offset, memory(copy.from));
  }
}

// A transfer's failure names the instruction that needed it.
void Executor::wait(const WaitCopy& copy) {
  if (device_ == DeviceKind::null) return;
  try {
    store_of(copy.tier).wait(copy.event);
  } catch (const Error& error) {
    throw Error(error.kind, error.exit, error.code, fmt::format("{} ({})", describe(copy, graph_), error.where), error.message,
                error.expected, error.remedies);
  }
}

void Executor::read(ValueId value, const std::function<void(std::span<const std::byte>)>& sink) const {
  const Operand& operand = program_.operands[value];
  if (operand.tier != 0) return store_of(operand.tier).read(operand.offset, operand.bytes, sink);
  sink({base_ + operand.offset.n, static_cast<std::size_t>(operand.bytes.n)});
}

void Executor::write(ValueId value, const std::function<void(std::span<std::byte>)>& source) {
  const Operand& operand = program_.operands[value];
  if (operand.tier != 0) return store_of(operand.tier).write(operand.offset, operand.bytes, source);
  source({base_ + operand.offset.n, static_cast<std::size_t>(operand.bytes.n)});
}

TensorView Executor::view(ValueId value) const {
  const Operand& operand = program_.operands[value];
  ensure(operand.tier == 0, "executor", "a view of what does not rest where kernels run");
  const ValueType& type = graph_.values[value].type;
  return {base_ + operand.offset.n, type.dtype, type.shape, {}};
}

}  // namespace plimsoll
