// Causal self-attention on the CPU: tiles of queries and keys with the online softmax (Dao et al., "FlashAttention", 2022), so
// memory beyond inputs and outputs is the scratch: a constant for each slot, plus 4 bytes for each token in backward. A call
// takes as many slots as it has `threads` (fewer where it has fewer tasks), however many the team has. Buffers are dense and
// row-major, 64-byte aligned; the caller owns all of them. Each of qkv, out and their gradients is fp32, bf16 or fp16, and is
// read and written as that; all arithmetic and all sums are fp32. A gradient of qkv of 16 bits takes 4 * head_size bytes more of
// a slot for each token. Results do not depend on the number of threads, and a row's result does not depend on the rows after it
// as long as these are finite: a tile multiplies what a query does not see by zero.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "device/cpu/elements.h"
#include "tensor/dtype.h"

namespace plimsoll::cpu {

struct AttentionShape {
  std::int64_t batch, tokens, heads, head_size;  // all at least 1
  const std::int32_t* segments = nullptr;        // as those of GroupedShape
};

// Several heads of queries share one head of keys and values: head h reads head h / group(). A query sees keys at or before its
// own place; with a window so many of them at most, itself included; with segments [batch, tokens] only those of its own number.
struct GroupedShape {
  std::int64_t batch, tokens, heads, kv_heads, head_size;  // heads is a multiple of kv_heads
  float scale;                                             // of the scores
  std::int64_t window = 0;                                 // 0: none
  const std::int32_t* segments = nullptr;                  // null: one

  std::int64_t group() const { return heads / kv_heads; }
};

// The elements of a token's queries, keys and values, heads contiguous. Strides are elements from one token to the next.
template <class E>
struct AttentionRows {
  E queries, keys, values;
  std::int64_t query_stride, key_stride;
};

// Dropout on the probabilities. The mask is a function of counters and is never stored: with element = (head * tokens + query) *
// tokens + key, word element % 4 of philox4x32(key, {element / 4 low, element / 4 high, sample, epoch}) keeps the probability
// where unit_float(word) >= probability; what is kept is multiplied by 1 / (1 - probability). With sample_ids of tokens, query
// and key are positions in the query's sample.
struct AttentionDropout {
  float probability = 0;  // in [0, 1)
  std::array<std::uint32_t, 2> key{};
  const std::uint32_t* sample_ids = nullptr;  // [batch, 2] = {epoch, sample}; may be null where probability is 0
  bool tokens = false;                        // they are [batch, tokens, 3] = {epoch, sample, position}
};

// Exact sizes for so many threads, every byte range [0, size) being the kernel's during the call.
Bytes attention_forward_scratch(const AttentionShape& shape, int threads);
Bytes attention_backward_scratch(const AttentionShape& shape, DType d_qkv, int threads);

// qkv [batch, tokens, 3, heads, head_size] -> out [batch, tokens, heads * head_size] and lse [batch, heads, tokens], the
// log-sum-exp of the scores q.k / sqrt(head_size) over the keys that a query sees.
void attention_forward(const AttentionShape& shape, const AttentionDropout& dropout, ConstElements qkv, Elements out, float* lse,
                       int threads, std::byte* scratch);

// d_qkv, of the shape of qkv, is overwritten. `out` and `lse` are what forward returned for the same shape, dropout and qkv.
void attention_backward(const AttentionShape& shape, const AttentionDropout& dropout, ConstElements qkv, ConstElements out,
                        const float* lse, ConstElements d_out, Elements d_qkv, int threads, std::byte* scratch);

// The same over separate queries [batch, tokens, heads, head_size] and keys and values [batch, tokens, kv_heads, head_size], of
// one type each. Scratch does not depend on window and segments. d_keys and d_values add the heads of their group in ascending
// order; a task of backward is such a group, for which it takes 4 bytes of scratch for each head and token, and with gradients of
// 16 bits 4 * head_size more. A gradient whose data is null is not made.
Bytes grouped_attention_forward_scratch(const GroupedShape& shape, int threads);
Bytes grouped_attention_backward_scratch(const GroupedShape& shape, DType gradients, int threads);
void grouped_attention_forward(const GroupedShape& shape, const AttentionDropout& dropout,
                               const AttentionRows<ConstElements>& rows, Elements out, float* lse, int threads,
                               std::byte* scratch);
void grouped_attention_backward(const GroupedShape& shape, const AttentionDropout& dropout,
                                const AttentionRows<ConstElements>& rows, ConstElements out, const float* lse,
                                ConstElements d_out, const AttentionRows<Elements>& gradients, int threads, std::byte* scratch);

}  // namespace plimsoll::cpu
