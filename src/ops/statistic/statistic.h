// Statistics of activations: what a training keeps of the samples that it has seen, and an evaluation reads (running means, as in
// batch normalisation; largest magnitudes, as for scales). Two ways, neither of which any way to cut a window shows:
// - A mean moves once for each window. Ops of the micro-step add up how far the rows are from it, in fp64 and row by row in the
//   order of the micro-batches; the update moves it. All micro-steps of a window read the same mean. The sums of a window do not
//   depend on the micro-batch where the rows do not: those of fed numbers have the same bits, activations are of the rounding
//   class.
// - A maximum is updated in place by each micro-step. It is the same for any micro-batch and order, and if a window runs again.
//   The training pass reads it nowhere else.
#pragma once

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

// How much of a window's mean a moving mean takes over (PyTorch's momentum).
struct MovingMeanAttributes {
  double blend = 0.1;
  PLIMSOLL_FIELDS(blend)
};

// A row is the last axis, of n elements.
// subtract_mean: (x f32 [.., n], mean f32 [n]) -> x - mean. Its gradient is that of x; the mean is a constant.
// deviations: (x f32, bf16 or fp16 [.., n], mean f32 [n], sums f64 [n + 1]) -> sums, to which x - mean of each row is added; the
// last element is the number of rows.
// moving_mean: (mean, sums, [coefficient f32 [1]]) -> mean += blend sums / rows, in the update. An element whose sum is no finite
// number stays, and all where the coefficient is none.
// largest_magnitude: (x f32, bf16 or fp16 [.., n], most f32 [n]) -> most = max(most, |x|) over the rows. NaN is no magnitude.
extern const OpDef kSubtractMean, kDeviations, kMovingMean, kLargestMagnitude;

// A statistic of n elements that begins as zeros.
ValueId add_statistic(GraphBuilder& builder, std::string name, std::int64_t n);

ValueId subtract_mean(GraphBuilder& builder, ValueId x, ValueId mean, std::string name);
// In a training pass: from now on `mean` follows the mean of the rows of x.
void follow_mean(GraphBuilder& builder, ValueId x, ValueId mean, const MovingMeanAttributes& attributes = {});
// In a training pass: from now on `most` is the largest magnitude that each element of a row has had.
void follow_magnitude(GraphBuilder& builder, ValueId x, ValueId most);

}  // namespace plimsoll::ops
