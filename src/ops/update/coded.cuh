// Numbers of 8 bits in blocks on a GPU: the codes of the CPU (device/cpu/coded-inl.h), one by one.
#pragma once

#include <bit>

#include "device/cuda/kernels.cuh"

namespace plimsoll::cuda {

template <bool kSigned>
struct Coded {
  static constexpr int kDigits = 3, kExponents = kSigned ? 4 : 5, kShift = 23 - kDigits;
  static constexpr std::uint32_t kMost = (1u << (kDigits + kExponents)) - 1;       // the largest magnitude
  static constexpr std::uint32_t kBias = (127u - ((1u << kExponents) - 1)) << 23;  // the largest exponent is 0
  static constexpr float kLargest = 1.875f;
  // The step of subnormal numbers.
  static constexpr float kStep = kSigned ? 0x1p-17f : 0x1p-33f;

  __host__ __device__ static __forceinline__ float decode(std::uint8_t code, float scale) {
    const std::uint32_t magnitude = code & kMost;
    const float large = std::bit_cast<float>((magnitude << kShift) + kBias), small = static_cast<float>(magnitude) * kStep;
    const float number = (magnitude < 1u << kDigits ? small : large) * scale;
    if constexpr (!kSigned) return number;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(number) | (code & 0x80u) << 24);
  }

  // Rounds at random by the lower 16 bits of the noise. `inverse_scale`: 1 / scale, where no number times it is above kLargest.
  // An unsigned number above 0 never becomes 0, because other numbers are divided by it.
  __host__ __device__ static __forceinline__ std::uint8_t encode(float number, float inverse_scale, std::uint32_t noise) {
    const std::uint32_t random = noise & 0xffffu;
    const float scaled = fminf(fabsf(number) * inverse_scale, kLargest);
    // The noise has kShift bits: 16 random ones, then the middle of the range of the others.
    const std::uint32_t added = random << (kShift - 16) | 1u << (kShift - 17);
    const float up = (static_cast<float>(random) + 0.5f) * 0x1p-16f;
    std::uint32_t magnitude = scaled < kStep * (1 << kDigits) ? static_cast<std::uint32_t>(fmaf(scaled, 1 / kStep, up))
                                                              : (std::bit_cast<std::uint32_t>(scaled) - kBias + added) >> kShift;
    magnitude = magnitude < kMost ? magnitude : kMost;
    if constexpr (kSigned) {
      magnitude |= std::bit_cast<std::uint32_t>(number) >> 24 & 0x80u;
    } else if (number > 0 && magnitude == 0) {
      magnitude = 1;
    }
    return static_cast<std::uint8_t>(magnitude);
  }
};

// The scale of a warp's block; each lane passes its largest magnitude as bits. NaN stays NaN, because its bits are larger than
// those of any number.
struct BlockScale {
  float scale, inverse;

  __device__ static __forceinline__ BlockScale of(std::uint32_t most) {
    const float largest = std::bit_cast<float>(warp_max(most));
    return {largest / Coded<true>::kLargest, largest > 0 ? Coded<true>::kLargest / largest : 0.0f};
  }
};

}  // namespace plimsoll::cuda
