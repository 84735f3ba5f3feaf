// Softmax over the last axis on the CPU. Buffers are fp32, dense, row-major; nothing is allocated and no scratch is needed.
// Results do not depend on the number of threads.
#pragma once

#include <cstdint>

namespace plimsoll::cpu {

// y[r, i] = exp(x[r, i] - max_r) / sum_r; x and y are [rows, width] and may be the same buffer.
void softmax_forward(std::int64_t rows, std::int64_t width, const float* x, float* y);

// dx = y * (dy - sum_r(y * dy)), all [rows, width]; dx may be dy.
void softmax_backward(std::int64_t rows, std::int64_t width, const float* y, const float* dy, float* dx);

}  // namespace plimsoll::cpu
