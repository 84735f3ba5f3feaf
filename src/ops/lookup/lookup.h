// Rows of a table by their numbers: y[b, t] = table[token[b, t]], of a table of fp32, bf16 or blocks; y is fp32. The gradient is
// that of ops/embedding; a table in blocks is frozen and has none. gather_rows takes rows of a computed value.
#pragma once

#include <optional>
#include <string>

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

struct LookupAttributes {
  std::int64_t padding = -1;               // the row that gets no gradient; -1: none
  std::optional<BlockMatrix> blocks = {};  // of a table that is stored in them
  friend bool operator==(const LookupAttributes&, const LookupAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    if (padding >= 0) v("padding", padding);
    if (blocks) v("blocks", *blocks);
  }
};

// gather_rows: (x f32 [b, t, c], index i32 [n]) -> [n, c]: rows of the b * t that x has, one sample after the other.
extern const OpDef kLookup, kGatherRows;

ValueId lookup(GraphBuilder& builder, ValueId tokens, ValueId table, std::int64_t padding, std::string name);
ValueId gather_rows(GraphBuilder& builder, ValueId x, ValueId index, std::string name);

}  // namespace plimsoll::ops
