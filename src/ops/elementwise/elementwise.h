// Elementwise ops on fp32 values of one shape. All may write over an input that dies.
#pragma once

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

struct ScaleAttributes {
  double factor = 1;
  PLIMSOLL_FIELDS(factor)
};

extern const OpDef kAdd, kMultiply, kScale, kGelu, kGeluBackward, kRelu, kReluBackward;
// Adds a gradient into an accumulator, for ops that cannot add by themselves: (gradient, into) -> into.
extern const OpDef kAccumulate;

// Into an accumulator of bf16: (gradient, step u32[2], into) -> into. The sum is fp32 and rounded to one of its two neighbours at
// random; noise belongs to (key, element, update, micro-step), the latter two of which are the step. No key: to the nearest.
struct RoundingAttributes {
  NoiseKey rounding{};
  PLIMSOLL_FIELDS(rounding)
};
extern const OpDef kAccumulateRounded;

ValueId add(GraphBuilder& builder, ValueId a, ValueId b, std::string name);
// GPT-2's GELU, by tanh (Hendrycks and Gimpel, 2016): x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
ValueId gelu(GraphBuilder& builder, ValueId x, std::string name);

}  // namespace plimsoll::ops
