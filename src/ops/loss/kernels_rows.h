// The vector loops of the loss over one row of a tile of logits: running maximum and sum of exponentials, gradient.
#pragma once

#include <cstdint>
#include <limits>

namespace plimsoll::cpu {

// A token's logits in the tiles so far: sum = sum of exp(logit - max).
struct SoftmaxState {
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0.0F;
  float target = 0.0F;  // the target's logit, or the mixture of all logits in its place
};

// Adds the next `columns` logits to the state, except for `target`. A NaN among them makes the sum NaN.
void add_logits(const float* logits, std::int64_t columns, SoftmaxState& state);

float sum_of(const float* logits, std::int64_t columns);

// logits[i] becomes exp(logits[i] - max) * scale - less.
void scale_softmax(float* logits, std::int64_t columns, float max, float scale, float less);

}  // namespace plimsoll::cpu
