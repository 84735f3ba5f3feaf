// Scores of rows against a table: logits[n, v] = x[n] . table[v], for passes that hand out logits. The product runs in tiles of
// kTableRows rows of the table, so that a table that rests elsewhere may come in ranges, with the same bits.
#pragma once

#include <string>

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

// (x f32 [n, c], table f32 [v, c]) -> f32 [n, v]. It has no gradient: training does not hold logits.
extern const OpDef kScore;

ValueId score(GraphBuilder& builder, ValueId x, ValueId table, std::string name);

}  // namespace plimsoll::ops
