// The 16-bit floating-point formats as bits: widening to fp32, exact for every value (NaN payloads included).
#pragma once

#include <bit>
#include <cstdint>

namespace plimsoll {

constexpr float widen_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

// IEEE 754 binary16. Subnormals are rescaled by one multiplication, so the body has no loop.
constexpr float widen_f16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  const std::uint32_t rebased = (magnitude << 13) + ((127u - 15u) << 23);
  const float small = static_cast<float>(magnitude) * 0x1p-24f;
  std::uint32_t wide = magnitude < 0x0400u ? std::bit_cast<std::uint32_t>(small) : rebased;
  if (magnitude >= 0x7c00u) wide = 0x7f800000u | ((magnitude & 0x03ffu) << 13);
  return std::bit_cast<float>(sign | wide);
}

}  // namespace plimsoll
