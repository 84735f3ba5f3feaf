// Reductions. `reduce` sums or averages over the last axis; `sum_rows` sums over all axes but the last (the gradient of a bias)
// and adds into an accumulator; `sum_losses` adds per-unit losses in their order, in fp64, into the window's total.
#pragma once

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

struct ReduceAttributes {
  bool mean = false;
  friend bool operator==(const ReduceAttributes&, const ReduceAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("mean", mean);
  }
};

// The gradient of `reduce`: repeats [..] along a new last axis and scales.
struct BroadcastLastAttributes {
  std::int64_t extent = 1;
  double factor = 1;
  friend bool operator==(const BroadcastLastAttributes&, const BroadcastLastAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("extent", extent), v("factor", factor);
  }
};

extern const OpDef kReduce, kBroadcastLast, kSumRows, kSumLosses;

}  // namespace plimsoll::ops
