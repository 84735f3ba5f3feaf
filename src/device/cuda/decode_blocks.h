// Decoding of frozen matrices on a GPU, from numbers or blocks (tensor/block_format.h) to dense matrices. Elements have the bits
// of decode_blocks, or are these rounded to nearest even in a type of 16 bits. No bit depends on the part that is decoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "tensor/block_format.h"
#include "tensor/dtype.h"

namespace plimsoll::cuda {

struct FrozenMatrix {
  DType dtype = DType::f32;                // of its numbers; u8 for blocks
  std::optional<BlockMatrix> blocks = {};  // absent: numbers
  std::int64_t rows = 0, columns = 0;
};

struct MatrixPart {
  std::int64_t row = 0, rows = 0, column = 0, columns = 0;
};

// Puts the work on a stream. `stored` and `out` are addresses of the device, multiples of 32 bytes. Writes the part's elements
// row by row, as fp32 or 16 bits.
void decode(void* stream, const FrozenMatrix& matrix, const std::byte* stored, const MatrixPart& part, DType to, void* out);

// The same of blocks in pieces; the part's codes are among them. The codes begin at a multiple of 16 bytes, and their first
// element at a multiple of 32 and at a block; the parts behind them are aligned as in a whole matrix.
void decode(void* stream, const FrozenMatrix& matrix, const BlockPieces& pieces, const MatrixPart& part, DType to, void* out);

// The rows which[0], ..., which[count - 1] instead. Numbers outside the matrix leave their row of `out` as it is.
void decode_rows(void* stream, const FrozenMatrix& matrix, const std::byte* stored, const std::int32_t* which, std::int64_t count,
                 float* out);

}  // namespace plimsoll::cuda
