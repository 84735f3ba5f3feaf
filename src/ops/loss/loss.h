// The language-model head fused with softmax cross-entropy: losses per token of logits h W^T, without holding all logits. The
// planner chooses the number of chunks of the work; no bit depends on it (canonical tiles, ops/loss/kernels.h). Targets below
// zero are ignored: loss 0, no gradient.
#pragma once

#include <optional>

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

// A token has logits x over the vocabulary, L = logsumexp(x) and a target t. Its loss is L - (1 - s) x[t] - s mean(x) + z L^2.
// s is label_smoothing (Szegedy et al., 2016, as in PyTorch), z is z_loss (de Brebisson and Vincent, 2016; PaLM).
struct LossAttributes {
  double label_smoothing = 0, z_loss = 0;
  bool accumulate = false;                        // backward: the last input is the accumulator of d_w, updated in place
  bool h = true, w = true;                        // backward: the gradients that it makes
  std::optional<BlockMatrix> blocks = {};         // the blocks of a stored w, which has no gradient
  std::size_t of_w() const { return h ? 2 : 1; }  // the output that is d_w
  template <class V>
  void fields(V&& v) const {
    v("label_smoothing", label_smoothing), v("z_loss", z_loss), v("accumulate", accumulate);
    if (!h) v("h", h);
    if (!w) v("w", w);
    v("blocks", blocks);
  }
};

// Backward: (h, w, targets, inverse_units, [into w]) -> losses, [d_h], [d_w]: the gradient of sum(losses) * inverse_units.
extern const OpDef kLinearCrossEntropy, kLinearCrossEntropyBackward;

// h [b, t, c] of fp32 or of 16 bits, to which w and the logits' gradient are then rounded as well; w [v, c] or its blocks,
// targets i32 [b, t], inverse_units f32 [1] (one over the valid units of the window) -> losses f32 [b, t]
ValueId linear_cross_entropy(GraphBuilder& builder, ValueId h, ValueId w, ValueId targets, ValueId inverse_units,
                             const LossAttributes& attributes = {});

}  // namespace plimsoll::ops
