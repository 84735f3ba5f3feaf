// Scratch of attention on a GPU.
#pragma once

#include "ops/attention/attention.h"
#include "ops/families.h"

namespace plimsoll {

// Holds the dot product of output and gradient for each token and head.
inline Bytes cuda_attention_backward_scratch(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::AttentionBackwardAttributes>().forward;
  const Shape& first = request.inputs[0].shape;
  return Bytes{4 * first[0] * first[1] * a.layout.heads};
}

}  // namespace plimsoll
