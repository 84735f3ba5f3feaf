#include "plan/passes/recompute.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "plan/passes/clone.h"

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
  Rewrite(Graph graph, const std::vector<GraphBlock>& blocks, const std::vector<BlockChoice>& choices)
      : result_(std::move(graph)),
        dropped_(result_.nodes.size()),
        crossing_(result_.values.size()),
        in_pieces_(result_.nodes.size()),
        clones_(result_.values.size()),
        passing_clones_(result_.values.size()),
        read_by_clone_(result_.values.size()),
        saved_(saved_values(result_)) {
    ensure(blocks.size() == choices.size(), "recompute", "one choice per block");
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      drop(blocks[i], choices[i]);
      if (i > 0 && choices[i].mode == BlockMode::joined) drop_output(blocks[i - 1]);
    }
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
  void drop(const GraphBlock& block, const BlockChoice& choice) {
    const BlockMode mode = choice.mode;
    if (mode == BlockMode::keep) return;
    for (std::size_t i = 0; i + 1 < block.nodes.size(); ++i) {  // the output of the last one is the next block's input
      const Node& node = result_.nodes[block.nodes[i]];
      const bool chosen = std::binary_search(choice.again.begin(), choice.again.end(), i);
      dropped_[block.nodes[i]] = (mode == BlockMode::cheap ? chosen : true) && node.op->replayable;
    }
    if (mode == BlockMode::pieces || mode == BlockMode::joined) mark_pieces(block);
  }

  void mark_pieces(const GraphBlock& block) {
    for (const NodeId id : block.nodes) in_pieces_[id] = 1;
    for (const NodeId id : block.cuts) {
      for (const ValueId output : result_.nodes[id].outputs) crossing_[output] = 1;
    }
  }

  void drop_output(const GraphBlock& block) {
    const NodeId last = block.nodes.back();
    dropped_[last] = result_.nodes[last].op->replayable;
    in_pieces_[last] = 1;
    for (const ValueId output : result_.nodes[last].outputs) crossing_[output] = 1;
  }

  void use_clones(NodeId id) {
    for (std::size_t i = 0; i < result_.nodes[id].inputs.size(); ++i) {
      const ValueId value = result_.nodes[id].inputs[i];
      if (worth_a_second_time(value)) clone(result_.values[value].producer, false, clones_);
      result_.nodes[id].inputs[i] = available(value, false);
    }
  }

  // In pieces, what the piece itself was recomputed from would lie about until a backward node reads it. Where that costs little
  // and its inputs are there anyway, it is made again at that reader: the output of a layer norm, for its linear layer's weights.
  bool worth_a_second_time(ValueId value) {
    if (!clones_[value].valid() || !read_by_clone_[clones_[value]]) return false;
    const Node& producer = result_.nodes[result_.values[value].producer];
    return in_pieces_[result_.values[value].producer] && !producer.op->costly &&
           std::all_of(producer.inputs.begin(), producer.inputs.end(),
                       [&](ValueId input) { return !result_.values[input].producer.valid() || saved_[input]; });
  }

  // The value itself where it is kept, else its clone, made here if this is the first use. In pieces there are two: those that
  // only pass through a piece to the value behind it, and those for the piece's own backward nodes.
  ValueId available(ValueId value, bool passing) {
    const NodeId producer = result_.values[value].producer;
    if (!producer.valid() || producer.index >= dropped_.size() || !dropped_[producer]) return value;
    const bool passes = in_pieces_[producer] && (passing || crossing_[value]);
    PerValue<ValueId>& clones = passes ? passing_clones_ : clones_;
    if (!clones[value].valid()) clone(producer, passes, clones);
    return clones[value];
  }

  void clone(NodeId original, bool passing, PerValue<ValueId>& clones) {
    std::vector<ValueId> inputs = result_.nodes[original].inputs;
    for (ValueId& input : inputs) {
      input = available(input, passing);
      read_by_clone_[input] = 1;
    }
    const std::vector<ValueId> outputs = result_.nodes[original].outputs;
    const std::vector<ValueId> copies = add_clone(result_, original, std::move(inputs), /*backward=*/true);
    read_by_clone_.resize(result_.values.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) clones[outputs[i]] = copies[i];
  }

  Graph result_;
  PerNode<char> dropped_;
  PerValue<char> crossing_;  // from one piece to the next
  PerNode<char> in_pieces_;
  PerValue<ValueId> clones_, passing_clones_;
  PerValue<char> read_by_clone_;
  PerValue<char> saved_;
};

}  // namespace

std::string_view name(BlockMode mode) {
  switch (mode) {
    case BlockMode::keep: return "keep";
    case BlockMode::cheap: return "cheap";
    case BlockMode::recompute: return "recompute";
    case BlockMode::pieces: return "recompute in pieces";
    case BlockMode::joined: return "recompute with the one before";
  }
  return "?";
}

Graph apply_recompute(Graph graph, const std::vector<GraphBlock>& blocks, const std::vector<BlockChoice>& choices) {
  return Rewrite(std::move(graph), blocks, choices).run();
}

}  // namespace plimsoll
