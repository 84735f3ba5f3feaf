// Self-attention on the CPU: tiles of queries and keys with the online softmax (Dao et al., "FlashAttention", 2022).
// Memory beyond inputs and outputs is the scratch: a constant for each slot, and in backward a few bytes for each token. A call
// has a slot for each of its `threads`, or for each task if there are fewer tasks. Buffers are row-major and 64-byte aligned; the
// caller owns them. Each operand, output and gradient is fp32, bf16 or fp16; all arithmetic and all sums are fp32. Results do not
// depend on the number of threads. A row's result does not depend on later rows if these are finite, because tiles multiply
// masked values by zero.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "device/cpu/elements.h"
#include "tensor/dtype.h"

namespace plimsoll::cpu {

// Several heads of queries share one head of keys and values: head h reads head h / group(). A query sees the keys up to its own
// place, with a window the last `window` of them, and with segments [batch, tokens] only those with its own number. Without
// `causal` it sees all keys; there is no window, and there are no segments then.
struct AttentionShape {
  std::int64_t batch, tokens, heads, kv_heads, head_size;  // heads is a multiple of kv_heads
  float scale;                                             // factor of the scores
  std::int64_t window = 0;                                 // 0: none
  const std::int32_t* segments = nullptr;                  // null: a row is one segment
  bool causal = true;

  std::int64_t group() const { return heads / kv_heads; }
  // The end of the keys that the queries before `end` see, and the first query that sees the keys from `begin` on.
  std::int64_t key_end(std::int64_t end) const { return causal ? end : tokens; }
  std::int64_t first_query(std::int64_t begin) const { return causal ? begin : 0; }
};

// The elements of a token's queries, keys and values, heads contiguous. Strides are elements from one token to the next.
template <class E>
struct AttentionRows {
  E queries, keys, values;
  std::int64_t query_stride, key_stride;
};

// Dropout on the probabilities. The mask is a function of counters and is never stored. The number of an element is
// (head * tokens + query) * tokens + key. Its word is word element % 4 of
// philox4x32(key, {element / 4 low, element / 4 high, sample, epoch}). The probability is kept if unit_float(word) >=
// probability. Kept ones are multiplied by 1 / (1 - probability). With sample_ids of tokens, query and key are positions in the
// query's sample.
struct AttentionDropout {
  float probability = 0;  // in [0, 1)
  std::array<std::uint32_t, 2> key{};
  const std::uint32_t* sample_ids = nullptr;  // [batch, 2] = {epoch, sample}; may be null if probability is 0
  bool tokens = false;                        // sample_ids are [batch, tokens, 3] = {epoch, sample, position}
};

// The rows of a packed array [batch, tokens, (heads + 2 kv_heads) * head_size]: queries, then keys, then values.
template <class E>
AttentionRows<E> packed_rows(const AttentionShape& shape, const E& qkv) {
  const std::int64_t width = shape.heads * shape.head_size, kv_width = shape.kv_heads * shape.head_size;
  return {qkv, qkv.from(width), qkv.from(width + kv_width), width + 2 * kv_width, width + 2 * kv_width};
}

// Bytes of the scratch for `threads` threads, for any window and any segments.
Bytes attention_forward_scratch(const AttentionShape& shape, int threads);
Bytes attention_backward_scratch(const AttentionShape& shape, DType gradients, int threads);

// Writes out [batch, tokens, heads * head_size], and lse [batch, heads, tokens]: the log-sum-exp of the scores over the keys that
// a query sees.
void attention_forward(const AttentionShape& shape, const AttentionDropout& dropout, const AttentionRows<ConstElements>& rows,
                       Elements out, float* lse, int threads, std::byte* scratch);

// Overwrites the gradients, except those with null data. `out` and `lse` are the results of forward for the same shape, dropout
// and rows. Gradients of keys and values add the heads of their group in ascending order. A task is such a group; its slot of the
// scratch has 4 bytes for each head and token, and 4 * head_size more with gradients of 16 bits.
void attention_backward(const AttentionShape& shape, const AttentionDropout& dropout, const AttentionRows<ConstElements>& rows,
                        ConstElements out, const float* lse, ConstElements d_out, const AttentionRows<Elements>& gradients,
                        int threads, std::byte* scratch);

}  // namespace plimsoll::cpu
