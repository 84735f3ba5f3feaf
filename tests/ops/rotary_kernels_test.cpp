// The frequencies of rotary embeddings for each kind of scaling, and the kernel that uses them.
#include "ops/rotary/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ops/kernel_buffers.h"
#include "ops/rotary/frequencies.h"
#include "tensor/half.h"

namespace plimsoll::cpu {
namespace {

using ops::rotary_table;
using ops::RotaryAttributes;
using ops::RotaryScaling;

constexpr std::int64_t kSize = 16;

RotaryAttributes of_16(RotaryAttributes attributes) {
  attributes.head_size = attributes.rotated = kSize;
  return attributes;
}

// theta^(-2i / 16) in fp64.
double plain(double theta, int i) { return std::pow(theta, -2.0 * i / kSize); }

void expect_near(const ops::RotaryTable& table, const std::vector<double>& expected, double relative) {
  ASSERT_EQ(table.inverse_frequencies.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(table.inverse_frequencies[i], expected[i], relative * expected[i]) << i;
  }
}

TEST(RotaryFrequencies, ArePowersOfTheta) {
  std::vector<double> expected;
  for (int i = 0; i < 8; ++i) expected.push_back(plain(10000, i));
  const ops::RotaryTable table = rotary_table(of_16({}));
  expect_near(table, expected, 2e-7);
  EXPECT_EQ(table.attention_factor, 1);
  EXPECT_EQ(table.inverse_frequencies[0], 1);
  // If a part of a head is rotated, the frequencies are those of the rotated numbers.
  EXPECT_EQ(rotary_table({.head_size = 64, .rotated = 16}).inverse_frequencies, table.inverse_frequencies);
}

TEST(RotaryFrequencies, LinearDividesAll) {
  std::vector<double> expected;
  for (int i = 0; i < 8; ++i) expected.push_back(plain(10000, i) / 2.5);
  expect_near(rotary_table(of_16({.scaling = RotaryScaling::linear, .factor = 2.5})), expected, 3e-7);
}

// theta (2 * 6144 / 2048 - 1)^(16 / 14), once the length passes the model's context.
TEST(RotaryFrequencies, DynamicFollowsTheLength) {
  RotaryAttributes attributes = of_16({.scaling = RotaryScaling::dynamic, .factor = 2, .most = 2048, .length = 6144});
  const double theta = 10000 * std::pow(5, 8.0 / 7);
  EXPECT_NEAR(theta, 62925.6, 1);
  std::vector<double> expected;
  for (int i = 0; i < 8; ++i) expected.push_back(plain(theta, i));
  expect_near(rotary_table(attributes), expected, 1e-6);
  for (const std::int64_t length : {1, 2048}) {
    attributes.length = length;
    EXPECT_EQ(rotary_table(attributes).inverse_frequencies, rotary_table(of_16({})).inverse_frequencies);
  }
}

// These numbers are transformers' own.
TEST(RotaryFrequencies, Llama3IsThatOfTransformers) {
  const auto table =
      rotary_table(of_16({.theta = 5e5, .scaling = RotaryScaling::by_bands, .factor = 8, .low = 1, .high = 4, .original = 8192}));
  expect_near(table, {1, .19392276, .03760603, .007292665, 5.24846e-4, 3.4281e-5, 6.64787e-6, 1.289173e-6}, 2e-6);
  EXPECT_EQ(table.attention_factor, 1);
}

TEST(RotaryFrequencies, YarnIsThatOfTransformers) {
  RotaryAttributes attributes = of_16({.scaling = RotaryScaling::yarn, .factor = 4, .original = 32768});
  const std::vector<double> expected{1, .31622776, .1, .03162278, .01, .00256935, 6.25e-4, 1.383497e-4};
  expect_near(rotary_table(attributes), expected, 2e-6);
  EXPECT_NEAR(rotary_table(attributes).attention_factor, 1.1386294, 1e-7);
  attributes.factor = 0;  // then it is that of the contexts
  attributes.most = 4 * 32768;
  expect_near(rotary_table(attributes), expected, 2e-6);
  attributes.mscale = 1, attributes.mscale_all_dim = 0.5;
  const double log4 = std::log(4.0);
  EXPECT_NEAR(rotary_table(attributes).attention_factor, (0.1 * log4 + 1) / (0.05 * log4 + 1), 1e-7);
  attributes.attention_factor = 1.5;
  EXPECT_EQ(rotary_table(attributes).attention_factor, 1.5F);
}

// Its bounds then are no whole numbers: g(n) = 16 ln(32768 / (2 pi n)) / (2 ln 10000).
TEST(RotaryFrequencies, YarnMayKeepItsBounds) {
  const auto table = rotary_table(of_16({.scaling = RotaryScaling::yarn, .factor = 4, .original = 32768, .truncate = false}));
  const auto bound = [](double turns) { return 8 * std::log(32768 / (2 * std::acos(-1.0) * turns)) / std::log(10000.0); };
  std::vector<double> expected;
  for (int i = 0; i < 8; ++i) {
    const double r = std::clamp((i - bound(32)) / (bound(1) - bound(32)), 0.0, 1.0);
    expected.push_back(plain(10000, i) * (1 - r) + plain(10000, i) / 4 * r);
  }
  expect_near(table, expected, 2e-6);
}

TEST(RotaryFrequencies, LongropeHasTwoTables) {
  RotaryAttributes attributes = of_16({.scaling = RotaryScaling::longrope,
                                       .original = 4096,
                                       .most = 131072,
                                       .short_factor = {1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7},
                                       .long_factor = {1, 2, 4, 8, 16, 32, 40, 64},
                                       .length = 4096});
  for (const bool longer : {false, true}) {
    attributes.length = longer ? 4097 : 4096;
    std::vector<double> expected;
    for (int i = 0; i < 8; ++i) {
      const auto& factors = longer ? attributes.long_factor : attributes.short_factor;
      expected.push_back(plain(10000, i) / factors[static_cast<std::size_t>(i)]);
    }
    expect_near(rotary_table(attributes), expected, 4e-7);
    // sqrt(1 + ln 32 / ln 4096) = sqrt(1 + 5 / 12), in either.
    EXPECT_NEAR(rotary_table(attributes).attention_factor, std::sqrt(17.0 / 12), 1e-7);
  }
  attributes.factor = 1;
  EXPECT_EQ(rotary_table(attributes).attention_factor, 1);
}

TEST(RotaryAttributesText, TellsWhatMatters) {
  const auto text = [](const RotaryAttributes& attributes) { return Attributes(attributes).text(); };
  EXPECT_EQ(text(of_16({})), "head_size=16, rotated=16, interleaved=false, theta=10000");
  EXPECT_EQ(text(of_16({.scaling = RotaryScaling::longrope,
                        .factor = 2,
                        .original = 8,
                        .most = 16,
                        .short_factor = {1, 1.5},
                        .long_factor = {2, 3},
                        .length = 9,
                        .positions = true,
                        .inverse = true})),
            "head_size=16, rotated=16, interleaved=false, theta=10000, scaling=longrope, factor=2, original=8, most=16, "
            "attention_factor=0, short_factor=(1, 1.5), long_factor=(2, 3), length=9, positions=true, inverse=true");
}

struct Rotated {
  RotaryShape shape;
  std::vector<float> frequencies;
  std::int64_t elements() const { return shape.batch * shape.tokens * shape.heads * shape.head_size; }
  Floats operator()(const Floats& x, float factor, const std::int32_t* positions) const {
    Floats out(x.size());
    rotate(shape, frequencies, factor, positions, x.data(), out.data());
    return out;
  }
};

Rotated some_heads(bool interleaved) {
  return {{2, 60, 5, 40, interleaved, false}, rotary_table({.head_size = 40, .rotated = 36}).inverse_frequencies};
}

// Positions that are the tokens' indices change no bit, and a turn back is the inverse of a turn.
TEST(RotaryKernels, PositionsAndInverse) {
  on_every_target([] {
    for (const bool interleaved : {false, true}) {
      Rotated rotated = some_heads(interleaved);
      const Floats x = random_floats(rotated.elements(), 1);
      std::vector<std::int32_t> positions;
      for (std::int32_t i = 0; i < 120; ++i) positions.push_back(i % 60);
      const Floats turned = rotated(x, 1, nullptr);
      EXPECT_TRUE(turned == rotated(x, 1, positions.data()));
      rotated.shape.inverse = true;
      const Floats back = rotated(turned, 1, positions.data());
      for (std::int64_t i = 0; i < x.size(); ++i) ASSERT_NEAR(back[i], x[i], 1e-6);
    }
  });
}

// <turn(x), y> = <x, turn_back(y)>: the gradient is the transpose, with its factor.
TEST(RotaryKernels, InverseIsTheTranspose) {
  for (const bool interleaved : {false, true}) {
    Rotated rotated = some_heads(interleaved);
    const Floats x = random_floats(rotated.elements(), 1), y = random_floats(rotated.elements(), 2);
    const Floats turned = rotated(x, 1.3F, nullptr);
    rotated.shape.inverse = true;
    const Floats back = rotated(y, 1.3F, nullptr);
    double left = 0, right = 0;
    for (std::int64_t i = 0; i < x.size(); ++i) left += double{turned[i]} * y[i], right += double{x[i]} * back[i];
    EXPECT_NEAR(left, right, 1e-4);
  }
}

TEST(RotaryKernels, ThreadsChangeNoBit) {
  for (const bool interleaved : {false, true}) {
    Rotated rotated = some_heads(interleaved);
    rotated.shape.tokens = 600;
    const Floats x = random_floats(rotated.elements(), 1);
    std::vector<std::int32_t> positions(1200, 77);
    expect_same_on_threads([&] { return rotated(x, 1, nullptr); });
    expect_same_on_threads([&] { return rotated(x, 1, positions.data()); });
  }
}

}  // namespace
}  // namespace plimsoll::cpu
