// Change of dtype on the CPU: fp32 from and to the 16-bit formats, rounding to nearest even. Overflow gives infinity, subnormals
// are kept, NaN stays NaN (quiet). 16-bit values travel as bits. Input and output do not overlap.
#pragma once

#include <cstdint>

namespace plimsoll::cpu {

void cast_f32_to_bf16(std::int64_t n, const float* x, std::uint16_t* y);
void cast_bf16_to_f32(std::int64_t n, const std::uint16_t* x, float* y);
void cast_f32_to_f16(std::int64_t n, const float* x, std::uint16_t* y);
void cast_f16_to_f32(std::int64_t n, const std::uint16_t* x, float* y);

}  // namespace plimsoll::cpu
