// The update of a window: sums of squares of the gradients, the global norm and its clip coefficient, and the optimizers. All act
// on ranges of a parameter, so that a paged one can be updated in pieces.
#pragma once

#include <cstdint>

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

struct ClipAttributes {
  double limit = 0;  // largest global norm; 0: no clip, the norm is still computed
  friend bool operator==(const ClipAttributes&, const ClipAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("limit", limit);
  }
};

// AdamW (Loshchilov and Hutter, 2019), with PyTorch's semantics: decoupled decay, bias corrections, epsilon outside the root.
struct AdamWAttributes {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  bool clipped = true;  // there is a clip coefficient
  friend bool operator==(const AdamWAttributes&, const AdamWAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("beta1", beta1), v("beta2", beta2), v("epsilon", epsilon), v("weight_decay", weight_decay), v("clipped", clipped);
  }
};

struct SgdAttributes {
  double momentum = 0, weight_decay = 0;
  bool nesterov = false, clipped = true;
  friend bool operator==(const SgdAttributes&, const SgdAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("momentum", momentum), v("weight_decay", weight_decay), v("nesterov", nesterov), v("clipped", clipped);
  }
};

// What changes from update to update, fed as f64 [kUpdateScalars].
enum UpdateScalar : std::size_t { kLearningRate, kBiasCorrection1, kBiasCorrection2, kFirstUpdate, kUpdateScalars };

// sum_of_squares: (gradient) -> f64[1].  clip: (sums...) -> norm f64[1], coefficient f32[1].
// adamw: (p, m, v, gradient, scalars, [coefficient]) -> p, m, v.  sgd: (p, [momentum buffer], gradient, scalars, [coefficient])
// -> p, [buffer]; without momentum there is no buffer, without clipping no coefficient, and then no update waits for the norm.
extern const OpDef kSumOfSquares, kClip, kAdamW, kSgd;

}  // namespace plimsoll::ops
