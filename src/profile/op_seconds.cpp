#include "profile/op_seconds.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/visit.h"
#include "tensor/shape.h"

namespace plimsoll {

std::string op_name(const Graph& graph, const Node& node, bool shapes) {
  std::string name(node.op->name);
  if (shapes && node.op->costly && node.inputs.size() >= 2) {
    name += " " + to_text(graph.values[node.inputs[0]].type.shape) + to_text(graph.values[node.inputs[1]].type.shape);
  }
  if (node.clone_of.valid()) return name + " again";
  return node.backward && !name.ends_with("backward") ? name + " backward" : name;
}

Cost cost_of(const Graph& graph, const RunKernel& run) {
  const Node& node = graph.nodes[run.node];
  const std::vector<ValueType> inputs = types_of(graph, node.inputs), outputs = types_of(graph, node.outputs);
  Cost cost = node.op->cost(node.attributes, inputs, outputs);
  if (run.range.whole() || node.op->ranges == nullptr) return cost;
  const RangeRule rule = ranges_of(graph, node);
  const auto all = static_cast<double>(rule.passes * inputs[rule.inputs.front()].shape.elements());
  const double share = static_cast<double>(run.range.elements) / all;
  cost.flops *= share;
  cost.bytes *= share;
  return cost;
}

SecondsByKind seconds_by_kind(const Graph& graph, const Program& program, const InstructionTimer& timer, Roofline rates,
                              bool shapes) {
  rates.step_seconds = 0;
  SecondsByKind sums;
  std::map<std::pair<std::string, std::string>, OpSeconds> ops;
  const auto add_kernel = [&](const RunKernel& run, double seconds, std::int64_t runs) {
    const Node& node = graph.nodes[run.node];
    const std::string name = op_name(graph, node, shapes), section(graph.name(node.section));
    OpSeconds& op = ops.try_emplace({name, section}, OpSeconds{.op = name, .section = section, .cost = {}}).first->second;
    const Cost cost = cost_of(graph, run);
    const auto times = static_cast<double>(runs);
    op.runs += runs;
    op.seconds += seconds;
    op.cost = {op.cost.flops + times * cost.flops, op.cost.bytes + times * cost.bytes, cost.operands};
    op.bound += times * roofline_seconds(rates, cost);
    (node.section == Section::update ? sums.update : sums.kernels) += seconds;
  };
  for (const Section section : graph.sections()) {
    if (timer.runs(section).all() == 0) continue;
    const std::vector<Instruction>& instructions = program.of(section);
    const InstructionTimer::Runs runs = timer.runs(section);
    for (std::size_t i = 0; i < instructions.size(); ++i) {
      const double seconds = timer.seconds(section, i).all();
      match(
          instructions[i], [&](const RunKernel& run) { add_kernel(run, seconds, runs.all()); },
          [&](const StartCopy&) { sums.copies += seconds; }, [&](const WaitCopy&) { sums.copies += seconds; },
          [&](const StartExchange&) { sums.exchanges += seconds; }, [&](const WaitExchange&) { sums.exchanges += seconds; },
          [&](const Feed&) { sums.feed += seconds; }, [&](const Fetch&) { sums.feed += seconds; }, [](const LoadState&) {},
          [](const SaveState&) {});
    }
  }
  for (auto& [name, op] : ops) sums.ops.push_back(std::move(op));
  std::ranges::stable_sort(sums.ops, [](const OpSeconds& a, const OpSeconds& b) { return a.seconds > b.seconds; });
  return sums;
}

}  // namespace plimsoll
