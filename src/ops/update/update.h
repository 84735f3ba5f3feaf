// The update of a window: sums of squares of the gradients, the global norm and its clip coefficient, and the optimizers. All act
// on ranges of a parameter, so that a paged one can be updated in pieces.
#pragma once

#include <cstdint>

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

struct ClipAttributes {
  double limit = 0;     // largest global norm; 0: no clip, the norm is still computed
  bool scaled = false;  // gradients are those of the loss times a scale; the scalars follow the sums
  friend bool operator==(const ClipAttributes&, const ClipAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("limit", limit), v("scaled", scaled);
  }
};

// The attributes of an update say how many of its first inputs it changes: the parameter, its states and, where average_blend is
// not 0, an average of the parameter (it begins as the parameter and then takes so much of it over at each update). States are
// fp32, or bf16, or `coded`: 8 bits, each state followed by its scales, one fp32 for kCodedBlock elements. What is not fp32 is
// rounded to one of its two neighbours at random (`rounding`, and the number of the update), so that on the average nothing is
// lost; without a key (zeros), which only a configuration that insists leads to, to the nearest. All that is computed is fp32.

inline constexpr std::int64_t kCodedBlock = 256;

template <class A>
std::size_t changes_of(const A& a) {
  return 1 + a.states() * (a.coded ? 2 : 1) + (a.average_blend == 0 ? 0 : 1);
}

// AdamW (Loshchilov and Hutter, 2019), with PyTorch's semantics: decoupled decay, bias corrections, epsilon outside the root. The
// first beta is a scalar.
struct AdamWAttributes {
  double beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  bool clipped = true;    // there is a clip coefficient
  double clip_value = 0;  // no element of the gradient counts for more, either way; 0: none
  double average_blend = 0;
  NoiseKey rounding{};
  bool coded = false;
  std::size_t states() const { return 2; }
  std::size_t changes() const { return changes_of(*this); }
  friend bool operator==(const AdamWAttributes&, const AdamWAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("beta2", beta2), v("epsilon", epsilon), v("weight_decay", weight_decay), v("clipped", clipped), v("clip_value", clip_value),
        v("average_blend", average_blend), v("rounding", rounding), v("coded", coded);
  }
};

// Lion (Chen et al., 2023, arXiv 2302.06675). The first beta, of the direction, is a scalar.
struct LionAttributes {
  double beta2 = 0.99, weight_decay = 0;
  bool clipped = true;
  double clip_value = 0, average_blend = 0;
  NoiseKey rounding{};
  bool coded = false;
  std::size_t states() const { return 1; }
  std::size_t changes() const { return changes_of(*this); }
  friend bool operator==(const LionAttributes&, const LionAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("beta2", beta2), v("weight_decay", weight_decay), v("clipped", clipped), v("clip_value", clip_value),
        v("average_blend", average_blend), v("rounding", rounding), v("coded", coded);
  }
};

struct SgdAttributes {
  bool momentum = false;  // there is a buffer
  double weight_decay = 0;
  bool nesterov = false, clipped = true;
  double clip_value = 0, average_blend = 0;
  NoiseKey rounding{};
  bool coded = false;
  std::size_t states() const { return momentum ? 1 : 0; }
  std::size_t changes() const { return changes_of(*this); }
  friend bool operator==(const SgdAttributes&, const SgdAttributes&) = default;
  template <class V>
  void fields(V&& v) const {
    v("momentum", momentum), v("weight_decay", weight_decay), v("nesterov", nesterov), v("clipped", clipped),
        v("clip_value", clip_value), v("average_blend", average_blend), v("rounding", rounding), v("coded", coded);
  }
};

// What changes from update to update, fed as f64 [kUpdateScalars]. Updates are counted from 1. Momentum is AdamW's first beta as
// well.
enum UpdateScalar : std::size_t {
  kLearningRate,
  kBiasCorrection1,
  kBiasCorrection2,
  kUpdate,
  kMomentum,
  kInverseScale,  // one over what the loss was multiplied by
  kUpdateScalars
};

// sum_of_squares: (gradient) -> f64[1].  clip: (sums..., [scalars]) -> norm f64[1], coefficient f32[1]: of the loss without its
// scale, and what takes gradients there and to the limit.
// An update: (p, states..., [average], gradient, scalars, [coefficient]) -> p, states..., [average], change f64[2]: the sums of
// squares of p before and of what was added to it. States are m and v of adamw, m of lion, and of sgd with momentum its buffer.
// Without clipping by the norm, or a scale, there is no coefficient, and no update waits for it. Where the coefficient is no
// finite number, an update changes nothing.  report: (f64[..]...) -> f64[all]: one behind the other.
extern const OpDef kSumOfSquares, kClip, kReport, kAdamW, kLion, kSgd;

}  // namespace plimsoll::ops
