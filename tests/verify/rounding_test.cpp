// The noise of narrow sums follows theory; equal noise in all updates does not.
#include "verify/rounding.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plimsoll::verification {
namespace {

constexpr double kMostBias = 4;  // standard errors
constexpr double kMostSpread = 1.2;

void expect_theory(const RoundingError& error) {
  EXPECT_LT(std::abs(error.bias), kMostBias);
  EXPECT_LT(error.spread, kMostSpread);
  EXPECT_GT(error.spread, 1 / kMostSpread);
}

TEST(Rounding, NoiseOfStateFollowsTheory) {
  for (const double decay : {0.95, 0.99}) {
    SCOPED_TRACE(decay);
    expect_theory(rounding_error(DType::bf16, decay, /*one_seed=*/false));
  }
}

TEST(Rounding, EqualNoiseInAllUpdatesIsNoticed) {
  EXPECT_GT(rounding_error(DType::bf16, 0.99, /*one_seed=*/true).spread, kMostSpread);
  EXPECT_GT(sum_error(/*one_seed=*/true).spread, kMostSpread);
}

TEST(Rounding, NoiseOfSumsFollowsTheory) { expect_theory(sum_error(/*one_seed=*/false)); }

TEST(Rounding, StateOfFp32CountsAsBf16) {
  const RoundingError wide = rounding_error(DType::f32, 0.95, false), narrow = rounding_error(DType::bf16, 0.95, false);
  EXPECT_EQ(wide.bias, narrow.bias);
  EXPECT_EQ(wide.spread, narrow.spread);
}

}  // namespace
}  // namespace plimsoll::verification
