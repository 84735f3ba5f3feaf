// Rows by their numbers on the CPU. Buffers do not overlap; nothing allocates, and the number of threads changes no bit.
#pragma once

#include <cstdint>

#include "device/cpu/stored_matrix.h"
#include "ops/embedding/kernels.h"

namespace plimsoll::cpu {

// table [rows, width] -> out [batch, tokens, width] = table[token], in fp32. Rows of `out` whose token is not in `rows` stay.
void lookup(const EmbeddingShape& shape, TableRows rows, const std::int32_t* tokens, TableNumbers table, float* out);

// The same of a table that is stored otherwise, and all here.
void lookup(const EmbeddingShape& shape, const std::int32_t* tokens, const StoredMatrix& matrix, const std::byte* table,
            float* out);

// out [rows, width] = x[index], of rows of that width.
void gather_rows(std::int64_t rows, std::int64_t width, const float* x, const std::int32_t* index, float* out);

}  // namespace plimsoll::cpu
