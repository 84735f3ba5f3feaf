#include "cli/plan/plan_export.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/plan/instance_problem.h"
#include "plan/search/bound.h"

namespace plimsoll {
namespace {

using nlohmann::ordered_json;

// The simulation of training without recomputation, evaluation and saving.
Simulation keep_everything(const Config& config, const PlanningInput& input, const Plan& plan) {
  Graph graph = build_training_graph(config, input.facts, plan.decisions.micro_batch).graph;
  std::erase_if(graph.order, [&](NodeId id) {
    return graph.nodes[id].section != Section::micro && graph.nodes[id].section != Section::update;
  });
  const std::vector<Unit> units = find_units(graph);
  OpCatalogue catalogue = catalogue_of(input.machine);
  NodeKernels kernels(input.machine.machine.threads, catalogue);
  return simulate(apply_decisions(graph, units, {}, {}, {plan.decisions.accumulation, 1}), plan.decisions.accumulation,
                  plan.decisions.loss_chunks, /*saves=*/false, kernels);
}

Bytes loss_scratch(const Simulation& simulation) {
  Bytes most;
  for (std::size_t i = 0; i < simulation.kernels.size(); ++i) {
    const Step& step = simulation.timeline.steps[i];
    const BufferId scratch = simulation.lifetimes.scratch[i];
    if (step.kind != Step::Kind::node || !scratch.valid()) continue;
    if (simulation.graph.nodes[step.node].op->chunked) most = std::max(most, simulation.lifetimes.buffers[scratch].bytes);
  }
  return most;
}

// Our plan in the ids of a problem. Steps count from the first step of the micro-step.
class Answer {
 public:
  Answer(const InstanceProblem& problem, const Plan& plan)
      : problem_(problem), plan_(plan), range_(plan.timeline.of(Phase::steady)) {
    number_buffers();
    count_copies();
    for (int step = range_.begin; step < range_.end; ++step) add_step(step);
  }

  ordered_json facts() const {
    return {
        {"arena_bytes", arena_}, {"live_bytes", live()}, {"update_seconds", plan_.update_seconds}, {"recomputed", recomputed_}};
  }
  const std::vector<ordered_json>& steps() const { return steps_; }
  const std::vector<ordered_json>& buffers() const { return buffers_; }
  std::int64_t live() const { return live_profile(plan_.lifetimes, plan_.timeline, Phase::steady).peak.n; }

 private:
  void number_buffers() {
    numbers_.resize(plan_.lifetimes.buffers.size(), -1);
    for (std::size_t i = 0; i < plan_.lifetimes.buffers.size(); ++i) {
      const BufferId id{i};
      const Buffer& buffer = plan_.lifetimes.buffers[id];
      const int begin = std::max(buffer.begin, range_.begin), end = std::min(buffer.end, range_.end);
      if (begin >= end) continue;
      numbers_[id] = static_cast<int>(buffers_.size());
      const bool held = buffer.value.valid() && plan_.graph.values[buffer.value].persistent() &&
                        (buffer.persistent || plan_.decisions.accumulation > 1);
      buffers_.push_back({begin - range_.begin, end - range_.begin, buffer.bytes.n, plan_.offsets[i].n,
                          held ? problem_.value_of[buffer.value] : -1});
      arena_ = std::max(arena_, (plan_.offsets[i] + buffer.bytes).n);
    }
  }

  int node_at(int step) const {
    const Step& what = plan_.timeline.steps[static_cast<std::size_t>(step)];
    if (what.kind != Step::Kind::node) return problem_.special.at({what.kind, what.section});
    const NodeId original = plan_.graph.nodes[what.node].clone_of;
    return problem_.node_of[original.valid() ? original : what.node];
  }

  void count_copies() {
    copies_.resize(problem_.values.size(), 0);
    for (int step = range_.begin; step < range_.end; ++step) {
      for (const int value : problem_.nodes[static_cast<std::size_t>(node_at(step))].outputs)
        ++copies_[static_cast<std::size_t>(value)];
    }
  }

  int buffer_of(ValueId value) const { return numbers_[plan_.lifetimes.buffer_of[value]]; }

  // Adds a row. Buffers of the inputs are listed only if a value has several copies.
  void add_step(int step) {
    const Step& what = plan_.timeline.steps[static_cast<std::size_t>(step)];
    const int number = node_at(step);
    const InstanceNode& node = problem_.nodes[static_cast<std::size_t>(number)];
    std::vector<int> reads, writes;
    if (what.kind == Step::Kind::node) {
      const Node& planned = plan_.graph.nodes[what.node];
      for (const std::size_t position : node.positions) reads.push_back(buffer_of(planned.inputs[position]));
      for (const ValueId output : planned.outputs) writes.push_back(buffer_of(output));
      if (planned.clone_of.valid()) recomputed_.push_back(number);
    } else {
      for (const ValueId value : node.reads) reads.push_back(buffer_of(value));
      for (const ValueId value : node.writes) writes.push_back(buffer_of(value));
    }
    const BufferId scratch = plan_.lifetimes.scratch[static_cast<std::size_t>(step)];
    ordered_json row = {number, writes};
    const bool several = std::any_of(node.inputs.begin(), node.inputs.end(), [&](int value) {
      return copies_[static_cast<std::size_t>(problem_.roots[static_cast<std::size_t>(value)])] > 1;
    });
    if (scratch.valid() || several) row.push_back(scratch.valid() ? numbers_[scratch] : -1);
    if (several) row.push_back(reads);
    steps_.push_back(std::move(row));
  }

  const InstanceProblem& problem_;
  const Plan& plan_;
  StepRange range_;
  PerId<BufferId, int> numbers_;
  std::vector<int> copies_;  // by value of the problem: number of copies made
  std::vector<int> recomputed_;
  std::vector<ordered_json> steps_, buffers_;
  std::int64_t arena_ = 0;
};

ordered_json machine_json(const Machine& machine) {
  const Roofline& rates = machine.rates;
  ordered_json object{{"name", machine.name}, {"threads", machine.threads}, {"flops_per_second", rates.flops_per_second}};
  if (rates.bf16_flops_per_second > 0) object["bf16_flops_per_second"] = rates.bf16_flops_per_second;
  if (rates.fp16_flops_per_second > 0) object["fp16_flops_per_second"] = rates.fp16_flops_per_second;
  object["bytes_per_second"] = rates.bytes_per_second;
  object["node_seconds"] = rates.step_seconds;
  return object;
}

ordered_json process_json(const PlanningInput& input, const Plan& plan) {
  return {{"budget_bytes", input.budget.memory ? ordered_json(input.budget.memory->n) : ordered_json(nullptr)},
          {"bytes", plan.process.n},
          {"outside_arena_bytes", total(plan.reserve).n},
          {"floor_bytes", plan.floor.n},
          {"floor_bound_bytes", plan.floor_bound.n}};
}

ordered_json head_json(const PlanningInput& input, const Plan& plan) {
  return {{"schema", "plimsoll.instance/1"},
          {"graph_hash", plan.graph_hash},
          {"batch",
           {{"micro", plan.decisions.micro_batch},
            {"accumulation", plan.decisions.accumulation},
            {"units_per_update", plan.units_per_update}}},
          {"loss_chunks", plan.decisions.loss_chunks},
          {"alignment", kAlignment.n},
          {"machine", machine_json(input.machine.machine)}};
}

// One row per line, so that two files can be compared.
std::string list_text(const std::vector<ordered_json>& rows, const char* indent) {
  std::string text = "[";
  for (std::size_t i = 0; i < rows.size(); ++i) text += (i == 0 ? "\n" : ",\n") + std::string(indent) + rows[i].dump();
  return text + "]";
}

std::string members_text(const ordered_json& object, const char* indent) {
  std::string text;
  for (const auto& [key, value] : object.items()) text += indent + ordered_json(key).dump() + ": " + value.dump() + ",\n";
  return text;
}

}  // namespace

std::string instance_text(const Config& config, const PlanningInput& input, const Plan& plan) {
  if (plan.decisions.residency.active()) {
    throw config_error("E-EXPORT-DISK", "--export-instance", "the plan keeps a part of the training on a disk",
                       "a plan in memory alone: instances know one tier", {"--set plan.optimizer_state=memory"});
  }
  if (plan.decisions.group > 1) {
    throw config_error("E-EXPORT-GROUP", "--export-instance", "the plan takes several micro-batches through each block together",
                       "a plan that takes one after the other", {"--set plan.group=1"});
  }
  const Simulation base = keep_everything(config, input, plan);
  const InstanceProblem problem = instance_problem(base);
  const Answer answer(problem, plan);
  const ordered_json keep = {{"live_bytes", live_profile(base.lifetimes, base.timeline, Phase::steady).peak.n},
                             {"update_seconds", problem.update_seconds}};
  const ordered_json bounds = {{"working_set_bytes", working_set_bound(base, loss_scratch(base)).n},
                               {"load_bytes", answer.live()},
                               {"update_seconds", problem.update_seconds}};
  return "{\n" + members_text(head_json(input, plan), "") + "\"values\": " + list_text(value_rows(problem), "") +
         ",\n\"kinds\": " + list_text(kind_rows(problem), "") + ",\n\"nodes\": " + list_text(node_rows(problem), "") +
         ",\n\"keep_everything\": " + keep.dump() + ",\n\"bounds\": " + bounds.dump() +
         ",\n\"process\": " + process_json(input, plan).dump() + ",\n\"result\": {\n" + members_text(answer.facts(), " ") +
         " \"steps\": " + list_text(answer.steps(), " ") + ",\n \"buffers\": " + list_text(answer.buffers(), " ") + "}\n}\n";
}

}  // namespace plimsoll
