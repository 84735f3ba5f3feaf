// Recomputation as a rewrite of the graph: forward values that a block drops are computed again by clones, just before the
// backward pass first reads them. A clone is the same node with the same attributes and site, so its bits are the same.
#pragma once

#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "plan/blocks.h"

namespace plimsoll {

enum class BlockMode : std::uint8_t {
  keep,       // everything that backward reads stays
  cheap,      // results of matrix products and attention stay; norms, activations and dropout are computed again
  recompute,  // only the block's input stays
  pieces,     // the same; the block runs through once more for the values between its pieces, then each piece recomputes
  joined,     // the same, and the block's input is computed again with the block before it
};
std::string_view name(BlockMode mode);

// `modes[i]` is for `blocks[i]`. Value ids of the original nodes keep their meaning.
Graph apply_recompute(Graph graph, const std::vector<GraphBlock>& blocks, const std::vector<BlockMode>& modes);

}  // namespace plimsoll
