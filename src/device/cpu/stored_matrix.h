// A frozen matrix as it lies in memory: numbers of fp32 or 16 bits, or blocks (tensor/block_format.h). Its elements count row by
// row. They come out as fp32, or rounded to nearest even to 16 bits; equal bits for any cut of a range.
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
  DType dtype = DType::f32;  // of its numbers; of blocks u8
  std::optional<BlockMatrix> blocks = {};
  DType rounded = DType::f32;  // its elements are rounded to this type before they are read
};

// "bf16", "nf4"
std::string name(const StoredMatrix& matrix);

// Elements [first, first + out.size()) as fp32, rounded where that is asked for.
void read_elements(const StoredMatrix& matrix, const std::byte* stored, std::int64_t first, std::span<float> out);

// Rows and columns of a matrix of so many columns.
struct Part {
  std::int64_t row = 0, rows = 0, column = 0, columns = 0, of_columns = 0;
};
// The part, dense and row by row, as `to`, which is fp32 or of 16 bits. All threads work on it.
void read_part(const StoredMatrix& matrix, const std::byte* stored, const Part& part, DType to, void* out);

}  // namespace plimsoll::cpu
