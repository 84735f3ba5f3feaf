// Elementwise ops on values of one shape: fp32, activations also bf16 and fp16. All may write over an input that dies.
#pragma once

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

struct ScaleAttributes {
  double factor = 1;
  PLIMSOLL_FIELDS(factor)
};

extern const OpDef kAdd, kMultiply, kScale, kGelu, kGeluBackward, kRelu, kReluBackward, kRelu6, kRelu6Backward, kSilu,
    kSiluBackward, kGeluErf, kGeluErfBackward;
// Adds a gradient into an accumulator, for ops that cannot add by themselves: (gradient, into) -> into.
extern const OpDef kAccumulate;

// Adds a gradient into an accumulator of bf16: (gradient, step u32[2], into) -> into. The fp32 sum is rounded at random to one of
// its two neighbours in bf16. Noise is a function of (key, element, update, micro-step); `step` holds the last two. Without a key
// sums are rounded to the nearest.
struct RoundingAttributes {
  NoiseKey rounding{};
  PLIMSOLL_FIELDS(rounding)
};
extern const OpDef kAccumulateRounded;

ValueId add(GraphBuilder& builder, ValueId a, ValueId b, std::string name);
// GPT-2's GELU, by tanh (Hendrycks and Gimpel, 2016): x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
ValueId gelu(GraphBuilder& builder, ValueId x, std::string name);
// GELU by the normal distribution: x/2 (1 + erf(x / sqrt(2))).
ValueId gelu_erf(GraphBuilder& builder, ValueId x, std::string name);
// x sigmoid(x).
ValueId silu(GraphBuilder& builder, ValueId x, std::string name);

}  // namespace plimsoll::ops
