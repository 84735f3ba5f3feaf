// Half the squared error of each element: the loss of a regression.
#pragma once

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

// Backward: (prediction, target, scale) -> d_prediction, the gradient of sum(losses) * scale: (prediction - target) * scale.
extern const OpDef kSquaredError, kSquaredErrorBackward;

// prediction and target f32 of one shape, scale f32 [1] -> losses f32 of that shape: (prediction - target)^2 / 2. The scale
// multiplies the gradient alone; for a mean over a window it is 1 / elements of the window. The backward pass begins here, so no
// other op may read the losses. The target gets no gradient.
ValueId squared_error(GraphBuilder& builder, ValueId prediction, ValueId target, ValueId scale);

}  // namespace plimsoll::ops
