// Half squared errors on the CPU: fp32, dense, n elements; `out` may equal prediction or target. Nothing allocates, and the
// number of threads changes no bit.
#pragma once

#include <cstdint>

namespace plimsoll::cpu {

// out = (prediction - target)^2 / 2
void squared_error_forward(std::int64_t n, const float* prediction, const float* target, float* out);
// out = (prediction - target) * scale
void squared_error_backward(std::int64_t n, const float* prediction, const float* target, float scale, float* out);

}  // namespace plimsoll::cpu
