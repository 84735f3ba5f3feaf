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

// The attributes of an update say how many of its first inputs it changes: the parameter and its states.

// AdamW (Loshchilov and Hutter, 2019), with PyTorch's semantics: decoupled decay, bias corrections, epsilon outside the root. The
// first beta is a scalar.
struct AdamWAttributes {
  double beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  bool clipped = true;    // there is a clip coefficient
  double clip_value = 0;  // no element of the gradient counts for more, either way; 0: none
  std::size_t changes() const { return 3; }
  friend bool operator==(const AdamWAttributes&, const AdamWAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("beta2", beta2), v("epsilon", epsilon), v("weight_decay", weight_decay), v("clipped", clipped), v("clip_value", clip_value);
  }
};

// Lion (Chen et al., 2023, arXiv 2302.06675). The first beta, of the direction, is a scalar.
struct LionAttributes {
  double beta2 = 0.99, weight_decay = 0;
  bool clipped = true;
  double clip_value = 0;
  std::size_t changes() const { return 2; }
  friend bool operator==(const LionAttributes&, const LionAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("beta2", beta2), v("weight_decay", weight_decay), v("clipped", clipped), v("clip_value", clip_value);
  }
};

struct SgdAttributes {
  bool momentum = false;  // there is a buffer
  double weight_decay = 0;
  bool nesterov = false, clipped = true;
  double clip_value = 0;
  std::size_t changes() const { return momentum ? 2 : 1; }
  friend bool operator==(const SgdAttributes&, const SgdAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("momentum", momentum), v("weight_decay", weight_decay), v("nesterov", nesterov), v("clipped", clipped),
        v("clip_value", clip_value);
  }
};

// What changes from update to update, fed as f64 [kUpdateScalars]. Momentum is AdamW's first beta as well.
enum UpdateScalar : std::size_t { kLearningRate, kBiasCorrection1, kBiasCorrection2, kFirstUpdate, kMomentum, kUpdateScalars };

// sum_of_squares: (gradient) -> f64[1].  clip: (sums...) -> norm f64[1], coefficient f32[1].
// adamw: (p, m, v, gradient, scalars, [coefficient]) -> p, m, v.  lion: (p, m, gradient, scalars, [coefficient]) -> p, m.
// sgd: (p, [momentum buffer], gradient, scalars, [coefficient]) -> p, [buffer]; without momentum there is no buffer, without
// clipping by the norm no coefficient, and then no update waits for the norm.
extern const OpDef kSumOfSquares, kClip, kAdamW, kLion, kSgd;

}  // namespace plimsoll::ops
