// The language-model head fused with softmax cross-entropy: per-token losses of logits h W^T, without ever holding all logits.
// The planner chooses into how many chunks the work is split; no bit depends on it (canonical tiles, ops/loss/kernels.h).
// Targets below zero are ignored: loss 0, no gradient.
#pragma once

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

// Backward: (h, w, targets, inverse_units, [into w]) -> losses, d_h, d_w: the gradient of sum(losses) * inverse_units.
extern const OpDef kLinearCrossEntropy, kLinearCrossEntropyBackward;

// h [b, t, c], w [v, c], targets i32 [b, t], inverse_units f32 [1] (one over the valid units of the window) -> losses f32 [b, t]
ValueId linear_cross_entropy(GraphBuilder& builder, ValueId h, ValueId w, ValueId targets, ValueId inverse_units);

}  // namespace plimsoll::ops
