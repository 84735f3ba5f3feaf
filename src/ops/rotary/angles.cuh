// Cosines and sines of the angles of a rotary embedding on a GPU. CUDA's sincosf keeps the path for large angles in local memory,
// and __sincosf is wrong there.
#pragma once

#include "device/cuda/kernels.cuh"

namespace plimsoll::cuda {

struct Turn {
  float cosine, sine;
};

// Cosine and sine of any angle up to 2^53, within 1.3e-7 of each. The angle is reduced in fp64 to within pi/4 of a multiple of
// pi/2, which has two parts: the first product cancels without an error, so the remainder is as exact as its own rounding. The
// polynomials are those of Cephes (Moshier).
__device__ __forceinline__ Turn turn_by(float angle) {
  constexpr double kTwoOverPi = 0.63661977236758134, kHalfPi = 1.5707963267948966, kHalfPiRest = 6.123233995736766e-17;
  const double quarters = rint(angle * kTwoOverPi);
  const float r = static_cast<float>(fma(-quarters, kHalfPiRest, fma(-quarters, kHalfPi, static_cast<double>(angle))));
  const auto quadrant = static_cast<unsigned>(static_cast<long long>(quarters));
  const float square = r * r;
  float sine = -1.9515295891e-4f * square + 8.3321608736e-3f;
  sine = r + r * square * (sine * square - 1.6666654611e-1f);
  float cosine = 2.443315711809948e-5f * square - 1.388731625493765e-3f;
  cosine = 1.0f - 0.5f * square + square * square * (cosine * square + 4.166664568298827e-2f);
  const float across = quadrant & 1 ? sine : cosine, along = quadrant & 1 ? cosine : sine;
  return {(quadrant + 1) & 2 ? -across : across, quadrant & 2 ? -along : along};
}

}  // namespace plimsoll::cuda
