// Embeddings and their gradients on the CPU: tables of fp32, bf16 or blocks, fp32 gradients, i32 tokens in [0, vocabulary).
// Buffers do not overlap. Gradients add the rows in ascending order; with `accumulate` they add to the present values, otherwise
// they overwrite them. Nothing allocates, and the number of threads changes no bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cpu/elements.h"
#include "device/cpu/stored_matrix.h"

namespace plimsoll::cpu {

struct EmbeddingShape {
  std::int64_t batch, tokens, width;  // tokens of one sample
};

// The rows of a table in a call; tokens of other rows are skipped.
struct TableRows {
  std::int64_t begin, count;

  bool contains(std::int32_t token) const { return token >= begin && token < begin + count; }
};

// Learned positions, added to the entries of the table.
struct AddedPositions {
  ConstElements table = {nullptr, DType::f32};  // [rows, width]; null: none
  const std::int32_t* rows = nullptr;           // row of each token, [batch, tokens]; null: its place in the sample
};

// table [rows, width] -> out [batch, tokens, width] = table[token] + position, in fp32. Rows of `out` whose token is not in
// `rows` do not change.
void embedding_forward(const EmbeddingShape& shape, TableRows rows, const std::int32_t* tokens, ConstElements table,
                       const AddedPositions& positions, float* out);
// table in blocks -> out = table[token].
void embedding_forward(const EmbeddingShape& shape, const std::int32_t* tokens, const StoredMatrix& matrix,
                       const std::byte* table, float* out);
// d_table[token] += d_out row, for each token in ascending order. d_table is [rows, width]. The token `padding` and negative
// tokens add nothing.
void embedding_token_gradient(const EmbeddingShape& shape, TableRows rows, const std::int32_t* tokens, const float* d_out,
                              bool accumulate, float* d_table, std::int64_t padding = -1);
// d_positions [rows, width], rows >= tokens: writes or adds the sum over the batch, in ascending order. Rows past the sequence
// get zero, or stay with `accumulate`.
void embedding_position_gradient(const EmbeddingShape& shape, std::int64_t rows, const float* d_out, bool accumulate,
                                 float* d_positions);

// Gives rows of a table slots, in the order of their first tokens. map [rows + 1]: slot + 1 of each row, or 0, and last the
// number of slots. Writes the slot of each token to out [tokens]; -1 for the token `padding`. Returns the new number of slots,
// or slots + 1 if these do not suffice; `out` is then incomplete.
std::int64_t give_slots(std::int64_t tokens, std::int64_t rows, std::int64_t slots, const std::int32_t* token, std::int32_t* map,
                        std::int32_t* out, std::int64_t padding = -1);
// Adds rows[slot of a row] to each row with a slot, in the elements [begin, begin + count) of a table of `width` columns. `sum`
// points to the first of these elements.
void add_rows(std::int64_t begin, std::int64_t count, std::int64_t width, const float* rows, const std::int32_t* map, float* sum);

// The fp64 sum of squares of `table` with its rows added, in fp32, for the same elements; it is added to `before`. Tiles are
// added in ascending order: ranges that begin at their multiples change no bit. Without a map, `rows` points to the elements that
// belong to those of `table`.
inline constexpr std::int64_t kSquaresTile = 4096;
Bytes squares_with_rows_scratch(std::int64_t elements);
double squares_with_rows(std::int64_t begin, std::int64_t count, std::int64_t width, const float* table, const float* rows,
                         const std::int32_t* map, double before, std::byte* scratch);

}  // namespace plimsoll::cpu
