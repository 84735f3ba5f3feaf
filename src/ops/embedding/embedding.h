// Embedding: y[b, t] = table[token[b, t]] in fp32, for a table of fp32, bf16 or blocks. Learned positions, fp32 or bf16, are
// added: row t or the row given for the token. The gradients add into the accumulators of both tables; rows of positions past the
// sequence get zero. A table in blocks is frozen and has no positions.
#pragma once

#include <optional>
#include <string>

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

enum class LearnedPositions { in_order, given, none };
std::string attribute_text(LearnedPositions positions);

struct EmbeddingAttributes {
  LearnedPositions positions = LearnedPositions::in_order;
  std::int64_t padding = -1;               // the row of the table that gets no gradient; -1: none
  std::optional<BlockMatrix> blocks = {};  // of the table
  template <class V>
  void fields(V&& v) const {
    if (positions != LearnedPositions::in_order) v("positions", positions);
    if (padding >= 0) v("padding", padding);
    v("blocks", blocks);
  }
};

struct EmbeddingBackwardAttributes {
  std::int64_t rows = 0;      // number of rows of the table
  bool accumulate = false;    // last input: the accumulator, updated in place
  std::int64_t padding = -1;  // of token_gradient: the token without a gradient; -1: none
  template <class V>
  void fields(V&& v) const {
    v("rows", rows), v("accumulate", accumulate);
    if (padding >= 0) v("padding", padding);
  }
};

struct TokenSlotsAttributes {
  std::int64_t slots = 0;     // the most slots of a window
  std::int64_t padding = -1;  // the token that gets no slot, which is -1; -1: none
  template <class V>
  void fields(V&& v) const {
    v("slots", slots);
    if (padding >= 0) v("padding", padding);
  }
};

struct AddRowsAttributes {
  bool slots = false;  // last input: the slot of each row
  PLIMSOLL_FIELDS(slots)
};

// embedding: (tokens i32 [b, t], table [rows, c], [positions [>= t, c]], [position of each token i32 [b, t]]) -> y [b, t, c].
//
// The looked-up rows of a table with other readers have an accumulator of their own until the update, so that additions keep the
// order of the micro-batches. If a window looks up few rows, each of these has a slot. token_slots gives each token [b, t] the
// slot of its row, in the order in which a window first looks up rows. The map [rows + 1] holds slot + 1 of each row, or 0, and
// last the number of slots. add_rows: accumulator [rows, c] += all rows [rows, c], or the rows with a slot [slots, c].
// squares_with_rows: the same inputs -> f64[1], the sum of squares of this sum; the accumulator stays as it is.
extern const OpDef kEmbedding, kTokenGradient, kPositionGradient, kTokenSlots, kAddRows, kSquaresWithRows;

// `positions`: the table of learned positions; `given`: the position of each token. Both may be invalid.
ValueId embedding(GraphBuilder& builder, ValueId tokens, ValueId table, ValueId positions, ValueId given, std::int64_t padding,
                  std::string name);

}  // namespace plimsoll::ops
