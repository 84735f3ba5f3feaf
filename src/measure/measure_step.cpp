#include "measure/measure_step.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "device/cpu/parallel.h"
#include "ops/op_catalogue.h"
#include "plan/build_plan.h"
#include "program/program.h"
#include "run/executor.h"
#include "run/instruction_timer.h"
#include "run/place.h"
#include "weights/weights.h"

namespace plimsoll {
namespace {

constexpr int kFewest = 2, kMost = 6;  // windows: the fewest that count, the most

// Replays of all replayable nodes of each block but its last node, each right before the first backward reader of its output.
std::vector<NodeReplay> replays_of_all(const Graph& graph, const std::vector<Unit>& units) {
  PerNode<char> absent(graph.nodes.size(), 0);
  for (const Unit& unit : units) {
    if (!unit.block) break;
    for (const NodeId id : unit.nodes) absent[id] = id != unit.nodes.back() && may_run_again(graph, graph.nodes[id]) ? 1 : 0;
  }
  std::vector<NodeReplay> replays;
  const auto bring = [&](auto&& self, ValueId value, NodeId before) -> void {
    const NodeId maker = graph.values[origin_of(graph, value)].producer;
    if (!maker.valid() || absent[maker] == 0) return;
    absent[maker] = 0;
    for (const ValueId input : graph.nodes[maker].inputs) self(self, input, before);
    replays.push_back({maker, before});
  };
  for (const NodeId id : graph.section_order(Section::micro)) {
    if (!graph.nodes[id].backward) continue;
    for (const ValueId input : graph.nodes[id].inputs) bring(bring, input, id);
  }
  return replays;
}

// A plan that keeps all activations if they fit, else only the inputs of blocks.
std::optional<Plan> plan_for(const Graph& graph, std::int64_t micro_batch, const Machine& machine, Bytes memory) {
  const std::vector<Unit> units = find_units(graph);
  PlanRequest request;
  request.effective_batch = 2 * micro_batch;
  request.saves = false;
  for (const bool again : {false, true}) {
    PlanDecisions decisions{.micro_batch = micro_batch, .accumulation = 2};
    if (again) decisions.replays = replays_of_all(graph, units);
    OpCatalogue catalogue({}, {}, machine.backend == Backend::cuda ? kCudaKernels : kCpuKernels);
    Plan plan = build_plan(graph, units, decisions, request, machine, catalogue, nullptr);
    if (plan.arena <= memory) return plan;
  }
  return {};
}

// The seconds of kernels by timing_key, from the runs of a timer.
class KernelSamples {
 public:
  KernelSamples(const Graph& graph, const Program& program, int threads) : graph_(graph), program_(program), threads_(threads) {}

  void begin_window() { window_.clear(); }
  void add(const InstructionTimer& timer, Section section, bool window_start) {
    const std::vector<Instruction>& instructions = program_.of(section);
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      const auto* run = std::get_if<RunKernel>(&instructions[i]);
      const InstructionTimer::Span span = timer.last(section, i);
      if (run != nullptr && span.ran()) window_.emplace_back(&key(run->node, window_start), span.seconds);
    }
  }
  void keep_window() {
    for (const auto& [key, seconds] : window_) samples_[*key].push_back(seconds);
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
  const Program& program_;
  int threads_;
  std::map<std::pair<NodeId, bool>, std::string> keys_;
  std::vector<std::pair<const std::string*, double>> window_;  // key and seconds of each kernel
  std::map<std::string, std::vector<double>> samples_;
};

// Integers are row indices below the fewest rows of any table.
void feed(const Graph& graph, const Executor& executor, Section section) {
  std::int64_t rows = std::int64_t{1} << 30;
  for (const ValueId id : graph.parameters()) {
    const Shape& shape = graph.values[id].type.shape;
    if (shape.rank() == 2) rows = std::min(rows, shape[0]);
  }
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[ValueId{i}];
    if (!value.fed_in(section)) continue;
    fill_with_numbers(executor.view(ValueId{i}).data, value.type, rows);
  }
}

}  // namespace

StepMeasurement measure_step(const Graph& graph, std::int64_t micro_batch, const Machine& machine, const MeasureLimits& limits) {
  StepMeasurement result;
  const std::optional<Plan> plan = plan_for(graph, micro_batch, machine, limits.memory);
  result.fits = plan.has_value();
  if (!result.fits || (kFewest + 1) * plan->update_seconds > limits.step_seconds) return result;
  const double most = seconds_now() + limits.step_seconds;
  cpu::set_thread_count(machine.threads);
  const Program program = lower(*plan);
  const bool cuda = machine.backend == Backend::cuda;
  Place place(program, *plan, {.cuda = cuda});
  Executor executor(plan->graph, program, place.device(), machine.threads, 1);
  executor.load([&] {
    for (const Operand& state : executor.state()) {
      executor.write(state.value, [](std::span<std::byte> bytes) { std::ranges::fill(bytes, std::byte{0}); });
    }
    initialize_parameters(plan->graph, 1, executor);
  });
  KernelSamples samples(plan->graph, program, machine.threads);
  InstructionTimer timer(program, plan->graph, place.device());
  timer.after_section([&](Section section, bool window_start, double) { samples.add(timer, section, window_start); });
  const auto fed = [&](Section section) { feed(plan->graph, executor, section); };
  const auto window = [&] {
    for (std::int64_t micro = 0; micro < program.rounds; ++micro) executor.run(Section::micro, micro == 0, fed);
    executor.run(Section::update, false, fed);
  };
  const double start = seconds_now();
  window();  // faults pages and code in
  const double took = seconds_now() - start;
  executor.add_observer(timer);
  const double end = seconds_now() + limits.seconds;
  for (int kept = 0, i = 0; i < kMost && (kept < kFewest || seconds_now() < end); ++i) {
    if (seconds_now() + took > most) break;
    const Contention contention;
    samples.begin_window();
    window();
    const double others = contention.sharing().most();
    result.others = std::min(result.others, others);
    if (others > limits.others && !cuda) continue;
    samples.keep_window();
    ++kept;
  }
  result.seconds = samples.medians();
  result.algorithms = executor.algorithms();
  return result;
}

}  // namespace plimsoll
