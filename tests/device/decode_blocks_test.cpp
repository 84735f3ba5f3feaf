// Decoding on a GPU, over the emulation, against decode_blocks bit by bit.
#include "device/cuda/decode_blocks.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "device/cuda/decode_kernel.cuh"
#include "formats/expect_error.h"
#include "ops/cases/stored_matrix.h"

namespace plimsoll::cuda {
namespace {

using test::extent;

std::vector<std::uint32_t> bits_of(const std::vector<float>& numbers) {
  std::vector<std::uint32_t> bits(numbers.size());
  std::memcpy(bits.data(), numbers.data(), numbers.size() * sizeof(float));
  return bits;
}

std::vector<float> decoded(const BlockMatrix& matrix, const std::vector<std::byte>& stored) {
  std::vector<float> elements(extent(matrix.rows * matrix.columns));
  decode_blocks(matrix, stored.data(), 0, elements);
  return elements;
}

std::vector<float> part_of(const std::vector<float>& elements, std::int64_t width, const MatrixPart& part) {
  std::vector<float> result;
  for (std::int64_t row = part.row; row < part.row + part.rows; ++row) {
    const auto begin = elements.begin() + row * width + part.column;
    result.insert(result.end(), begin, begin + part.columns);
  }
  return result;
}

// The part as it is decoded to `to`, widened.
std::vector<float> decode_part(const FrozenMatrix& matrix, const std::byte* stored, const MatrixPart& part, DType to) {
  std::vector<float> numbers(extent(part.rows * part.columns));
  alignas(64) static std::byte bytes[1 << 20];
  decode(nullptr, matrix, stored, part, to, bytes);
  widen(to, bytes, numbers);
  return numbers;
}

FrozenMatrix frozen(const BlockMatrix& matrix) { return {DType::u8, matrix, matrix.rows, matrix.columns}; }

std::vector<float> rounded(std::vector<float> numbers, DType to) {
  std::vector<std::byte> bytes(numbers.size() * 4);
  narrow(to, numbers, bytes.data());
  widen(to, bytes.data(), numbers);
  return numbers;
}

// Matrices of whole blocks; for other formats than GGUF also one whose blocks straddle rows, with a partial last block.
std::vector<BlockMatrix> matrices(BlockFormat format) {
  const bool whole = !scales_apart(format);
  std::vector<BlockMatrix> list{{format, 3, 1280}, {format, 300, 256}};
  if (!whole) list.insert(list.end(), {{format, 7, 65}, {format, 9, 264}, {format, 1, 1}, {format, 301, 63}});
  return list;
}

TEST(DecodeOnGpu, HasTheBitsOfDecodeBlocksInAnyPart) {
  for (const BlockFormat format : kBlockFormats) {
    const std::int64_t step = scales_apart(format) ? 1 : 32;
    for (const BlockMatrix& matrix : matrices(format)) {
      SCOPED_TRACE(std::string(name(format)) + " of " + std::to_string(matrix.rows) + " x " + std::to_string(matrix.columns));
      const std::vector<std::byte> stored = test::stored_blocks(matrix);
      const std::vector<float> all = decoded(matrix, stored);
      std::vector<MatrixPart> parts{{0, matrix.rows, 0, matrix.columns}, {matrix.rows - 1, 1, 0, matrix.columns}};
      for (const std::int64_t column : {step, 2 * step, 8 * step}) {
        if (column >= matrix.columns) continue;
        parts.push_back({matrix.rows / 2, matrix.rows - matrix.rows / 2, column, matrix.columns - column});
        parts.push_back({0, matrix.rows, matrix.columns - column, column});
      }
      for (const MatrixPart& part : parts) {
        const std::vector<float> expected = part_of(all, matrix.columns, part);
        for (const DType to : {DType::f32, DType::bf16, DType::f16}) {
          EXPECT_EQ(bits_of(decode_part(frozen(matrix), stored.data(), part, to)),
                    bits_of(to == DType::f32 ? expected : rounded(expected, to)))
              << "rows from " << part.row << ", columns from " << part.column << " to " << name(to);
        }
      }
    }
  }
}

TEST(DecodeOnGpu, RoundsNumbersOnce) {
  std::vector<float> numbers(5 * 24);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(0.7f * static_cast<float>(i * i));
  for (const DType from : {DType::f32, DType::bf16, DType::f16}) {
    std::vector<std::byte> stored(numbers.size() * 4);
    narrow(from, numbers, stored.data());
    const std::vector<float> all = from == DType::f32 ? numbers : rounded(numbers, from);
    for (const MatrixPart& part : {MatrixPart{0, 5, 0, 24}, {1, 3, 8, 16}, {2, 3, 5, 7}}) {
      for (const DType to : {DType::f32, DType::bf16, DType::f16}) {
        const std::vector<float> expected = part_of(all, 24, part);
        EXPECT_EQ(bits_of(decode_part({from, {}, 5, 24}, stored.data(), part, to)),
                  bits_of(to == DType::f32 ? expected : rounded(expected, to)))
            << name(from) << " to " << name(to);
      }
    }
  }
}

TEST(DecodeOnGpu, RowsByNumberSkipNumbersOutside) {
  for (const BlockFormat format : kBlockFormats) {
    const BlockMatrix matrix{format, 5, 256};
    const std::vector<std::byte> stored = test::stored_blocks(matrix);
    const std::vector<float> all = decoded(matrix, stored);
    const std::vector<std::int32_t> which{4, 0, -1, 4, 5, 2};
    std::vector<float> rows(which.size() * 256, 77), expected(rows);
    decode_rows(nullptr, frozen(matrix), stored.data(), which.data(), std::ssize(which), rows.data());
    for (const std::size_t i : {0, 1, 3, 5}) {
      std::copy_n(all.begin() + std::ptrdiff_t{which[i]} * 256, 256, expected.begin() + static_cast<std::ptrdiff_t>(i) * 256);
    }
    EXPECT_EQ(bits_of(rows), bits_of(expected)) << name(format);
  }
}

// GGUF has no such matrix.
TEST(DecodeOnGpu, RefusesRowsOfPartialGgufBlocks) {
  const BlockMatrix matrix{BlockFormat::q4_0, 8, 36};
  const std::vector<std::byte> stored(1 << 10);
  EXPECT_ERROR(decode_part(frozen(matrix), stored.data(), {0, 1, 0, 36}, DType::f32), "E-INTERNAL", "whole blocks");
}

// A small matrix at the place of some rows of a large one: the addresses of the large one's parts, where only those rows exist.
StoredParts as_if_from(const BlockMatrix& small, const std::byte* stored, std::int64_t origin) {
  const auto before = [&](Bytes part, std::int64_t skipped) {
    return reinterpret_cast<const Byte*>(reinterpret_cast<std::uintptr_t>(stored + part.n) -
                                         static_cast<std::uintptr_t>(skipped));
  };
  const BlockParts parts = block_parts(small);
  const std::int64_t codes = code_bytes({small.format, 1, origin}).n, blocks = origin / kNf4Block;
  switch (small.format) {
    case BlockFormat::int8: return {before({}, codes), before(parts.scales, 4 * (origin / small.columns))};
    case BlockFormat::nf4: return {before({}, codes), before(parts.scales, 4 * blocks)};
    case BlockFormat::nf4_nested:
      return {before({}, codes), before(parts.scales, blocks), before(parts.nested_scales, 4 * (blocks / kNestedBlock)),
              before(parts.map, 0), before(parts.offset, 0)};
    default: return {before({}, codes)};
  }
}

// bitsandbytes #1785 failed from 2^31 elements on.
TEST(DecodeOnGpu, ElementsAndBytesBeyond32Bits) {
  constexpr std::int64_t kWidth = 2048, kRows = 16;
  for (const BlockFormat format : kBlockFormats) {
    const BlockMatrix small{format, kRows, kWidth};
    const std::vector<std::byte> stored = test::stored_blocks(small);
    const std::vector<float> all = decoded(small, stored);
    // Half of the rows lie before the place. One byte has two elements of nf4, so its bytes pass 2^31 later.
    for (const int exponent : {31, 32, 33, 36}) {
      const std::int64_t first_row = (std::int64_t{1} << exponent) / kWidth - kRows / 2;
      const StoredParts parts = as_if_from(small, stored.data(), first_row * kWidth);
      const auto expect = [&](const MatrixPart& part) {
        std::vector<float> out(extent(part.rows * part.columns));
        with_decoder(format, [&]<class Decoder>(Decoder) {
          launch_decoder<Decoder>(
              nullptr, parts, {nullptr, first_row + kRows, first_row + part.row, part.rows, part.column, part.columns, kWidth},
              out.data());
        });
        EXPECT_EQ(bits_of(out), bits_of(part_of(all, kWidth, part)))
            << name(format) << " at 2^" << exponent << ", columns from " << part.column;
      };
      expect({0, kRows, 0, kWidth});
      if (!scales_apart(format)) continue;
      expect({kRows / 2 - 1, 1, kWidth - 1, 1});  // the element before the place
      expect({kRows / 2, 1, 0, 1});
      expect({kRows / 2, 1, 1, 1});
      expect({0, kRows, 1, kWidth - 1});
    }
  }
}

}  // namespace
}  // namespace plimsoll::cuda
