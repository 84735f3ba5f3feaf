// Sums on a GPU, over the emulation: properties that the op cases do not test.
#include <gtest/gtest.h>

#include "ops/attributes.h"
#include "ops/cases/bound_case.h"
#include "ops/reduce/reduce.h"

namespace plimsoll::test {
namespace {

// Adds the losses of samples to an earlier total.
double add_losses(std::int64_t samples, const Numbers& losses, double before) {
  const std::int64_t tokens = static_cast<std::int64_t>(losses.size()) / samples;
  const OpCase adding{ops::NoAttributes{}, {f32({samples, tokens}), f64({1})}};
  BoundCase bound(ops::kSumLosses, adding, {losses, {before}}, {.backend = &kCuda});
  bound.run();
  return bound.outputs()[0][0];
}

TEST(CudaSumLosses, OfAWindowHaveTheSameBitsInAnyMicroBatches) {
  constexpr std::int64_t kSamples = 6, kTokens = 1500;
  const Numbers losses = fill_inputs({ops::NoAttributes{}, {f32({kSamples, kTokens}, {0, 11})}}, 1)[0];
  const double at_once = add_losses(kSamples, losses, 0.1);
  for (const std::int64_t samples : {1, 2, 3}) {
    double total = 0.1;
    for (auto begin = losses.begin(); begin != losses.end(); begin += samples * kTokens) {
      total = add_losses(samples, {begin, begin + samples * kTokens}, total);
    }
    EXPECT_EQ(total, at_once) << samples;
  }
}

}  // namespace
}  // namespace plimsoll::test
