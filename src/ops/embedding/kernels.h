// Embedding lookups and their gradients on the CPU: fp32 tables, i32 tokens in [0, vocabulary). Buffers do not overlap.
// Gradients add the rows in ascending order, whatever the number of threads; with `accumulate` they add to what is there,
// otherwise they overwrite it. Nothing allocates.
#pragma once

#include <cstdint>

namespace plimsoll::cpu {

struct EmbeddingShape {
  std::int64_t batch, tokens, width;  // tokens of one sample
};

// The rows of a table that a call has; tokens of other rows are passed over.
struct TableRows {
  std::int64_t begin, count;

  bool contains(std::int32_t token) const { return token >= begin && token < begin + count; }
};

// table [rows, width], positions [>= tokens, width] or null -> out [batch, tokens, width] = table[token] + positions[t].
void embedding_forward(const EmbeddingShape& shape, TableRows rows, const std::int32_t* tokens, const float* table,
                       const float* positions, float* out);
// d_table[token] += d_out row, for each token in ascending order. d_table is [rows, width].
void embedding_token_gradient(const EmbeddingShape& shape, TableRows rows, const std::int32_t* tokens, const float* d_out,
                              bool accumulate, float* d_table);
// d_positions [rows, width], rows >= tokens: the sum over the batch, in ascending order, which is then stored or added. Rows past
// the sequence get zero, or keep what they accumulated.
void embedding_position_gradient(const EmbeddingShape& shape, std::int64_t rows, const float* d_out, bool accumulate,
                                 float* d_positions);

}  // namespace plimsoll::cpu
