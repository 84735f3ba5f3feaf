// Causal multi-head attention over packed projections, in O(T) memory (Dao et al., FlashAttention, 2022; tiles, online softmax).
// qkv [b, t, 3c] holds query, key and value along the last axis, heads contiguous. Saves the output and the log-sum-exp [b,
// heads, t]. qkv, the output and their gradients may be fp32, bf16 or fp16. Dropout falls on the probabilities, its mask is keyed
// by (sample, head, query, key) and never stored.
#pragma once

#include "graph/builder.h"

namespace plimsoll::ops {

struct AttentionAttributes {
  std::int64_t heads = 1;
  double dropout = 0;
  NoiseKey key{};
  DType output = DType::f32;  // of the first output; the log-sum-exp and all arithmetic are fp32
  friend bool operator==(const AttentionAttributes&, const AttentionAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("heads", heads), v("dropout", dropout), v("key", key), v("output", output);
  }
};

// attention: (qkv, sample_ids) -> out, lse;  attention_backward: (qkv, sample_ids, out, lse, d_out) -> d_qkv
extern const OpDef kAttention, kAttentionBackward;

ValueId attention(GraphBuilder& builder, ValueId qkv, ValueId sample_ids, std::int64_t heads, double dropout, std::uint64_t seed);

}  // namespace plimsoll::ops
