// Rounding of fp32 to bf16 to one of its two neighbours at random, with the words of the CPU's kernels (update/kernels.h).
#pragma once

#include <array>

#include "device/cuda/kernels.cuh"

namespace plimsoll::cuda {

// The lost bits plus the half word decide about rounding up. NaN stays NaN.
__host__ __device__ __forceinline__ Bf16 round_by(float x, std::uint32_t word) {
#ifdef __CUDA_ARCH__
  const std::uint32_t bits = __float_as_uint(x);
#else
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
#endif
  if (x != x) return static_cast<Bf16>(bits >> 16 | 0x40u);
  return static_cast<Bf16>((bits + (word & 0xffffu)) >> 16);
}

struct Rounding {
  std::array<std::uint32_t, 2> key{};  // zeros: rounds to the nearest, ties away from zero
  std::array<std::uint32_t, 2> update{};

  // The words of elements 4 group to 4 group + 3. `stream`: 0, or kSecondStream.
  __host__ __device__ __forceinline__ PhiloxWords words(std::int64_t group, std::uint32_t stream = 0) const {
    constexpr std::uint32_t kHalves = 0x80008000u;
    if (key[0] == 0 && key[1] == 0) return {kHalves, kHalves, kHalves, kHalves};
    const auto counter = static_cast<std::uint64_t>(group);
    return philox4x32(
        key, {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), update[0], update[1] ^ stream});
  }
  static constexpr std::uint32_t kSecondStream = 0x80000000u;  // above any number of updates
};

}  // namespace plimsoll::cuda
