// Change of dtype on the CPU: fp32 from and to the 16-bit formats, rounding to nearest even. Overflow gives infinity, subnormals
// are kept, NaN stays NaN (quiet). 16-bit values travel as bits. Input and output do not overlap.
#pragma once

#include <bit>
#include <cstdint>

namespace plimsoll::cpu {

void cast_f32_to_bf16(std::int64_t n, const float* x, std::uint16_t* y);
void cast_bf16_to_f32(std::int64_t n, const std::uint16_t* x, float* y);
void cast_f32_to_f16(std::int64_t n, const float* x, std::uint16_t* y);
void cast_f16_to_f32(std::int64_t n, const std::uint16_t* x, float* y);

// The definition of the two narrowing casts, one value at a time.
constexpr std::uint16_t narrow_bf16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x0040u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

constexpr std::uint16_t narrow_f16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x), magnitude = bits & 0x7fffffffu;
  const std::uint32_t sign = bits >> 16 & 0x8000u;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65520 and above
  if (magnitude < 0x38800000u) {  // below 2^-14: adding 1/2 aligns the last bit with 2^-24 and rounds
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3f000000u));
  }
  const std::uint32_t rebased = magnitude - (112u << 23);
  return static_cast<std::uint16_t>(sign | (rebased + 0x0fffu + (rebased >> 13 & 1u)) >> 13);
}

}  // namespace plimsoll::cpu
