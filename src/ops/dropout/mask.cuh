// The elements of a sample that dropout keeps on a GPU: the words and decisions of the CPU's mask (dropout/kernels.h).
#pragma once

#include <array>
#include <cmath>

#include "device/cuda/kernels.cuh"

namespace plimsoll::cuda {

struct DropoutRule {
  std::array<std::uint32_t, 2> key{};
  std::uint32_t threshold = 0;  // kept where the word's upper 24 bits are at least this
  float keep_factor = 1;

  DropoutRule() = default;
  DropoutRule(double probability, std::array<std::uint32_t, 2> key)
      : key(key),
        threshold(static_cast<std::uint32_t>(std::ceil(double{static_cast<float>(probability)} * 0x1p24))),
        keep_factor(1.0f / (1.0f - static_cast<float>(probability))) {}

  // The words of elements 4 group to 4 group + 3 of a sample.
  __host__ __device__ __forceinline__ PhiloxWords words(std::uint64_t group, std::uint32_t epoch, std::uint32_t sample) const {
    return philox4x32(key, {static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32), sample, epoch});
  }
  __host__ __device__ __forceinline__ float factor(std::uint32_t word) const {
    return word >> 8 >= threshold ? keep_factor : 0.0f;
  }
};

// The noise of a row of x: of its sample, from a position on.
struct RowNoise {
  std::uint32_t epoch, sample;
  std::uint64_t position;
};

// The sample ids of rows of x. A row is a sample, or with `tokens` one token of it.
struct SampleIds {
  const std::uint32_t* ids = nullptr;  // [rows, 2] = {epoch, sample}; of tokens [rows, 3] = {epoch, sample, position}
  bool tokens = false;

  __device__ __forceinline__ RowNoise of(std::int64_t row) const {
    const std::uint32_t* const mine = ids + (tokens ? 3 : 2) * row;
    return {mine[0], mine[1], tokens ? mine[2] : std::uint64_t{0}};
  }
};

}  // namespace plimsoll::cuda
