// Statistics of activations over the samples of a training, which an evaluation reads: running means, as in batch normalisation,
// and largest magnitudes, as for scales. There are two kinds, and neither depends on the cut of a window into micro-batches:
// - A mean moves once for each window. Ops of the micro-step add up the deviations of rows from it, in fp64 and row by row in the
// order of
//   the micro-batches; the update moves it. All micro-steps of a window read the same mean. If the rows do not depend on the
//   micro-batch, like fed numbers, neither do the bits of the sums; sums of activations differ by rounding.
// - A maximum is updated in place by each micro-step. It is the same for any micro-batch and order, and if a window runs again.
// No other op
//   of the training pass reads it.
#pragma once

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

// The blend of a window's mean into a moving mean (PyTorch's momentum), in (0, 1].
struct MovingMeanAttributes {
  double blend = 0.1;
  PLIMSOLL_FIELDS(blend)
};

// The share of a statistic that moves its average, as in the update of a parameter (ops/update); in (0, 1].
struct AverageAttributes {
  double blend = 0.01;
  PLIMSOLL_FIELDS(blend)
};

// A row is the last axis, of n elements.
// subtract_mean: (x f32 [.., n], mean f32 [n]) -> x - mean. Its gradient is that of x; the mean is a constant.
// deviations: (x f32, bf16 or fp16 [.., n], mean f32 [n], sums f64 [n + 1]) -> sums, to which x - mean of each row is added; the
// last element is the number of rows.
// moving_mean: (mean, sums, [coefficient f32 [1]]) -> mean += blend sums / rows, in the update. An element with a sum that is
// not finite does not change, and nothing changes if the coefficient is not finite.
// largest_magnitude: (x f32, bf16 or fp16 [.., n], most f32 [n]) -> most = max(most, |x|) over the rows. NaN is ignored.
// average_statistic: (average f32 [..], statistic of its type, scalars f64 [kUpdateScalars], [coefficient f32 [1]]) -> average +=
// blend (statistic - average), in the update; the first update copies the statistic. Nothing changes if the coefficient is not
// finite.
extern const OpDef kSubtractMean, kDeviations, kMovingMean, kLargestMagnitude, kAverageStatistic;

// Adds a statistic of n elements.
ValueId add_statistic(GraphBuilder& builder, std::string name, std::int64_t n, Initializer initializer = {});

ValueId subtract_mean(GraphBuilder& builder, ValueId x, ValueId mean, std::string name);
// In a training pass: from now on `mean` follows the mean of the rows of x.
void follow_mean(GraphBuilder& builder, ValueId x, ValueId mean, const MovingMeanAttributes& attributes = {});
// In a training pass: from now on `most` is the largest magnitude that each element of a row has had.
void follow_magnitude(GraphBuilder& builder, ValueId x, ValueId most);

}  // namespace plimsoll::ops
