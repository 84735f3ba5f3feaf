// Scratch of attention on a GPU, and the requests that its kernels support.
#pragma once

#include "ops/attention/attention.h"
#include "ops/families.h"

namespace plimsoll {

// Throws E-CUDA-OP for layouts and masks that only the CPU supports.
inline void require_cuda_attention(const KernelRequest& request) {
  const bool backward = request.op == &ops::kAttentionBackward;
  const auto& a = backward ? request.attributes->as<ops::AttentionBackwardAttributes>().forward
                           : request.attributes->as<ops::AttentionAttributes>();
  const bool plain = !a.layout.separate && a.layout.kv_heads == a.layout.heads && a.window == 0 && a.scale == 0;
  ops::require_on_gpu(plain && !a.segments, request, plain ? "rows of several samples" : "this layout of attention",
                      "packed queries, keys and values of as many heads each, without a window, a scale or segments");
}

// Holds the dot product of output and gradient for each token and head.
inline Bytes cuda_attention_backward_scratch(const KernelRequest& request) {
  const auto& a = request.attributes->as<ops::AttentionBackwardAttributes>().forward;
  const Shape& qkv = request.inputs[0].shape;
  return Bytes{4 * qkv[0] * qkv[1] * a.layout.heads};
}

}  // namespace plimsoll
