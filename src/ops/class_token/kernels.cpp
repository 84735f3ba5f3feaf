#include "ops/class_token/kernels.h"

#include <algorithm>

#include "device/cpu/parallel.h"

namespace plimsoll::cpu {

void place_tokens(const TokenShape& shape, const float* x, const float* token, const float* positions, float* y) {
  const std::int64_t width = shape.width, others = (shape.tokens - 1) * width;
  parallel_for(shape.batch, [&](std::int64_t sample) {
    const float* const rows = x + sample * others;
    float* const to = y + sample * shape.tokens * width;
    for (std::int64_t i = 0; i < width; ++i) to[i] = token[i] + positions[i];
    for (std::int64_t i = 0; i < others; ++i) to[width + i] = rows[i] + positions[width + i];
  });
}

void first_tokens(const TokenShape& shape, const float* x, float* y) {
  for (std::int64_t sample = 0; sample < shape.batch; ++sample) {
    std::copy_n(x + sample * shape.tokens * shape.width, shape.width, y + sample * shape.width);
  }
}

void spread_first_tokens(const TokenShape& shape, const float* d, float* y) {
  const std::int64_t width = shape.width;
  parallel_for(shape.batch, [&](std::int64_t sample) {
    float* const to = y + sample * shape.tokens * width;
    std::copy_n(d + sample * width, width, to);
    std::fill_n(to + width, (shape.tokens - 1) * width, 0.0f);
  });
}

void other_tokens(const TokenShape& shape, const float* x, float* y) {
  const std::int64_t others = (shape.tokens - 1) * shape.width;
  parallel_for(shape.batch, [&](std::int64_t sample) {
    std::copy_n(x + sample * shape.tokens * shape.width + shape.width, others, y + sample * others);
  });
}

}  // namespace plimsoll::cpu
