// Attention in O(T) memory (Dao et al., FlashAttention, 2022; tiles, online softmax). A query sees the keys up to its own place,
// or without `causal` all keys of its row. The op saves its output [b, t, heads * d] and the log-sum-exp [b, heads, t]. Operands,
// output and gradients may be fp32, bf16 or fp16 independently. Dropout applies to the probabilities; its mask is a function of
// (sample, head, query, key) and never stored. A window is the number of keys that a query sees, its own included. With segments
// i32 [b, t] a query sees only keys with its own number. With sample_ids of tokens (ops/check.h) a sample has the same noise as
// alone in a row.
#pragma once

#include <string_view>
#include <vector>

#include "graph/builder.h"

namespace plimsoll::ops {

// Queries, keys and values with contiguous heads along the last axis: one packed operand that holds them in this order, or three.
//   packed    qkv [b, t, (heads + 2 * kv_heads) * d]
//   separate  q [b, t, heads * d], k and v [b, t, kv_heads * d]
// The heads h * g .. h * g + g - 1 of the queries read head h of keys and values, g = heads / kv_heads (Ainslie et al., "GQA",
// 2023). Operands are the first inputs of an op; each rule takes the shape of the first one.
struct QkvLayout {
  std::int64_t heads = 1, kv_heads = 1;
  bool separate = false;

  std::size_t operands() const { return separate ? 3 : 1; }
  std::int64_t head_size(const Shape& first) const { return first.last() / (separate ? heads : heads + 2 * kv_heads); }
  Shape queries(const Shape& first) const { return {first[0], first[1], heads * head_size(first)}; }
  Shape keys(const Shape& first) const { return {first[0], first[1], kv_heads * head_size(first)}; }
  // Throws E-SHAPE if the operands have other shapes, or if the number of inputs is not that of the operands plus `more`.
  void require(TypeSpan inputs, std::size_t more, std::string_view where) const;

  template <class V>
  void fields(V&& v) const {
    v("heads", heads);
    if (kv_heads != heads) v("kv_heads", kv_heads);
    if (separate) v("separate", separate);
  }
};

struct AttentionAttributes {
  QkvLayout layout;
  std::int64_t window = 0;  // keys that a query sees; 0: all
  double scale = 0;         // factor of the scores; 0: 1 / sqrt(d)
  bool segments = false;    // the last input is segments
  double dropout = 0;
  NoiseKey key{};
  DType output = DType::f32;  // type of the output, or of all gradients; the log-sum-exp and all arithmetic are fp32
  bool causal = true;         // false: no window, no segments, and sample_ids of rows
  template <class V>
  void fields(V&& v) const {
    layout.fields(v);
    if (window > 0) v("window", window);
    if (scale != 0) v("scale", scale);
    v("dropout", dropout), v("key", key), v("output", output);
    if (segments) v("segments", segments);
    if (!causal) v("causal", causal);
  }
};

struct AttentionBackwardAttributes {
  AttentionAttributes forward;        // its output: the type of the gradients
  bool q = true, k = true, v = true;  // gradients that the op makes, all of a packed operand
  bool makes(std::size_t operand) const { return operand == 0 ? q : operand == 1 ? k : v; }
  template <class V>
  void fields(V&& visit) const {
    forward.fields(visit);
    if (!q) visit("q", q);
    if (!k) visit("k", k);
    if (!v) visit("v", v);
  }
};

// attention: (operands, sample_ids, [segments]) -> out, lse
// attention_backward: (operands, sample_ids, out, lse, d_out, [segments]) -> [d_q], [d_k], [d_v], or d_qkv
extern const OpDef kAttention, kAttentionBackward;

// `qkv`: the operands of attributes.layout. `segments` may be invalid. The key of the noise depends on the seed and the place in
// the model.
ValueId attention(GraphBuilder& builder, std::vector<ValueId> qkv, ValueId sample_ids, ValueId segments,
                  AttentionAttributes attributes, std::uint64_t seed);

}  // namespace plimsoll::ops
