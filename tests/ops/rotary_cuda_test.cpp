// The angles of rotary embeddings on a GPU, over the emulation, compared with fp64: positions of long contexts, every kind of
// scaling and every type of the operands.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/cases/bound_case.h"
#include "ops/rotary/frequencies.h"
#include "ops/rotary/rotary.h"

namespace plimsoll::test {
namespace {

using ops::RotaryAttributes;
using ops::RotaryScaling;

constexpr std::int64_t kPairs = 64;

// Cosines and sines as the kernel computes them: the op turns pairs (1, 0) into them. [positions, cosines and sines of the pairs]
Numbers turned(RotaryAttributes attributes, const Numbers& positions, DType dtype) {
  const auto tokens = static_cast<std::int64_t>(positions.size());
  attributes.head_size = attributes.rotated = 2 * kPairs;
  attributes.positions = true;
  Numbers x(positions.size() * 2 * kPairs, 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % (2 * kPairs) < kPairs ? 1 : 0;
  const OpCase a_case{attributes, {{{dtype, {1, tokens, 2 * kPairs}}, {}, false}, i32({1, tokens}, 0, 1)}};
  BoundCase bound(ops::kRotary, a_case, {x, positions}, {.backend = &kCuda});
  bound.run();
  return bound.outputs()[0];
}

// Calls use(number, exact) for each cosine and sine. Angles are products in fp32, as the op defines them.
template <class Use>
void for_each_turn(const RotaryAttributes& attributes, const Numbers& positions, DType dtype, Use use) {
  RotaryAttributes of_head = attributes;
  of_head.head_size = of_head.rotated = 2 * kPairs;
  const ops::RotaryTable table = ops::rotary_table(of_head);
  const Numbers all = turned(attributes, positions, dtype);
  for (std::size_t p = 0; p < positions.size(); ++p) {
    for (std::size_t i = 0; i < kPairs; ++i) {
      const double angle = static_cast<float>(positions[p]) * table.inverse_frequencies[i];
      SCOPED_TRACE(testing::Message() << "position " << positions[p] << ", pair " << i);
      use(all[p * 2 * kPairs + i], std::cos(angle) * table.attention_factor);
      use(all[p * 2 * kPairs + kPairs + i], std::sin(angle) * table.attention_factor);
    }
  }
}

// Up to 1,048,576, and some beyond.
Numbers long_contexts() {
  Numbers positions{0, 1, 99'999, 100'000, 100'001, 131'071, 131'072, 999'999, 1'000'000, 1'048'575, 16'777'217, 2147483647};
  for (int position = 2; position < 1 << 20; position += 3491) positions.push_back(position);
  return positions;
}

const std::vector<RotaryAttributes>& scalings() {
  static const std::vector<RotaryAttributes> list{
      {},
      {.theta = 1e6},
      {.scaling = RotaryScaling::linear, .factor = 4},
      {.scaling = RotaryScaling::dynamic, .factor = 2, .most = 4096, .length = 1'048'576},
      {.theta = 5e5, .scaling = RotaryScaling::by_bands, .factor = 8, .original = 8192},
      {.scaling = RotaryScaling::yarn, .factor = 32, .original = 32768},
      {.scaling = RotaryScaling::longrope,
       .original = 4096,
       .most = 131'072,
       .short_factor = std::vector<double>(kPairs, 1.1),
       .long_factor = std::vector<double>(kPairs, 24),
       .length = 131'072}};
  return list;
}

TEST(CudaRotary, LongContextsAreRightToTheLastBitsOfFp32) {
  for (const RotaryAttributes& attributes : scalings()) {
    double worst = 0;
    for_each_turn(attributes, long_contexts(), DType::f32,
                  [&](double number, double exact) { worst = std::max(worst, std::abs(number - exact)); });
    EXPECT_LE(worst, 1.8e-7) << Attributes(attributes).text();
  }
}

// One rounding of the exact number, and nothing before.
TEST(CudaRotary, OperandsOf16BitsRoundNoAngle) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const RotaryAttributes& attributes : scalings()) {
      double worst = 0;
      for_each_turn(attributes, long_contexts(), dtype, [&](double number, double exact) {
        const double step = tolerance(dtype) * std::max(std::abs(exact), 0x1p-14);
        worst = std::max(worst, (std::abs(number - exact) - 2e-7) / step);
      });
      EXPECT_LE(worst, 1) << Attributes(attributes).text();
    }
  }
}

// Whole numbers that are nearly multiples of pi: their sines lose no digits.
TEST(CudaRotary, SmallSinesOfLargeAnglesKeepTheirDigits) {
  const Numbers positions{22, 355, 710, 103'993, 104'348, 208'341, 312'689, 833'719, 1'146'408};
  const Numbers all = turned({}, positions, DType::f32);
  for (std::size_t p = 0; p < positions.size(); ++p) {
    const double exact = std::sin(positions[p]);
    EXPECT_NEAR(all[p * 2 * kPairs + kPairs], exact, 2e-7 * std::abs(exact)) << positions[p];
  }
}

}  // namespace
}  // namespace plimsoll::test
