// Activations and their derivatives on a GPU, in fp32.
#pragma once

#include "device/cuda/kernels.cuh"

namespace plimsoll::cuda {

// A function and its derivative.
struct Curve {
  float value, derivative;
};

// x sigmoid(x). With e = exp(-|x|), which never overflows, and r = 1 / (1 + e): sigmoid(x) is r for x >= 0, else e r; its
// derivative is e r r.
__device__ __forceinline__ Curve silu(float x) {
  const float e = __expf(-fabsf(x)), r = __fdividef(1.0f, 1.0f + e), er = e * r;
  const float sigmoid = x < 0 ? er : r;
  return {x * sigmoid, sigmoid + x * (er * r)};
}

// GELU by tanh, x sigmoid(2 u): u = sqrt(2/pi) (x + 0.044715 x^3).
__device__ __forceinline__ Curve gelu_tanh(float x) {
  constexpr float kTwice = 1.5957691216057308f, kCubic = 0.044715f, kCubic3 = 3 * 0.044715f;
  const float gate = __fdividef(1.0f, 1.0f + __expf(-kTwice * x * (1.0f + kCubic * x * x)));
  return {x * gate, gate + x * gate * (1.0f - gate) * kTwice * (1.0f + kCubic3 * x * x)};
}

// GELU by the normal distribution, x (1 + erf(x / sqrt 2)) / 2.
__device__ __forceinline__ Curve gelu_erf(float x) {
  const float below = 0.5f * erfcf(-0.70710678118654752f * x);
  const float density = 0.39894228040143268f * __expf(-0.5f * x * x);
  return {x * below, below + x * density};
}

}  // namespace plimsoll::cuda
