// The update of an element by each optimizer on a GPU: the formulas of the CPU (update/kernels.cpp), in their order.
#pragma once

#include "ops/update/taken.cuh"
#include "ops/update/update.h"

namespace plimsoll::cuda {

// The rules of an optimizer, with numbers computed from an update's scalars and its clip coefficient. They fuse multiplications
// and additions exactly where the CPU does; nothing else may be contracted.
struct AdamWRule {
  using Attributes = ops::AdamWAttributes;
  static constexpr int kStates = 2;
  Taken taken;
  float keep, blend1, beta2, blend2, inverse_root, epsilon, size;

  __device__ static AdamWRule of(const Attributes& a, const double* scalars, const Taken& taken) {
    const double lr = scalars[ops::kLearningRate];
    return {taken,
            static_cast<float>(1 - lr * a.weight_decay),
            static_cast<float>(1 - scalars[ops::kMomentum]),
            static_cast<float>(a.beta2),
            static_cast<float>(1 - a.beta2),
            static_cast<float>(1 / sqrt(scalars[ops::kBiasCorrection2])),
            static_cast<float>(a.epsilon),
            static_cast<float>(lr / scalars[ops::kBiasCorrection1])};
  }
  __device__ __forceinline__ void operator()(float g, float& p, float (&states)[2]) const {
    auto& [first, second] = states;
    const float d = taken(g);
    first = fmaf(blend1, d - first, first);
    second = fmaf(beta2, second, blend2 * d * d);
    const float denominator = fmaf(sqrtf(second), inverse_root, epsilon);
    p = fmaf(-size, first / denominator, p * keep);
  }
};

struct LionRule {
  using Attributes = ops::LionAttributes;
  static constexpr int kStates = 1;
  Taken taken;
  float keep, size, blend1, blend2;

  __device__ static LionRule of(const Attributes& a, const double* scalars, const Taken& taken) {
    const double lr = scalars[ops::kLearningRate];
    return {taken, static_cast<float>(1 - lr * a.weight_decay), static_cast<float>(lr),
            static_cast<float>(1 - scalars[ops::kMomentum]), static_cast<float>(1 - a.beta2)};
  }
  // No step if the direction is 0; NaN if it is NaN.
  __device__ __forceinline__ void operator()(float g, float& p, float (&states)[1]) const {
    const float d = taken(g) - states[0], direction = fmaf(blend1, d, states[0]);
    const float move = direction == 0 ? 0.0f : copysignf(size, direction);
    p = direction != direction ? direction : __fadd_rn(__fmul_rn(p, keep), -move);
    states[0] = fmaf(blend2, d, states[0]);
  }
};

template <bool kMomentum>
struct SgdRule {
  using Attributes = ops::SgdAttributes;
  static constexpr int kStates = kMomentum ? 1 : 0;
  Taken taken;
  float decay, momentum, lr;
  bool nesterov, first;

  __device__ static SgdRule of(const Attributes& a, const double* scalars, const Taken& taken) {
    return {taken,
            static_cast<float>(a.weight_decay),
            static_cast<float>(scalars[ops::kMomentum]),
            static_cast<float>(scalars[ops::kLearningRate]),
            a.nesterov,
            scalars[ops::kUpdate] == 1};
  }
  // A first update must not read the buffer, which may contain NaN.
  __device__ __forceinline__ void operator()(float g, float& p, float (&states)[1]) const {
    const float d = fmaf(decay, p, taken(g));
    if constexpr (kMomentum) {
      states[0] = first ? d : fmaf(momentum, states[0], d);
      p = fmaf(-lr, nesterov ? fmaf(momentum, states[0], d) : states[0], p);
    } else {
      p = fmaf(-lr, d, p);
    }
  }
};

}  // namespace plimsoll::cuda
