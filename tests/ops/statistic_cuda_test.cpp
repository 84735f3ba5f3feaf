// Statistics and dropout on a GPU, over the emulation: the CPU's bits, which depend neither on the cut of rows into micro-batches
// nor, for dropout, on the place of a token.
#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"
#include "ops/attributes.h"
#include "ops/cases/bound_case.h"
#include "ops/dropout/dropout.h"
#include "ops/statistic/statistic.h"

namespace plimsoll::test {
namespace {

std::vector<std::vector<std::byte>> bits_on(const Backend& backend, const OpDef& op, const OpCase& a_case,
                                            const std::vector<Numbers>& inputs) {
  BoundCase bound(op, a_case, inputs, {.backend = &backend});
  bound.run();
  EXPECT_EQ(bound.faults(), "");
  return bound.output_bytes();
}

class CudaHasTheCpusBits : public testing::TestWithParam<const OpDef*> {};

TEST_P(CudaHasTheCpusBits, InEveryCase) {
  const OpDef& op = *GetParam();
  for (const OpCase& a_case : find_cases(op)->cases) {
    if (a_case.benchmark) continue;
    SCOPED_TRACE(describe(op, a_case));
    const std::vector<Numbers> inputs = fill_inputs(a_case, 3);
    EXPECT_TRUE(bits_on(kCuda, op, a_case, inputs) == bits_on(kCpu, op, a_case, inputs));
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, CudaHasTheCpusBits,
                         testing::Values(&ops::kSubtractMean, &ops::kDeviations, &ops::kMovingMean, &ops::kLargestMagnitude,
                                         &ops::kDropout),
                         [](const auto& each) { return std::string(each.param->name); });

TEST(CudaDeviations, OfAWindowHaveTheSameBitsInAnyMicroBatches) {
  constexpr std::int64_t kRows = 60, kWidth = 37;
  const std::vector<Numbers> all =
      fill_inputs({ops::MovingMeanAttributes{}, {f32({kRows, kWidth}, {-9, 9}), f32({kWidth}), f64({kWidth + 1})}}, 1);
  std::vector<Numbers> sums_of;
  for (const std::int64_t rows : {60, 1, 4, 20}) {
    OpCase adding{ops::MovingMeanAttributes{}, {f32({rows, kWidth}), f32({kWidth}), f64({kWidth + 1})}};
    Numbers sums = all[2];
    for (auto begin = all[0].begin(); begin != all[0].end(); begin += rows * kWidth) {
      adding.overwrite = begin == all[0].begin();
      BoundCase bound(ops::kDeviations, adding, {{begin, begin + rows * kWidth}, all[1], sums}, {.backend = &kCuda});
      bound.run();
      sums = bound.outputs()[0];
    }
    sums_of.push_back(sums);
    EXPECT_EQ(sums, sums_of.front()) << rows;
    EXPECT_EQ(sums.back(), kRows);
  }
}

TEST(CudaLargestMagnitude, IgnoresNan) {
  const OpCase a_case{ops::NoAttributes{}, {f32({40, 3}), f32({3}, {0, 1})}};
  std::vector<Numbers> inputs = fill_inputs(a_case, 1);
  inputs[0][3] = NAN, inputs[0][7] = HUGE_VAL;
  const auto bits = bits_on(kCuda, ops::kLargestMagnitude, a_case, inputs);
  EXPECT_TRUE(bits == bits_on(kCpu, ops::kLargestMagnitude, a_case, inputs));
}

// The noise counts elements of a sample in 64 bits.
TEST(CudaDropout, HasTheCpusBitsAtLatePositions) {
  for (const std::int64_t width : {1100, 1101}) {
    const OpCase a_case{ops::DropoutAttributes{0.4, philox_key(3, 5)}, {f32({2, 3, width}), token_ids(2, 3)}};
    std::vector<Numbers> inputs = fill_inputs(a_case, 1);
    const double positions[] = {0, 3.0e6, 3904515, 3904516, 0x1p31, 0xFFFFFFFFp0};
    for (std::size_t token = 0; token < 6; ++token) inputs[1][3 * token + 2] = positions[token];
    EXPECT_TRUE(bits_on(kCuda, ops::kDropout, a_case, inputs) == bits_on(kCpu, ops::kDropout, a_case, inputs)) << width;
  }
}

// A token has the noise of its sample and position in any row and neighbourhood.
TEST(CudaDropout, OfATokenIsThatOfItsSampleAlone) {
  constexpr std::int64_t kTokens = 12, kWidth = 7;
  const ops::DropoutAttributes attributes{0.4, philox_key(3, 5)};
  const Numbers ones(kTokens * kWidth, 1);
  BoundCase alone(ops::kDropout, {attributes, {f32({1, kTokens, kWidth}), sample_ids(1)}}, {ones, {4, 9}}, {.backend = &kCuda});
  alone.run();
  Numbers ids;
  for (std::size_t token = 0; token < kTokens; ++token) {
    ids.insert(ids.end(), {4, 9, static_cast<double>(kTokens - 1 - token)});
  }
  BoundCase packed(ops::kDropout, {attributes, {f32({1, kTokens, kWidth}), token_ids(1, kTokens)}}, {ones, ids},
                   {.backend = &kCuda});
  packed.run();
  const Numbers expected = alone.outputs()[0], actual = packed.outputs()[0];
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const std::size_t token = i / kWidth;
    EXPECT_EQ(actual[i], expected[(kTokens - 1 - token) * kWidth + i % kWidth]) << i;
  }
}

}  // namespace
}  // namespace plimsoll::test
