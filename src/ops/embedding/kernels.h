// Embedding lookups and their gradients on the CPU: tables of fp32 or bf16, fp32 gradients, i32 tokens in [0, vocabulary).
// Buffers do not overlap. Gradients add the rows in ascending order, whatever the number of threads; with `accumulate` they add
// to what is there, otherwise they overwrite it. Nothing allocates.
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

// fp32 or bf16.
struct TableNumbers {
  TableNumbers(const float* data) : exact(data) {}           // NOLINT: a pointer is all that it is
  TableNumbers(const std::uint16_t* data) : narrow(data) {}  // NOLINT
  const float* exact = nullptr;
  const std::uint16_t* narrow = nullptr;
};

// table [rows, width], positions [>= tokens, width] -> out [batch, tokens, width] = table[token] + positions[t], in fp32.
void embedding_forward(const EmbeddingShape& shape, TableRows rows, const std::int32_t* tokens, TableNumbers table,
                       TableNumbers positions, float* out);
// d_table[token] += d_out row, for each token in ascending order. d_table is [rows, width]. The token `padding` adds nothing, nor
// do negative ones.
void embedding_token_gradient(const EmbeddingShape& shape, TableRows rows, const std::int32_t* tokens, const float* d_out,
                              bool accumulate, float* d_table, std::int64_t padding = -1);
// d_positions [rows, width], rows >= tokens: the sum over the batch, in ascending order, which is then stored or added. Rows past
// the sequence get zero, or keep what they accumulated.
void embedding_position_gradient(const EmbeddingShape& shape, std::int64_t rows, const float* d_out, bool accumulate,
                                 float* d_positions);

// Slots of the rows of a table, in the order in which rows are first seen. map [rows + 1]: one more than each row's slot, or 0,
// and last how many there are. Fills out [tokens] and returns how many slots there are then; gives none past `slots`, and none to
// the token `padding`, which is -1 in `out`.
std::int64_t give_slots(std::int64_t tokens, std::int64_t rows, std::int64_t slots, const std::int32_t* token, std::int32_t* map,
                        std::int32_t* out, std::int64_t padding = -1);
// The elements [begin, begin + count) of a table of `width` columns, to which `sum` points: each row that has a slot adds that
// row of `rows`.
void add_rows(std::int64_t begin, std::int64_t count, std::int64_t width, const float* rows, const std::int32_t* map, float* sum);

}  // namespace plimsoll::cpu
