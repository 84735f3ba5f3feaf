#include "train/measure_step.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "device/arena.h"
#include "device/cpu/parallel.h"
#include "ops/cpu_catalogue.h"
#include "plan/build_plan.h"
#include "program/program.h"
#include "run/cpu_device.h"
#include "run/executor.h"
#include "train/weights.h"

namespace plimsoll {
namespace {

constexpr int kFewest = 2, kMost = 6;  // windows that count; windows

// Keeps everything where that fits, else nothing but the inputs of blocks.
std::optional<Plan> plan_for(const Graph& graph, std::int64_t micro_batch, const Machine& machine, Bytes memory) {
  const std::vector<GraphBlock> blocks = find_blocks(graph);
  PlanRequest request;
  request.effective_batch = 2 * micro_batch;
  request.saves = false;
  for (const BlockMode mode : {BlockMode::keep, BlockMode::recompute}) {
    PlanDecisions decisions{.micro_batch = micro_batch, .accumulation = 2};
    for (const GraphBlock& block : blocks) decisions.blocks.push_back({block.name, mode});
    CpuCatalogue catalogue({}, {});
    Plan plan = build_plan(graph, blocks, decisions, request, machine, catalogue, nullptr);
    if (plan.arena <= memory) return plan;
  }
  return {};
}

class KernelTimes : public RunObserver {
 public:
  KernelTimes(const Graph& graph, int threads) : graph_(graph), threads_(threads) {}

  void before(const Instruction&, bool) override { start_ = seconds_now(); }
  void after(const Instruction& instruction, bool window_start) override {
    const double seconds = seconds_now() - start_;
    const auto* run = std::get_if<RunKernel>(&instruction);
    if (run != nullptr) window_[key(run->node, window_start)].push_back(seconds);
  }

  void begin_window() { window_.clear(); }
  void keep_window() {
    for (const auto& [key, samples] : window_) {
      std::vector<double>& all = samples_[key];
      all.insert(all.end(), samples.begin(), samples.end());
    }
  }

  KernelSeconds medians() const {
    KernelSeconds seconds;
    for (const auto& [key, samples] : samples_) seconds[key] = median(samples);
    return seconds;
  }

 private:
  const std::string& key(NodeId node, bool window_start) {
    std::string& known = keys_[{node, window_start}];
    if (known.empty()) known = timing_key(request_for(graph_, graph_.nodes[node], threads_, 1, window_start).request);
    return known;
  }

  const Graph& graph_;
  int threads_;
  double start_ = 0;
  std::map<std::pair<NodeId, bool>, std::string> keys_;
  std::map<std::string, std::vector<double>> window_, samples_;
};

// Whole numbers are indices of rows: any is legal below the fewest rows of a table.
void feed(const Graph& graph, const Executor& executor, Section section) {
  std::int64_t rows = std::int64_t{1} << 30;
  for (const ValueId id : graph.parameters()) {
    const Shape& shape = graph.values[id].type.shape;
    if (shape.rank() == 2) rows = std::min(rows, shape[0]);
  }
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[ValueId{i}];
    if (value.producer.valid() || value.section != section || value.role != Role::input) continue;
    fill_with_numbers(executor.view(ValueId{i}).data, value.type, rows);
  }
}

}  // namespace

StepMeasurement measure_step(const Graph& graph, std::int64_t micro_batch, const Machine& machine, const MeasureLimits& limits) {
  StepMeasurement result;
  const std::optional<Plan> plan = plan_for(graph, micro_batch, machine, limits.memory);
  result.fits = plan.has_value();
  if (!result.fits) return result;
  cpu::set_thread_count(machine.threads);
  const Program program = lower(*plan);
  const Arena arena(plan->arena);
  CpuDevice device(arena);
  Executor executor(plan->graph, program, device, machine.threads, 1);
  executor.load([&] {
    for (const Operand& state : executor.state()) {
      executor.write(state.value, [](std::span<std::byte> bytes) { std::ranges::fill(bytes, std::byte{0}); });
    }
    initialize_parameters(plan->graph, 1, executor);
  });
  KernelTimes times(plan->graph, machine.threads);
  const auto fed = [&](Section section) { feed(plan->graph, executor, section); };
  const auto window = [&] {
    for (std::int64_t micro = 0; micro < program.rounds; ++micro) executor.run(Section::micro, micro == 0, fed);
    executor.run(Section::update, false, fed);
  };
  window();  // faults pages and code in
  executor.set_observer(&times);
  const double end = seconds_now() + limits.seconds;
  for (int kept = 0, i = 0; i < kMost && (kept < kFewest || seconds_now() < end); ++i) {
    const Contention contention;
    times.begin_window();
    window();
    const double others = contention.others();
    result.others = std::min(result.others, others);
    if (others > limits.others) continue;
    times.keep_window();
    ++kept;
  }
  result.seconds = times.medians();
  return result;
}

}  // namespace plimsoll
