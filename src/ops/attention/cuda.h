// What attention on a GPU needs, which no GPU is asked for.
#pragma once

#include "graph/kernel_catalogue.h"
#include "ops/attention/attention.h"

namespace plimsoll {

// Of each row, what its gradient and its result multiply to: 4 bytes for each token and head.
inline Bytes cuda_attention_backward_scratch(const KernelRequest& request) {
  const Shape& qkv = request.inputs[0].shape;
  return Bytes{4 * qkv[0] * qkv[1] * request.attributes->as<ops::AttentionAttributes>().heads};
}

}  // namespace plimsoll
