// Causal attention over separate queries [b, t, heads * head_size], keys and values [b, t, kv_heads * head_size], heads
// contiguous: heads h * g .. h * g + g - 1 of the queries read head h of keys and values, g = heads / kv_heads (Ainslie et al.,
// "GQA", 2023). Work, memory, dropout and what is saved are those of ops/attention: the output and the log-sum-exp [b, heads, t].
// With a window a query sees so many keys at most, itself included; with segments i32 [b, t] it sees those of its own number
// alone, and with sample_ids of tokens (ops/check.h) the noise of a sample is what it is in a row of its own. Operands, the
// output and gradients may be fp32, bf16 or fp16, each its own.
#pragma once

#include "graph/builder.h"

namespace plimsoll::ops {

struct GroupedAttentionAttributes {
  std::int64_t heads = 1, kv_heads = 1;
  std::int64_t window = 0;  // 0: none
  double scale = 0;         // of the scores; 0: 1 / sqrt(head_size)
  bool segments = false;    // last input
  double dropout = 0;
  NoiseKey key{};
  DType output = DType::f32;  // of the output, or of all three gradients; the log-sum-exp and all arithmetic are fp32
  friend bool operator==(const GroupedAttentionAttributes&, const GroupedAttentionAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("heads", heads), v("kv_heads", kv_heads);
    if (window > 0) v("window", window);
    if (scale != 0) v("scale", scale);
    if (segments) v("segments", segments);
    v("dropout", dropout), v("key", key), v("output", output);
  }
};

// What the backward op makes beside what it reads by.
struct GroupedAttentionBackwardAttributes {
  GroupedAttentionAttributes forward;  // its output: the type of the gradients
  bool q = true, k = true, v = true;
  bool makes(std::size_t input) const { return input == 0 ? q : input == 1 ? k : v; }
  friend bool operator==(const GroupedAttentionBackwardAttributes&, const GroupedAttentionBackwardAttributes&) = default;
  template <class V>
  void fields(V&& visit) const {
    forward.fields(visit);
    if (!q) visit("q", q);
    if (!k) visit("k", k);
    if (!v) visit("v", v);
  }
};

// grouped_attention: (q, k, v, sample_ids, [segments]) -> out, lse
// grouped_attention_backward: (q, k, v, sample_ids, out, lse, d_out, [segments]) -> [d_q], [d_k], [d_v]
extern const OpDef kGroupedAttention, kGroupedAttentionBackward;

// `attributes`: its key follows from the seed and the place in the model. `segments` may be invalid.
ValueId grouped_attention(GraphBuilder& builder, ValueId q, ValueId k, ValueId v, ValueId sample_ids, ValueId segments,
                          GroupedAttentionAttributes attributes, std::uint64_t seed);

}  // namespace plimsoll::ops
