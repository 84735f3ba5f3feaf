// Token and position embedding: y[b, t] = table[token[b, t]] + positions[t]. The gradients add into the two tables' accumulators;
// rows of `positions` past the sequence get zero.
#pragma once

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

struct EmbeddingBackwardAttributes {
  std::int64_t rows = 0;    // of the table
  bool accumulate = false;  // last input: the accumulator, updated in place
  friend bool operator==(const EmbeddingBackwardAttributes&, const EmbeddingBackwardAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("rows", rows), v("accumulate", accumulate);
  }
};

// One row of x [1, t, c], chosen by an index that is fed: [1, c].
extern const OpDef kEmbedding, kTokenGradient, kPositionGradient, kSelectRow;

ValueId embedding(GraphBuilder& builder, ValueId tokens, ValueId table, ValueId positions, std::string name);

}  // namespace plimsoll::ops
