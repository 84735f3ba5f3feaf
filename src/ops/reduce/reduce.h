// Reductions. `reduce` sums or averages over the last axis; `sum_rows` sums over all axes but the last (the gradient of a bias)
// and adds into an accumulator; `sum_losses` adds per-unit losses sample by sample, in fp64, into the window's total;
// `count_small` counts fp16 numbers that lost digits.
#pragma once

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

struct ReduceAttributes {
  bool mean = false;
  PLIMSOLL_FIELDS(mean)
};

// The gradient of `reduce`: repeats [..] along a new last axis and scales.
struct BroadcastLastAttributes {
  std::int64_t extent = 1;
  double factor = 1;
  PLIMSOLL_FIELDS(extent, factor)
};

// count_small: (x f16, counts f64[kCounts]) -> counts. It adds the numbers of all elements of x, of zeros, and of subnormal
// elements, which have lost digits.
enum SmallCount : std::size_t { kElements, kZeros, kSubnormals, kCounts };
extern const OpDef kReduce, kBroadcastLast, kSumRows, kSumLosses, kCountSmall;

}  // namespace plimsoll::ops
