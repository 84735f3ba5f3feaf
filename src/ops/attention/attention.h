// Causal multi-head attention over packed projections, in O(T) memory (Dao et al., FlashAttention, 2022; tiles, online softmax).
// qkv [b, t, 3c] holds query, key and value along the last axis, heads contiguous. Saves the output and the log-sum-exp [b,
// heads, t]. qkv, the output and their gradients may be fp32, bf16 or fp16. Dropout falls on the probabilities, its mask is keyed
// by (sample, head, query, key) and never stored. Of packed rows, segments i32 [b, t] tell which tokens see each other and
// sample_ids are those of tokens (ops/grouped_attention); a GPU has no kernel for them.
#pragma once

#include "graph/builder.h"

namespace plimsoll::ops {

struct AttentionAttributes {
  std::int64_t heads = 1;
  double dropout = 0;
  NoiseKey key{};
  DType output = DType::f32;  // of the first output; the log-sum-exp and all arithmetic are fp32
  bool segments = false;      // last input
  friend bool operator==(const AttentionAttributes&, const AttentionAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("heads", heads), v("dropout", dropout), v("key", key), v("output", output);
    if (segments) v("segments", segments);
  }
};

// attention: (qkv, sample_ids, [segments]) -> out, lse
// attention_backward: (qkv, sample_ids, out, lse, d_out, [segments]) -> d_qkv
extern const OpDef kAttention, kAttentionBackward;

// `segments` may be invalid.
ValueId attention(GraphBuilder& builder, ValueId qkv, ValueId sample_ids, ValueId segments, std::int64_t heads, double dropout,
                  std::uint64_t seed);

}  // namespace plimsoll::ops
