// A gradient as an update takes it on a GPU, four elements at a time (update/taken-inl.h is the CPU's).
#pragma once

#include "device/cuda/kernels.cuh"

namespace plimsoll::cuda {

// Side by side, and of one group of noise. The last four of an array may be fewer: zeros follow them.
template <class T>
using Four = Pack<T, 4>;

// Elements i to i + 3 of n. `kWhole`: all of them are there.
template <bool kWhole, class T>
__device__ __forceinline__ Four<T> load_four(const T* from, std::int64_t i, std::int64_t n) {
  const bool all = kWhole || i + 4 <= n;
  Four<T> four{};
  if (all) four = *reinterpret_cast<const Four<T>*>(from + i);
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    if (!all && i + e < n) four.at[e] = from[i + e];
  }
  return four;
}

template <bool kWhole, class T>
__device__ __forceinline__ void store_four(const Four<T>& four, T* to, std::int64_t i, std::int64_t n) {
  const bool all = kWhole || i + 4 <= n;
  if (all) *reinterpret_cast<Four<T>*>(to + i) = four;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    if (!all && i + e < n) to[i + e] = four.at[e];
  }
}

__device__ __forceinline__ bool is_finite(float x) { return fabsf(x) < INFINITY; }

// Scaled, and then no element beyond the limit, either way; 0: none. NaN stays NaN.
struct Taken {
  float scale, most;

  __device__ static Taken of(float scale, double clip_value) {
    return {scale, clip_value == 0 ? INFINITY : static_cast<float>(clip_value)};
  }
  __device__ __forceinline__ float operator()(float g) const {
    const float scaled = g * scale;
    return scaled != scaled ? scaled : fmaxf(fminf(scaled, most), -most);
  }
};

}  // namespace plimsoll::cuda
