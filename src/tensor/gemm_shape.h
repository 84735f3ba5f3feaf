// A product of dense row-major matrices, on any device.
#pragma once

#include <compare>
#include <cstdint>

#include "tensor/dtype.h"

namespace plimsoll {

// C = A * B (+ bias) (+ C) for each element of the batch. A is m x k (transposed: k x m); B is k x n (transposed: n x k); bias
// has n elements of fp32, shared by the batch.
struct GemmShape {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool bias = false;
  bool accumulate = false;      // adds to the contents of C
  DType operands = DType::f32;  // type of A and B
  DType result = DType::f32;    // type of C: fp32 or, without accumulation, that of the operands

  friend auto operator<=>(const GemmShape&, const GemmShape&) = default;
};

}  // namespace plimsoll
