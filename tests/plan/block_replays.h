// Plans with a given mode for every repeated layer, as nodes that run again (plan/passes/replay.h), for tests of the planner, the
// program and the executor.
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
  keep,       // all values that backward reads stay
  cheap,      // some nodes run again: those with little cost for their bytes
  recompute,  // only the block's input stays
  pieces,     // the same; the block runs once more for the values between its pieces, then each piece recomputes
  joined,     // the same, and the block's input is recomputed with the previous block
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

// The mode of a block. `again`: for `cheap`, the nodes that run again, as ascending positions in the block.
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
  static constexpr int kNone = 0;  // the original value is the only copy

  void drop(const Unit& block, const BlockChoice& choice) {
    const BlockMode mode = choice.mode;
    if (mode == BlockMode::keep) return;
    for (std::size_t i = 0; i + 1 < block.nodes.size(); ++i) {  // the last node's output is the next block's input
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

  // In pieces, a value from which the piece was recomputed would stay live until a backward node reads it. If its node is cheap
  // and the inputs are live anyway, the value is made again at that reader: the output of a layer norm, for its linear layer's
  // weights.
  bool worth_a_second_time(ValueId value) const {
    if (copies_[value] == kNone || !read_by_copy_[static_cast<std::size_t>(copies_[value])]) return false;
    const Node& producer = graph_.nodes[graph_.values[value].producer];
    return in_pieces_[graph_.values[value].producer] && !producer.op->costly &&
           std::all_of(producer.inputs.begin(), producer.inputs.end(),
                       [&](ValueId input) { return !graph_.values[input].producer.valid() || saved_[input]; });
  }

  // The number of the live copy: kNone if the value is kept, else the number of a copy that is made at its first use. In pieces
  // there are two kinds of copies: one on the way through a piece to the next one, and one for the piece's own backward nodes.
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
    // A view of a new copy needs no replay of its own.
    if (!graph_.nodes[node].op->view) replays_.push_back({node, before_});
    for (const ValueId output : graph_.nodes[node].outputs) {
      copies[output] = static_cast<int>(read_by_copy_.size());
      read_by_copy_.push_back(0);
    }
  }

  const Graph& graph_;
  PerNode<char> dropped_;
  PerValue<char> crossing_;  // true: the value crosses from one piece to the next
  PerNode<char> in_pieces_;
  PerValue<int> copies_, passing_copies_;
  std::vector<char> read_by_copy_{0};  // by copy: true if a replay reads it
  PerValue<char> saved_;
  NodeId before_;
  std::vector<NodeReplay> replays_;
};

}  // namespace block_replays

// `choices[i]` is for `blocks[i]`. Each node runs again right before the first backward node that reads its result.
inline std::vector<NodeReplay> replays_of_blocks(const Graph& graph, const std::vector<Unit>& units,
                                                 const std::vector<BlockChoice>& choices) {
  return block_replays::BlockPlacement(graph, units, choices).run();
}

}  // namespace plimsoll
