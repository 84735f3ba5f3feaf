// Recomputation as a rewrite of the graph: forward values that a block drops are computed again by clones, just before the
// backward pass first reads them. A clone is the same node with the same attributes and site, so its bits are the same.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "plan/blocks.h"

namespace plimsoll {

enum class BlockMode : std::uint8_t {
  keep,       // everything that backward reads stays
  cheap,      // some nodes run again: those that cost little for their bytes
  recompute,  // only the block's input stays
  pieces,     // the same; the block runs through once more for the values between its pieces, then each piece recomputes
  joined,     // the same, and the block's input is computed again with the block before it
};
std::string_view name(BlockMode mode);

// What a block does. `again`: for `cheap`, which of its nodes run again, as positions in the block, ascending.
struct BlockChoice {
  BlockMode mode = BlockMode::keep;
  std::vector<std::size_t> again;

  BlockChoice(BlockMode mode) : mode(mode) {}  // NOLINT: a mode is a choice
  BlockChoice(BlockMode mode, std::vector<std::size_t> again) : mode(mode), again(std::move(again)) {}
  friend bool operator==(const BlockChoice&, const BlockChoice&) = default;
};

// `choices[i]` is for `blocks[i]`. Value ids of the original nodes keep their meaning.
Graph apply_recompute(Graph graph, const std::vector<GraphBlock>& blocks, const std::vector<BlockChoice>& choices);

}  // namespace plimsoll
