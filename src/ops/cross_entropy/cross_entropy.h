// Softmax cross-entropy of logits over classes: the loss of a classifier. Labels below zero are ignored: loss 0, gradient 0.
// For a language model, whose logits are too many to be held at once, the loss is linear_cross_entropy (ops/loss).
#pragma once

#include "graph/builder.h"

namespace plimsoll::ops {

// A row has logits x and the label t. Its loss is logsumexp(x) - (1 - s) x[t] - s mean(x) with s = label_smoothing (Szegedy et
// al., 2016, as in PyTorch).
struct CrossEntropyAttributes {
  double label_smoothing = 0;
  PLIMSOLL_FIELDS(label_smoothing)
};

// Backward: (logits, labels, scale) -> d_logits, the gradient of sum(losses) * scale.
extern const OpDef kCrossEntropy, kCrossEntropyBackward;

// logits f32 [..., classes], labels i32 [...], scale f32 [1] -> losses f32 [...]. The scale multiplies the gradient alone; for a
// mean over a window it is 1 / labels of the window. The backward pass begins here, so no other op may read the losses.
ValueId cross_entropy(GraphBuilder& builder, ValueId logits, ValueId labels, ValueId scale,
                      const CrossEntropyAttributes& attributes = {});

}  // namespace plimsoll::ops
