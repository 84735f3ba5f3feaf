// The frequencies of a rotary embedding from its attributes. The arithmetic is fp32, rounded after each operation, in PyTorch's
// order for Hugging Face's models (transformers/modeling_rope_utils.py).
#pragma once

#include <vector>

#include "ops/rotary/rotary.h"

namespace plimsoll::ops {

struct RotaryTable {
  std::vector<float> inverse_frequencies;  // one for each pair
  float attention_factor = 1;              // factor of cosines and sines
};

RotaryTable rotary_table(const RotaryAttributes& attributes);

}  // namespace plimsoll::ops
