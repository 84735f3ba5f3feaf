// RMS normalisation over the last axis (Zhang and Sennrich, 2019): y = weight * round(x rstd), rstd = 1 / sqrt(mean(x^2) +
// epsilon), in fp32. x rstd is rounded to the dtype of y before the product, and the product once more, as Hugging Face's models
// do. A row is as long as the weight; the last axis of x holds one row or several (heads). rstd is saved for the gradient.
#pragma once

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

struct RmsNormAttributes {
  double epsilon = 1e-6;
  DType output = DType::f32;  // type of y; x is fp32, bf16 or fp16
  PLIMSOLL_FIELDS(epsilon, output)
};

struct RmsNormBackwardAttributes {
  bool accumulate = false;    // last input: the accumulator of the weight
  bool weight = true;         // the op makes the gradient of the weight
  DType output = DType::f32;  // type of y, to which x rstd is rounded
  template <class V>
  void fields(V&& v) const {
    v("accumulate", accumulate);
    if (!weight) v("weight", weight);
    v("output", output);
  }
};

// Backward: (dy, x, rstd, weight, [into weight]) -> dx, [dweight], with dy, x and dx of one dtype. If x needs no gradient:
// (dy, x, rstd, [into weight]) -> dweight.
extern const OpDef kRmsNorm, kRmsNormBackward, kRmsNormWeightGradient;

ValueId rms_norm(GraphBuilder& builder, ValueId x, ValueId weight, double epsilon);

}  // namespace plimsoll::ops
