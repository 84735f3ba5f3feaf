// Token and position embedding: y[b, t] = table[token[b, t]] + positions[t], of tables of fp32 or bf16. The gradients add into
// the two tables' accumulators; rows of `positions` past the sequence get zero.
#pragma once

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

struct EmbeddingBackwardAttributes {
  std::int64_t rows = 0;      // of the table
  bool accumulate = false;    // last input: the accumulator, updated in place
  std::int64_t padding = -1;  // of token_gradient: the token that is passed over; -1: none
  friend bool operator==(const EmbeddingBackwardAttributes&, const EmbeddingBackwardAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("rows", rows), v("accumulate", accumulate);
    if (padding >= 0) v("padding", padding);
  }
};

struct TokenSlotsAttributes {
  std::int64_t slots = 0;     // that a window can need
  std::int64_t padding = -1;  // the token that gets no slot, which is -1; -1: none
  friend bool operator==(const TokenSlotsAttributes&, const TokenSlotsAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("slots", slots);
    if (padding >= 0) v("padding", padding);
  }
};

struct AddRowsAttributes {
  bool slots = false;  // last input: the slot of each row
  friend bool operator==(const AddRowsAttributes&, const AddRowsAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("slots", slots);
  }
};

// The gradient of a table that other ops read too is kept apart until the update, so that the order of additions is that of the
// micro-batches whichever op's turn it is. Where a window looks up few rows they have slots: token_slots gives each token [b, t]
// the slot of its row, in the order in which rows are first seen in the window. The map [rows + 1] holds for each row one more
// than its slot, or 0, and last how many there are. add_rows: accumulator [rows, c] += rows, all of them [rows, c], or those with
// a slot [slots, c].
extern const OpDef kEmbedding, kTokenGradient, kPositionGradient, kTokenSlots, kAddRows;

// Emits the gradient of a table, the input 1, in which the tokens of the input 0 are looked up. The row `padding` gets none of
// it.
void add_row_gradient(GradientContext& context, std::int64_t padding = -1);

ValueId embedding(GraphBuilder& builder, ValueId tokens, ValueId table, ValueId positions, std::string name);

}  // namespace plimsoll::ops
