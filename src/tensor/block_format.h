// Matrices that are stored in blocks: each block of elements shares a scale. What a format weighs, how it decodes, and how fp32
// numbers are encoded. A matrix is one run of bytes; its elements count row by row, and a block may straddle two rows. Facts:
// bitsandbytes (int8, nf4) and GGUF (the q formats).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/bytes.h"

namespace plimsoll {

enum class BlockFormat : std::uint8_t { int8, nf4, nf4_nested, q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k, q6_k };

inline constexpr std::array kBlockFormats{BlockFormat::int8, BlockFormat::nf4,  BlockFormat::nf4_nested, BlockFormat::q4_0,
                                          BlockFormat::q4_1, BlockFormat::q5_0, BlockFormat::q5_1,       BlockFormat::q8_0,
                                          BlockFormat::q4_k, BlockFormat::q5_k, BlockFormat::q6_k};

// "int8", "nf4", "nf4_nested", "q4_0", ...
std::string_view name(BlockFormat format);
std::optional<BlockFormat> block_format_named(std::string_view text);

struct BlockMatrix {
  BlockFormat format = BlockFormat::nf4;
  std::int64_t rows = 0, columns = 0;
  friend bool operator==(const BlockMatrix&, const BlockMatrix&) = default;
};

// All of it: codes, then scales (int8: one f32 for each row; nf4: one for each 64 elements; nf4_nested: one byte for each 64, one
// f32 for each 256 of these, the 256 f32 of their map, one f32 offset). Each part begins at a multiple of 4 bytes. The GGUF
// formats are the file's own bytes.
Bytes stored_bytes(const BlockMatrix& matrix);

// Elements [first, first + out.size()) as fp32. Equal bits for any cut of a range.
void decode_blocks(const BlockMatrix& matrix, const std::byte* stored, std::int64_t first, std::span<float> out);

}  // namespace plimsoll
