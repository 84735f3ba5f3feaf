// Rotary embedding on the CPU. x and out are [batch, tokens, heads, head_size] of fp32, bf16 or fp16, dense; out may be x.
// Angles, cosines and sines are fp32; cosines and sines are rounded to the type of x. A rotation is computed in fp32 and rounded
// once. Nothing allocates, and the number of threads changes no bit.
#pragma once

#include <cstdint>
#include <span>

#include "device/cpu/elements.h"

namespace plimsoll::cpu {

struct RotaryShape {
  std::int64_t batch, tokens, heads, head_size;
  bool interleaved;  // pairs are (2i, 2i + 1), else (i, i + pairs)
  bool inverse;      // turns back
};

// Rotates pair i of each head by position * inverse_frequencies[i] and multiplies it by `factor`. The position comes from
// `positions` [batch, tokens] or, if null, is the token's index. The numbers of a head after its pairs do not change.
void rotate(const RotaryShape& shape, std::span<const float> inverse_frequencies, float factor, const std::int32_t* positions,
            ConstElements x, Elements out);

}  // namespace plimsoll::cpu
