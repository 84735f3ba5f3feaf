// How the frozen matrices of linear layers are stored, as a rewrite of a forward graph: before its gradients, and after whatever
// freezes parameters. A matrix that products alone read, as their right operand, becomes bf16 or blocks, and its products those
// of ops/block_matmul. Embeddings, heads, norms and biases stay as they are.
#pragma once

#include <cstddef>

#include "graph/graph.h"

namespace plimsoll {

enum class BaseFormat : std::uint8_t { none, bf16, int8, nf4 };

struct FrozenBase {
  BaseFormat format = BaseFormat::none;
  bool nested = true;  // the scales of nf4 are stored in blocks, too
  friend bool operator==(const FrozenBase&, const FrozenBase&) = default;
};

// The matrices of linear layers that are frozen, or may be.
std::vector<ValueId> linear_matrices(const Graph& graph);

// Stores the frozen ones of them so. Returns how many there are.
std::size_t store_base(Graph& graph, const FrozenBase& base);
// The same of a graph that nothing trains: all of them count as frozen.
void freeze_base(Graph& graph, const FrozenBase& base);

// Stores one frozen matrix in blocks: of a linear layer, or a table of lookups and of the head. False, and nothing is changed,
// where something else reads it. No embedding with learned positions takes blocks.
bool store_blocks(Graph& graph, ValueId parameter, BlockFormat format);

}  // namespace plimsoll
