// The storage of frozen matrices, as a rewrite of a forward graph after freezing and before gradients. A matrix becomes bf16 or
// blocks if all its readers support that (OpDef::reads_stored). Norms and biases keep their type. So do embeddings and heads,
// unless the base keeps the form of its file.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
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
inline constexpr std::string_view kBaseFormatNames[] = {"none", "bf16", "int8", "nf4", "file"};  // in their order
constexpr std::string_view name(BaseFormat format) { return kBaseFormatNames[static_cast<std::size_t>(format)]; }

// A block format, or none for bf16.
using StoredForm = std::optional<BlockFormat>;

struct FrozenBase {
  BaseFormat format = BaseFormat::none;
  bool nested = true;                      // the scales of nf4 are stored in blocks as well
  std::map<std::string, StoredForm> file;  // for `file`: the parameters that are not fp32 there
  friend bool operator==(const FrozenBase&, const FrozenBase&) = default;
};

// The matrices of linear layers that are frozen or may be.
std::vector<ValueId> linear_matrices(const Graph& graph);

// Stores frozen matrices in the form of `base`; for `file` this includes frozen tables. Returns the number of matrices.
std::size_t store_base(Graph& graph, const FrozenBase& base);
// The same for a graph without training: all matrices count as frozen.
void freeze_base(Graph& graph, const FrozenBase& base);

// Stores one frozen matrix in this form. Returns false, and changes nothing, if a reader needs fp32.
bool store_frozen(Graph& graph, ValueId parameter, StoredForm form);

}  // namespace plimsoll
