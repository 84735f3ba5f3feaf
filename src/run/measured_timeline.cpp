#include "run/measured_timeline.h"

#include <algorithm>

#include "tensor/shape.h"

namespace plimsoll {

void MeasuredTimeline::before(const Instruction&, bool) { start_ = std::chrono::steady_clock::now(); }

void MeasuredTimeline::after(const Instruction& instruction, bool) {
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  std::string name = "feed and fetch";
  Cost cost;
  if (const auto* kernel = std::get_if<RunKernel>(&instruction)) {
    const Node& node = graph_.nodes[kernel->node];
    name = node.op->name;
    const std::vector<ValueType> inputs = types_of(graph_, node.inputs), outputs = types_of(graph_, node.outputs);
    cost = node.op->cost(node.attributes, inputs, outputs);
    if (!kernel->range.whole() && node.op->ranges != nullptr) {
      name += " in pieces";
      const RangeRule rule = ranges_of(graph_, node);
      const auto all = static_cast<double>(rule.passes * inputs[rule.inputs.front()].shape.elements());
      const double share = static_cast<double>(kernel->range.elements) / all;
      cost.flops *= share;
      cost.bytes *= share;
    }
    if (node.op->costly && inputs.size() >= 2) {
      name += " " + to_text(inputs[0].shape) + to_text(inputs[1].shape) + (node.backward ? " backward" : "");
    }
  }
  if (std::holds_alternative<StartCopy>(instruction)) name = "starting copies";
  if (std::holds_alternative<WaitCopy>(instruction)) name = "waiting for copies";
  if (std::holds_alternative<StartExchange>(instruction)) name = "starting exchanges";
  if (std::holds_alternative<WaitExchange>(instruction)) name = "waiting for other ranks";
  OpSeconds& entry = by_op_[name];
  entry.op = name;
  ++entry.runs;
  entry.seconds += seconds;
  entry.cost = {entry.cost.flops + cost.flops, entry.cost.bytes + cost.bytes, cost.operands};
}

std::vector<OpSeconds> MeasuredTimeline::by_op() const {
  std::vector<OpSeconds> list;
  for (const auto& [name, entry] : by_op_) list.push_back(entry);
  std::sort(list.begin(), list.end(), [](const OpSeconds& a, const OpSeconds& b) { return a.seconds > b.seconds; });
  return list;
}

}  // namespace plimsoll
