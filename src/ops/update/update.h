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

// The attributes of an update say how many of its first inputs it changes: the parameter, its states and, where average_blend is
// not 0, an average of the parameter (it begins as the parameter and then takes so much of it over at each update). States are
// fp32, or bf16: then each is rounded to one of its two neighbours at random (`rounding`, and the number of the update), so that
// on the average nothing is lost. All that is computed is fp32.

// AdamW (Loshchilov and Hutter, 2019), with PyTorch's semantics: decoupled decay, bias corrections, epsilon outside the root. The
// first beta is a scalar.
struct AdamWAttributes {
  double beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  bool clipped = true;    // there is a clip coefficient
  double clip_value = 0;  // no element of the gradient counts for more, either way; 0: none
  double average_blend = 0;
  NoiseKey rounding{};
  std::size_t changes() const { return average_blend == 0 ? 3 : 4; }
  friend bool operator==(const AdamWAttributes&, const AdamWAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("beta2", beta2), v("epsilon", epsilon), v("weight_decay", weight_decay), v("clipped", clipped), v("clip_value", clip_value),
        v("average_blend", average_blend), v("rounding", rounding);
  }
};

// Lion (Chen et al., 2023, arXiv 2302.06675). The first beta, of the direction, is a scalar.
struct LionAttributes {
  double beta2 = 0.99, weight_decay = 0;
  bool clipped = true;
  double clip_value = 0, average_blend = 0;
  NoiseKey rounding{};
  std::size_t changes() const { return average_blend == 0 ? 2 : 3; }
  friend bool operator==(const LionAttributes&, const LionAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("beta2", beta2), v("weight_decay", weight_decay), v("clipped", clipped), v("clip_value", clip_value),
        v("average_blend", average_blend), v("rounding", rounding);
  }
};

struct SgdAttributes {
  bool momentum = false;  // there is a buffer
  double weight_decay = 0;
  bool nesterov = false, clipped = true;
  double clip_value = 0, average_blend = 0;
  NoiseKey rounding{};
  std::size_t changes() const { return 1 + (momentum ? 1 : 0) + (average_blend == 0 ? 0 : 1); }
  friend bool operator==(const SgdAttributes&, const SgdAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("momentum", momentum), v("weight_decay", weight_decay), v("nesterov", nesterov), v("clipped", clipped),
        v("clip_value", clip_value), v("average_blend", average_blend), v("rounding", rounding);
  }
};

// What changes from update to update, fed as f64 [kUpdateScalars]. Updates are counted from 1. Momentum is AdamW's first beta as
// well.
enum UpdateScalar : std::size_t { kLearningRate, kBiasCorrection1, kBiasCorrection2, kUpdate, kMomentum, kUpdateScalars };

// sum_of_squares: (gradient) -> f64[1].  clip: (sums...) -> norm f64[1], coefficient f32[1].
// An update: (p, states..., [average], gradient, scalars, [coefficient]) -> p, states..., [average]. States are m and v of adamw,
// m of lion, and of sgd with momentum its buffer. Without clipping by the norm there is no coefficient, and no update waits for
// it.
extern const OpDef kSumOfSquares, kClip, kAdamW, kLion, kSgd;

}  // namespace plimsoll::ops
