#include "formats/finite.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "expect_error.h"
#include "tensor/block_format.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinite = std::numeric_limits<float>::infinity();

TEST(Finite, FindsTheFirstInEachType) {
  for (const float bad : {kNan, -kNan, kInfinite, -kInfinite}) {
    for (const std::size_t at : {0U, 1U, 7U, 30U, 36U}) {
      std::vector<float> wide(37, std::numeric_limits<float>::max());
      std::vector<double> widest(37, std::numeric_limits<double>::lowest());
      std::vector<std::uint16_t> half(37, narrow_f16(-65504)), brain(37, narrow_bf16(-1e38F));
      const auto find = [](DType dtype, const auto& numbers) {
        return first_not_finite(dtype, std::as_bytes(std::span(numbers)));
      };
      for (const auto& [dtype, none] : {std::pair(DType::f32, find(DType::f32, wide)),
                                        {DType::f64, find(DType::f64, widest)},
                                        {DType::f16, find(DType::f16, half)},
                                        {DType::bf16, find(DType::bf16, brain)}}) {
        EXPECT_FALSE(none) << name(dtype);
      }
      wide[at] = widest[at] = bad;
      wide.back() = bad;
      half[at] = narrow_f16(bad), brain[at] = narrow_bf16(bad);
      const auto want = static_cast<std::int64_t>(at);
      EXPECT_EQ(find(DType::f32, wide), want);
      EXPECT_EQ(find(DType::f64, widest), want);
      EXPECT_EQ(find(DType::f16, half), want);
      EXPECT_EQ(find(DType::bf16, brain), want);
    }
  }
  const std::vector<std::uint32_t> ids(9, 0xffff'ffff);
  EXPECT_FALSE(first_not_finite(DType::i32, std::as_bytes(std::span(ids))));
}

TEST(Finite, NamesFileTensorAndElement) {
  std::vector<float> numbers(6, 1);
  require_finite("m.safetensors", "w", {4, 3}, 6, numbers);
  numbers[4] = kNan;
  EXPECT_ERROR(require_finite("m.safetensors", "w", {4, 3}, 6, numbers), "E-FORMAT-NAN", "w holds NaN at [3, 1]");
  numbers[1] = -kInfinite;
  EXPECT_ERROR(require_finite("m.safetensors", "w", {4, 3}, 6, numbers), "E-FORMAT-NAN", "w holds an infinite number at [2, 1]");
}

// Every split of the bytes finds the block by the high byte of its scale. Codes are never taken for scales.
TEST(BlockScales, FindsABadScaleInEachFormat) {
  for (const BlockFormat format : kBlockFormats) {
    const std::int64_t elements = block_elements(format), size = stored_bytes({format, 1, elements}).n;
    std::vector<std::byte> blocks(static_cast<std::size_t>(3 * size), std::byte{0xff});
    const auto bad = first_bad_scale(format, 0, blocks);
    if (scales_apart(format)) {
      EXPECT_FALSE(bad) << name(format);
      continue;
    }
    EXPECT_EQ(bad, 0) << name(format);
    // Finds the scales: the pairs of bytes that make the block decode to a number that is not finite.
    std::vector<float> out(static_cast<std::size_t>(elements));
    std::vector<std::int64_t> scales;
    for (std::int64_t at = 0; at + 1 < size; at += 2) {
      std::vector<std::byte> block(static_cast<std::size_t>(size), std::byte{0});
      block[static_cast<std::size_t>(at)] = std::byte{0};
      block[static_cast<std::size_t>(at + 1)] = std::byte{0x7c};  // infinite
      decode_blocks({format, 1, elements}, block.data(), 0, out);
      const bool none = first_not_finite(DType::f32, std::as_bytes(std::span(out))).has_value();
      EXPECT_EQ(first_bad_scale(format, 0, block).has_value(), none) << name(format) << " at " << at;
      if (none) scales.push_back(at);
    }
    EXPECT_FALSE(scales.empty()) << name(format);
    for (const std::int64_t scale : scales) {
      std::vector<std::byte> three(static_cast<std::size_t>(3 * size), std::byte{0});
      three[static_cast<std::size_t>(2 * size + scale + 1)] = std::byte{0xfe};  // NaN
      EXPECT_EQ(first_bad_scale(format, 0, three), 2) << name(format);
      const std::span<const std::byte> all = three;
      for (const std::int64_t cut : {size - 1, size + 1, 2 * size + scale, 2 * size + scale + 1}) {
        const auto before = static_cast<std::size_t>(cut);
        EXPECT_FALSE(first_bad_scale(format, 0, all.first(before))) << name(format) << " before " << cut;
        EXPECT_EQ(first_bad_scale(format, cut, all.subspan(before)), 2) << name(format) << " behind " << cut;
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll
