#include "graph/roofline.h"

#include <algorithm>

namespace plimsoll {

double Roofline::flops_per_second_of(DType operands) const {
  const double narrow = operands == DType::bf16 ? bf16_flops_per_second : operands == DType::f16 ? fp16_flops_per_second : 0;
  return narrow > 0 ? narrow : flops_per_second;
}

double roofline_seconds(const Roofline& roofline, Cost cost) {
  const double rate = roofline.flops_per_second_of(cost.operands);
  const double arithmetic = rate > 0 ? cost.flops / rate : 0;
  const double traffic = roofline.bytes_per_second > 0 ? cost.bytes / roofline.bytes_per_second : 0;
  return std::max(arithmetic, traffic) + roofline.step_seconds;
}

}  // namespace plimsoll
