// Peak rates of a processor or device, and the lower bound of kernel times from them.
#pragma once

#include "graph/op.h"

namespace plimsoll {

struct Roofline {
  double flops_per_second = 0;       // of fp32 matrix products
  double bf16_flops_per_second = 0;  // of products of bf16 operands with fp32 sums; 0: the rate of fp32
  double fp16_flops_per_second = 0;  // likewise of fp16
  double bytes_per_second = 0;       // of a fused pass over memory
  double step_seconds = 0;           // fixed cost of one kernel call

  double flops_per_second_of(DType operands) const;
  friend bool operator==(const Roofline&, const Roofline&) = default;
};

// A lower bound of a kernel's seconds.
double roofline_seconds(const Roofline& roofline, Cost cost);

}  // namespace plimsoll
