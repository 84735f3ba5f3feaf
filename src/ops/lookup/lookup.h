// Rows of a table by their numbers: y[b, t] = table[token[b, t]], of a table of fp32 or bf16; y is fp32. The gradient is that of
// ops/embedding. gather_rows takes rows of a computed value.
#pragma once

#include <string>

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

struct LookupAttributes {
  std::int64_t padding = -1;  // the row that gets no gradient; -1: none
  friend bool operator==(const LookupAttributes&, const LookupAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    if (padding >= 0) v("padding", padding);
  }
};

// gather_rows: (x f32 [b, t, c], index i32 [n]) -> [n, c]: rows of the b * t that x has, one sample after the other.
extern const OpDef kLookup, kGatherRows;

ValueId lookup(GraphBuilder& builder, ValueId tokens, ValueId table, std::int64_t padding, std::string name);
ValueId gather_rows(GraphBuilder& builder, ValueId x, ValueId index, std::string name);

}  // namespace plimsoll::ops
