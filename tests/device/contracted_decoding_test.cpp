// The decoders of a GPU, compiled with contraction of a * b + c as nvcc compiles them. They keep the bits of decode_blocks,
// because intrinsics stay apart. Only nf4_nested could change: the products of the other formats are exact in fp32.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "device/cuda/kernels.cuh"
#include "ops/cases/stored_matrix.h"
#include "tensor/block_scales.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

#pragma GCC push_options
#pragma GCC target("fma")

#include "device/cuda/decode_blocks.cuh"

namespace plimsoll::cuda {
namespace {

[[gnu::noinline]] float contracted(float a, float b, float c) { return a * b + c; }

template <class Decoder, int kCount>
std::vector<float> decode_all(const BlockMatrix& matrix, const StoredParts& parts) {
  std::vector<float> out(test::extent(matrix.rows * matrix.columns));
  for (std::int64_t element = 0; element < matrix.rows * matrix.columns; element += kCount) {
    Decoder::template decode<kCount>(parts, {element / matrix.columns, element}, kNf4.data(), out.data() + element);
  }
  return out;
}

#pragma GCC pop_options

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(ContractedDecoding, HasTheBitsOfDecodeBlocks) {
  if (!__builtin_cpu_supports("fma")) GTEST_SKIP() << "a processor without FMA";
  volatile float third = 1.0f / 3;
  ASSERT_EQ(contracted(third, third, -third * third), std::fma(third, third, -third * third)) << "the compiler does not contract";
  ASSERT_NE(contracted(third, third, -third * third), 0.0f);
  for (const BlockFormat format : kBlockFormats) {
    const BlockMatrix matrix{format, 33, 512};
    const std::vector<std::byte> stored = test::stored_blocks(matrix);
    std::vector<float> expected(test::extent(matrix.rows * matrix.columns));
    decode_blocks(matrix, stored.data(), 0, expected);
    const BlockParts at = block_parts(matrix);
    const Byte* base = reinterpret_cast<const Byte*>(stored.data());
    const StoredParts parts{base, base + at.scales.n, base + at.nested_scales.n, base + at.map.n, base + at.offset.n};
    with_decoder(format, [&]<class Decoder>(Decoder) {
      EXPECT_TRUE(same_bits(decode_all<Decoder, 8>(matrix, parts), expected)) << name(format);
      if constexpr (Decoder::kSingle) EXPECT_TRUE(same_bits(decode_all<Decoder, 1>(matrix, parts), expected)) << name(format);
    });
  }
}

// The numbers of these tests show a contracted scale.
TEST(ContractedDecoding, WouldChangeScalesOfTheTests) {
  const BlockMatrix matrix{BlockFormat::nf4_nested, 33, 512};
  const std::vector<std::byte> stored = test::stored_blocks(matrix);
  const BlockParts at = block_parts(matrix);
  const auto number = [&](Bytes part, std::int64_t i) {
    float value;
    std::memcpy(&value, stored.data() + part.n + 4 * i, sizeof value);
    return value;
  };
  int changed = 0;
  for (std::int64_t block = 0; block < matrix.rows * matrix.columns / kNf4Block; ++block) {
    const float of_map = number(at.map, static_cast<std::int64_t>(stored[test::extent(at.scales.n + block)]));
    const float nested = number(at.nested_scales, block / kNestedBlock), offset = number(at.offset, 0), product = of_map * nested;
    changed += std::fma(of_map, nested, offset) != product + offset;
  }
  EXPECT_GT(changed, 10);
}

}  // namespace
}  // namespace plimsoll::cuda

#endif
