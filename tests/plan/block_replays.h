// Plans in which every repeated layer does something stated, as nodes that run again (plan/passes/replay.h): what tests of the
// planner, the program and the executor try.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "plan/passes/replay.h"
#include "plan/units.h"

namespace plimsoll {

enum class BlockMode : std::uint8_t {
  keep,       // everything that backward reads stays
  cheap,      // some nodes run again: those that cost little for their bytes
  recompute,  // only the block's input stays
  pieces,     // the same; the block runs through once more for the values between its pieces, then each piece recomputes
  joined,     // the same, and the block's input is computed again with the block before it
};

inline std::string_view name(BlockMode mode) {
  switch (mode) {
    case BlockMode::keep: return "keep";
    case BlockMode::cheap: return "cheap";
    case BlockMode::recompute: return "recompute";
    case BlockMode::pieces: return "recompute in pieces";
    case BlockMode::joined: return "recompute with the one before";
  }
  return "?";
}

// What a block does. `again`: for `cheap`, which of its nodes run again, as positions in the block, ascending.
struct BlockChoice {
  BlockMode mode = BlockMode::keep;
  std::vector<std::size_t> again;

  BlockChoice(BlockMode mode) : mode(mode) {}  // NOLINT: a mode is a choice
  BlockChoice(BlockMode mode, std::vector<std::size_t> again) : mode(mode), again(std::move(again)) {}
  friend bool operator==(const BlockChoice&, const BlockChoice&) = default;
};

namespace block_replays {

// Values of the forward pass that backward nodes read.
inline PerValue<char> saved_values(const Graph& graph) {
  PerValue<char> saved(graph.values.size());
  for (const NodeId id : graph.section_order(Section::micro)) {
    if (!graph.nodes[id].backward) continue;
    for (const ValueId input : graph.nodes[id].inputs) saved[input] = 1;
  }
  return saved;
}

class BlockPlacement {
 public:
  BlockPlacement(const Graph& graph, const std::vector<Unit>& units, const std::vector<BlockChoice>& choices)
      : graph_(graph),
        dropped_(graph.nodes.size()),
        crossing_(graph.values.size()),
        in_pieces_(graph.nodes.size()),
        copies_(graph.values.size()),
        passing_copies_(graph.values.size()),
        saved_(saved_values(graph)) {
    ensure(units.size() == choices.size(), "recompute", "one choice per block");
    for (std::size_t i = 0; i < units.size(); ++i) {
      drop(units[i], choices[i]);
      if (i > 0 && choices[i].mode == BlockMode::joined) drop_output(units[i - 1]);
    }
  }

  std::vector<NodeReplay> run() {
    for (const NodeId id : graph_.section_order(Section::micro)) {
      if (!graph_.nodes[id].backward) continue;
      before_ = id;
      for (const ValueId input : graph_.nodes[id].inputs) {
        if (worth_a_second_time(input)) make(graph_.values[input].producer, false, copies_);
        available(input, false);
      }
    }
    return std::move(replays_);
  }

 private:
  static constexpr int kNone = 0;  // no copy but the first

  void drop(const Unit& block, const BlockChoice& choice) {
    const BlockMode mode = choice.mode;
    if (mode == BlockMode::keep) return;
    for (std::size_t i = 0; i + 1 < block.nodes.size(); ++i) {  // the output of the last one is the next block's input
      const Node& node = graph_.nodes[block.nodes[i]];
      const bool chosen = std::binary_search(choice.again.begin(), choice.again.end(), i);
      dropped_[block.nodes[i]] = (mode == BlockMode::cheap ? chosen : true) && node.op->replayable;
    }
    if (mode == BlockMode::pieces || mode == BlockMode::joined) mark_pieces(block);
  }

  void mark_pieces(const Unit& block) {
    for (const NodeId id : block.nodes) in_pieces_[id] = 1;
    for (const NodeId id : block.cuts) {
      for (const ValueId output : graph_.nodes[id].outputs) crossing_[output] = 1;
    }
  }

  void drop_output(const Unit& block) {
    const NodeId last = block.nodes.back();
    dropped_[last] = graph_.nodes[last].op->replayable;
    in_pieces_[last] = 1;
    for (const ValueId output : graph_.nodes[last].outputs) crossing_[output] = 1;
  }

  // In pieces, what the piece itself was recomputed from would lie about until a backward node reads it. Where that costs little
  // and its inputs are there anyway, it is made again at that reader: the output of a layer norm, for its linear layer's weights.
  bool worth_a_second_time(ValueId value) const {
    if (copies_[value] == kNone || !read_by_copy_[static_cast<std::size_t>(copies_[value])]) return false;
    const Node& producer = graph_.nodes[graph_.values[value].producer];
    return in_pieces_[graph_.values[value].producer] && !producer.op->costly &&
           std::all_of(producer.inputs.begin(), producer.inputs.end(),
                       [&](ValueId input) { return !graph_.values[input].producer.valid() || saved_[input]; });
  }

  // The number of the copy that is there: kNone where the value is kept, else that of one that is made here if this is its first
  // use. In pieces there are two: those that only pass through a piece to the value behind it, and those for the piece's own
  // backward nodes.
  int available(ValueId value, bool passing) {
    const NodeId producer = graph_.values[value].producer;
    if (!producer.valid() || !dropped_[producer]) return kNone;
    const bool passes = in_pieces_[producer] && (passing || crossing_[value]);
    PerValue<int>& copies = passes ? passing_copies_ : copies_;
    if (copies[value] == kNone) make(producer, passes, copies);
    return copies[value];
  }

  void make(NodeId node, bool passing, PerValue<int>& copies) {
    for (const ValueId input : graph_.nodes[node].inputs) {
      if (const int copy = available(input, passing); copy != kNone) read_by_copy_[static_cast<std::size_t>(copy)] = 1;
    }
    // A view of a new copy is a new view by itself.
    if (!graph_.nodes[node].op->view) replays_.push_back({node, before_});
    for (const ValueId output : graph_.nodes[node].outputs) {
      copies[output] = static_cast<int>(read_by_copy_.size());
      read_by_copy_.push_back(0);
    }
  }

  const Graph& graph_;
  PerNode<char> dropped_;
  PerValue<char> crossing_;  // from one piece to the next
  PerNode<char> in_pieces_;
  PerValue<int> copies_, passing_copies_;
  std::vector<char> read_by_copy_{0};  // by copy: whether what runs again reads it
  PerValue<char> saved_;
  NodeId before_;
  std::vector<NodeReplay> replays_;
};

}  // namespace block_replays

// `choices[i]` is for `blocks[i]`. Each node runs again right before the first backward node that reads what it makes.
inline std::vector<NodeReplay> replays_of_blocks(const Graph& graph, const std::vector<Unit>& units,
                                                 const std::vector<BlockChoice>& choices) {
  return block_replays::BlockPlacement(graph, units, choices).run();
}

}  // namespace plimsoll
