// Matrices stored in blocks of elements that share a scale: sizes and decoding of the formats. A matrix is one run of bytes; its
// elements count row by row, and a block may straddle two rows. Facts: bitsandbytes (int8, nf4) and GGUF (the q formats).
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

struct BlockMatrix {
  BlockFormat format = BlockFormat::nf4;
  std::int64_t rows = 0, columns = 0;
  friend bool operator==(const BlockMatrix&, const BlockMatrix&) = default;
};

// Elements per scale; 1 for int8, whose scales belong to rows. A GGUF row is a whole number of blocks.
std::int64_t block_elements(BlockFormat format);

// True if the scales follow all codes; else each block contains its own.
bool scales_apart(BlockFormat format);

// Elements of an nf4 block, and scales of nf4_nested that share a second scale.
inline constexpr std::int64_t kNf4Block = 64, kNestedBlock = 256;

// The values of the 16 codes of nf4, bitsandbytes' table.
inline constexpr std::array<float, 16> kNf4{-1.0f,
                                            -0.6961928009986877f,
                                            -0.5250730514526367f,
                                            -0.39491748809814453f,
                                            -0.28444138169288635f,
                                            -0.18477343022823334f,
                                            -0.09105003625154495f,
                                            0.0f,
                                            0.07958029955625534f,
                                            0.16093020141124725f,
                                            0.24611230194568634f,
                                            0.33791524171829224f,
                                            0.44070982933044434f,
                                            0.5626170039176941f,
                                            0.7229568362236023f,
                                            1.0f};

// The offsets of a stored matrix's parts; codes are at 0. Missing parts stay 0.
struct BlockParts {
  Bytes scales, nested_scales, map, offset;
  Bytes end;
};
BlockParts block_parts(const BlockMatrix& matrix);
// The bytes of the codes at the start of a stored matrix.
Bytes code_bytes(const BlockMatrix& matrix);

// Bytes of codes and scales (int8: one f32 for each row; nf4: one for each 64 elements; nf4_nested: one byte for each 64, one f32
// for each 256 of these, the 256 f32 of their map, one f32 offset). Each part begins at a multiple of 4 bytes. GGUF formats are
// the bytes of the file.
Bytes stored_bytes(const BlockMatrix& matrix);

// Decodes elements [first, first + out.size()) to fp32. Bits do not depend on the cut into ranges.
void decode_blocks(const BlockMatrix& matrix, const std::byte* stored, std::int64_t first, std::span<float> out);

// A part of a matrix's codes, with the parts after the codes stored elsewhere.
struct BlockPieces {
  const std::byte* codes = nullptr;  // from element `first` on, which begins a block
  std::int64_t first = 0;
  const std::byte* behind = nullptr;  // the parts after the codes
};
void decode_blocks(const BlockMatrix& matrix, const BlockPieces& pieces, std::int64_t first, std::span<float> out);

// The first block of a GGUF format with a non-finite scale among bytes [begin, begin + bytes.size()) of a stored matrix. The
// range may begin and end within a block.
std::optional<std::int64_t> first_bad_scale(BlockFormat format, std::int64_t begin, std::span<const std::byte> bytes);

}  // namespace plimsoll
