// RMS norm on the CPU (Zhang and Sennrich, 2019): y = weight * round(x rstd), rstd = 1 / sqrt(mean(x^2) + epsilon), in fp32.
// Buffers are dense, x, y, dy and dx [rows, width] of fp32, bf16 or fp16, weight [width] and rstd [rows] of fp32; the caller owns
// all. Rows are reduced in tiles fixed by the shape, so results do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "device/cpu/elements.h"

namespace plimsoll::cpu {

// x rstd is rounded to the type of y before the product, which is rounded as well. y may be x if both have one type.
void rms_norm_forward(std::int64_t rows, std::int64_t width, float epsilon, ConstElements x, const float* weight, Elements y,
                      float* rstd);

// Partial sums of dweight: for each tile of rows 4 * width bytes, padded to cache lines. A tile has 64 rows, or a multiple that
// makes 1,024 tiles at most.
Bytes rms_norm_backward_scratch(std::int64_t rows, std::int64_t width);

struct RmsNormGradients {
  std::byte* dx = nullptr;   // null: not made; else dx and dy have the type of x. dx may be x or dy.
  float* dweight = nullptr;  // null: not made; else overwritten or, with `accumulate`, added to
  bool accumulate = false;
};

// `output` is the type of y, to which x rstd is rounded for dweight. Only dx needs the weight, only dweight the scratch.
void rms_norm_backward(std::int64_t rows, std::int64_t width, ConstElements dy, ConstElements x, const float* rstd,
                       const float* weight, DType output, const RmsNormGradients& made, std::byte* scratch);

}  // namespace plimsoll::cpu
