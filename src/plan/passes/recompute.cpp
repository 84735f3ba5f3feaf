#include "plan/passes/recompute.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll {
namespace {

// Values of the forward pass that backward nodes read.
PerValue<char> saved_values(const Graph& graph) {
  PerValue<char> saved(graph.values.size());
  for (const NodeId id : graph.section_order(Section::micro)) {
    if (!graph.nodes[id].backward) continue;
    for (const ValueId input : graph.nodes[id].inputs) saved[input] = 1;
  }
  return saved;
}

class Rewrite {
 public:
  Rewrite(const Graph& graph, const std::vector<GraphBlock>& blocks, const std::vector<BlockMode>& modes)
      : result_(graph), dropped_(graph.nodes.size()), clones_(graph.values.size()), saved_(saved_values(graph)) {
    ensure(blocks.size() == modes.size(), "recompute", "one mode per block");
    for (std::size_t i = 0; i < blocks.size(); ++i) drop(blocks[i], modes[i]);
  }

  Graph run() {
    const std::vector<NodeId> old = std::move(result_.order);
    result_.order.clear();
    for (const NodeId id : old) {
      if (result_.nodes[id].section == Section::micro && result_.nodes[id].backward) use_clones(id);
      result_.order.push_back(id);
    }
    return std::move(result_);
  }

 private:
  void drop(const GraphBlock& block, BlockMode mode) {
    if (mode == BlockMode::keep) return;
    const NodeId last = block.nodes.back();  // its output is the next block's input
    for (const NodeId id : block.nodes) {
      const Node& node = result_.nodes[id];
      if (id == last || !node.op->replayable) continue;
      dropped_[id] = mode == BlockMode::recompute || cheap(node);
    }
  }

  // Cheap to run again, and from values that are there anyway in the backward pass.
  bool cheap(const Node& node) const {
    if (node.op->costly) return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      const Value& value = result_.values[input];
      return !value.producer.valid() || saved_[input] || dropped_[value.producer];
    });
  }

  void use_clones(NodeId id) {
    for (std::size_t i = 0; i < result_.nodes[id].inputs.size(); ++i) {
      result_.nodes[id].inputs[i] = available(result_.nodes[id].inputs[i]);
    }
  }

  // The value itself where it is kept, else its clone, made here if this is the first use.
  ValueId available(ValueId value) {
    const NodeId producer = result_.values[value].producer;
    if (!producer.valid() || producer.index >= dropped_.size() || !dropped_[producer]) return value;
    if (!clones_[value].valid()) clone(producer);
    return clones_[value];
  }

  void clone(NodeId original) {
    Node node = result_.nodes[original];
    for (ValueId& input : node.inputs) input = available(input);
    node.clone_of = original;
    node.backward = true;
    const NodeId id{result_.nodes.size()};
    for (ValueId& output : node.outputs) {
      Value value = result_.values[output];
      value.role = Role::recomputed;
      value.producer = id;
      value.clone_of = output;
      value.name += "'";
      const ValueId copy = result_.values.push_back(std::move(value));
      clones_[output] = copy;
      output = copy;
    }
    result_.nodes.push_back(std::move(node));
    result_.order.push_back(id);
  }

  Graph result_;
  PerNode<char> dropped_;
  PerValue<ValueId> clones_;
  PerValue<char> saved_;
};

}  // namespace

std::string_view name(BlockMode mode) {
  switch (mode) {
    case BlockMode::keep: return "keep";
    case BlockMode::cheap: return "cheap";
    case BlockMode::recompute: return "recompute";
  }
  return "?";
}

Graph apply_recompute(const Graph& graph, const std::vector<GraphBlock>& blocks, const std::vector<BlockMode>& modes) {
  return Rewrite(graph, blocks, modes).run();
}

}  // namespace plimsoll
