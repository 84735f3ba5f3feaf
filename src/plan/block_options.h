// Which nodes of a block may run again in the backward pass so that their results need not be kept: of all such sets those that
// save most bytes for their seconds. Found for one block, they hold for every block of the same structure.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/blocks.h"
#include "plan/node_kernels.h"

namespace plimsoll {

// Positions of nodes in the block, in order. What a set takes more than keeping everything, and what the block then keeps from
// its forward to its backward pass besides its output.
struct BlockOption {
  std::vector<std::size_t> again;
  double seconds = 0;
  std::int64_t kept = 0;  // bytes
};

// From keeping everything to running everything again, from the fewest seconds to the most: a convex curve of seconds against
// bytes, so that any mixture of neighbours over equal blocks is one of the fastest for its bytes. Blocks of more than 14 nodes
// that could run again are asked for the cheapest for their bytes, one after the other, instead of for every set.
std::vector<BlockOption> block_curve(const Graph& graph, const GraphBlock& block, NodeKernels& kernels);

// At most so many options between the ends of a curve: those that it would miss most.
std::vector<BlockOption> block_options(std::vector<BlockOption> curve, std::size_t most);

}  // namespace plimsoll
