// What blocks do, as single nodes that run again (plan/passes/replay.h): for plans with values on other tiers, where every block
// has one of a few ways.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "plan/blocks.h"
#include "plan/passes/replay.h"

namespace plimsoll {

enum class BlockMode : std::uint8_t {
  keep,       // everything that backward reads stays
  cheap,      // some nodes run again: those that cost little for their bytes
  recompute,  // only the block's input stays
  pieces,     // the same; the block runs through once more for the values between its pieces, then each piece recomputes
  joined,     // the same, and the block's input is computed again with the block before it
};

// What a block does. `again`: for `cheap`, which of its nodes run again, as positions in the block, ascending.
struct BlockChoice {
  BlockMode mode = BlockMode::keep;
  std::vector<std::size_t> again;

  BlockChoice(BlockMode mode) : mode(mode) {}  // NOLINT: a mode is a choice
  BlockChoice(BlockMode mode, std::vector<std::size_t> again) : mode(mode), again(std::move(again)) {}
  friend bool operator==(const BlockChoice&, const BlockChoice&) = default;
};

// `choices[i]` is for `blocks[i]`. Each node runs again right before the first backward node that reads what it makes.
std::vector<NodeReplay> replays_of_blocks(const Graph& graph, const std::vector<GraphBlock>& blocks,
                                          const std::vector<BlockChoice>& choices);

}  // namespace plimsoll
