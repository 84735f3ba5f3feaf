// A product of dense row-major matrices, on whatever device.
#pragma once

#include <compare>
#include <cstdint>

#include "tensor/dtype.h"

namespace plimsoll {

// C = A * B (+ bias) (+ C) for each element of the batch. A is m x k, or k x m where transposed; B is k x n, or n x k where
// transposed; bias has n elements of fp32, shared by the batch.
struct GemmShape {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  bool bias = false;
  bool accumulate = false;      // adds to what C holds
  DType operands = DType::f32;  // of A and B
  DType result = DType::f32;    // or that of the operands; then nothing is accumulated

  friend auto operator<=>(const GemmShape&, const GemmShape&) = default;
};

}  // namespace plimsoll
