// How frozen matrices are stored, as a rewrite of a forward graph: before its gradients, and after whatever freezes parameters. A
// matrix becomes bf16 or blocks if all ops that read it say that they can (OpDef::reads_stored). Norms and biases stay as they
// are, and so do embeddings and heads, unless the base is kept as its file stores it.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

enum class BaseFormat : std::uint8_t {
  none,
  bf16,
  int8,
  nf4,
  file  // each matrix as its file stores it
};

// In blocks, or as bf16.
using StoredForm = std::optional<BlockFormat>;

struct FrozenBase {
  BaseFormat format = BaseFormat::none;
  bool nested = true;                      // the scales of nf4 are stored in blocks, too
  std::map<std::string, StoredForm> file;  // of `file`: the parameters that are not fp32 there
  friend bool operator==(const FrozenBase&, const FrozenBase&) = default;
};

// The matrices of linear layers that are frozen, or may be.
std::vector<ValueId> linear_matrices(const Graph& graph);

// Stores the frozen ones of them so, and of `file` frozen tables, too. Returns how many matrices that are.
std::size_t store_base(Graph& graph, const FrozenBase& base);
// The same of a graph that nothing trains: all of them count as frozen.
void freeze_base(Graph& graph, const FrozenBase& base);

// Stores one frozen matrix so. False, and nothing is changed, where an op that reads it needs fp32.
bool store_frozen(Graph& graph, ValueId parameter, StoredForm form);

}  // namespace plimsoll
