// Softmax over the last axis. Its gradient needs only its output: dx = y (dy - sum(dy y)).
#pragma once

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

// softmax_backward: (dy, y) -> dx
extern const OpDef kSoftmax, kSoftmaxBackward;

ValueId softmax(GraphBuilder& builder, ValueId x, std::string name);

}  // namespace plimsoll::ops
