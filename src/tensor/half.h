// The 16-bit floating-point formats as bits: widening to fp32, exact for every value (NaN payloads included), and rounding to
// nearest even.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace plimsoll {

// An element of fp16 in memory. An element of bf16 is a plain std::uint16_t.
enum class F16 : std::uint16_t {};

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

// Converts out.size() elements of fp32 or a 16-bit type to fp32, or numbers to such a type. Bytes need no alignment.
void widen(DType from, const std::byte* bytes, std::span<float> out);
void narrow(DType to, std::span<const float> numbers, std::byte* out);

}  // namespace plimsoll
