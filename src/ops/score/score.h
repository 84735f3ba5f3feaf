// Scores of rows against a table: logits[n, v] = x[n] . table[v], for passes whose results are logits. The product runs in tiles
// of kTableRows rows of the table, so that a table on another tier may come in ranges, with the same bits.
#pragma once

#include <optional>
#include <string>

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

struct ScoreAttributes {
  std::optional<BlockMatrix> blocks = {};  // the blocks of a stored table
  PLIMSOLL_FIELDS(blocks)
};

// (x f32 [n, c], table [v, c] of fp32 or bf16, or in blocks) -> f32 [n, v]. It has no gradient: training does not hold logits.
extern const OpDef kScore;

ValueId score(GraphBuilder& builder, ValueId x, ValueId table, std::string name);

}  // namespace plimsoll::ops
