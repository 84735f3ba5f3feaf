// A frozen matrix in its stored form: numbers of fp32 or 16 bits, or blocks (tensor/block_format.h). Elements count row by row.
// Reading gives fp32, or 16 bits rounded to nearest even; the bits do not depend on the cut into ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tensor/block_format.h"
#include "tensor/dtype.h"

namespace plimsoll::cpu {

struct StoredMatrix {
  DType dtype = DType::f32;  // type of its numbers; u8 for blocks
  std::optional<BlockMatrix> blocks = {};
  DType rounded = DType::f32;  // the type to which reading rounds the elements
};

// "bf16", "nf4"
std::string name(const StoredMatrix& matrix);

// Reads elements [first, first + out.size()) as fp32, rounded to matrix.rounded.
void read_elements(const StoredMatrix& matrix, const std::byte* stored, std::int64_t first, std::span<float> out);

// Rows and columns of a matrix that has `of_columns` columns.
struct Part {
  std::int64_t row = 0, rows = 0, column = 0, columns = 0, of_columns = 0;
};
// Reads a part as a dense matrix of type `to`, fp32 or of 16 bits, with all threads.
void read_part(const StoredMatrix& matrix, const std::byte* stored, const Part& part, DType to, void* out);

}  // namespace plimsoll::cpu
