// Dropout on the CPU: y = x * mask / (1 - p), fp32, x [rows, elements], y may equal any input. A row is a sample, or with
// `tokens` one token of it. The mask is a function of counters and is never stored: word element % 4 of philox4x32(key, {element
// / 4 low, element / 4 high, sample, epoch}) keeps an element where unit_float(word) >= p. Applied to the gradient, the same
// function is the backward pass. Nothing allocates.
#pragma once

#include <array>
#include <cstdint>

namespace plimsoll::cpu {

struct DropoutNoise {
  float probability = 0;  // in [0, 1)
  std::array<std::uint32_t, 2> key{};
  const std::uint32_t* sample_ids = nullptr;  // may be null if probability is 0
  bool tokens = false;  // sample_ids are [rows, 3] = {epoch, sample, position}, else [rows, 2] = {epoch, sample}
};

// Element i of a token counts as element position * elements + i of its sample.
void dropout(std::int64_t rows, std::int64_t elements, const DropoutNoise& noise, const float* x, float* y);

}  // namespace plimsoll::cpu
