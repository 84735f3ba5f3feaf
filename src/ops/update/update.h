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
  PLIMSOLL_FIELDS(limit, scaled)
};

// Positions of the operands of a clip. Inputs: sums and, where it is scaled, scalars. Outputs: norm and coefficient.
struct ClipOperands {
  std::size_t sums, inputs;

  static constexpr ClipOperands of(const ClipAttributes& a, std::size_t inputs) { return {inputs - (a.scaled ? 1 : 0), inputs}; }
  constexpr std::size_t scalars() const { return sums; }
  static constexpr std::size_t norm = 0, coefficient = 1, outputs = 2;
};

// The attributes of an update say which inputs it has. It changes the first ones: the parameter, its states and, where
// average_blend is not 0, an average of the parameter (it begins as the parameter and then takes so much of it over at each
// update). States are fp32, or bf16, or `coded`: 8 bits, each state with its scales, one fp32 for kCodedBlock elements. What is
// not fp32 is rounded to one of its two neighbours at random (`rounding`, and the number of the update), so that on the average
// nothing is lost; without a key (zeros), which only a configuration that insists leads to, to the nearest. All that is computed
// is fp32.

inline constexpr std::int64_t kCodedBlock = 256;

// Positions of the operands of an update, in the one place that knows their order. A changed operand has the same number among
// inputs and outputs.
class UpdateOperands {
 public:
  template <class A>
  constexpr explicit UpdateOperands(const A& a)
      : states_(a.states()), coded_(a.coded), averaged_(a.average_blend != 0), clipped_(a.clipped) {}

  constexpr std::size_t states() const { return states_; }
  constexpr bool coded() const { return coded_; }        // each state has scales
  constexpr bool averaged() const { return averaged_; }  // there is an average
  constexpr bool clipped() const { return clipped_; }    // there is a coefficient

  static constexpr std::size_t parameter() { return 0; }
  constexpr std::size_t state(std::size_t number) const { return 1 + number * (coded_ ? 2 : 1); }
  constexpr std::size_t scales(std::size_t number) const { return state(number) + 1; }
  constexpr std::size_t average() const { return state(states_); }
  constexpr std::size_t changed() const { return average() + (averaged_ ? 1 : 0); }
  // Inputs.
  constexpr std::size_t gradient() const { return changed(); }
  constexpr std::size_t scalars() const { return gradient() + 1; }
  constexpr std::size_t coefficient() const { return scalars() + 1; }
  constexpr std::size_t inputs() const { return scalars() + (clipped_ ? 2 : 1); }
  // Outputs.
  constexpr std::size_t change() const { return changed(); }
  constexpr std::size_t outputs() const { return changed() + 1; }

 private:
  std::size_t states_;
  bool coded_, averaged_, clipped_;
};

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
  UpdateOperands operands() const { return UpdateOperands(*this); }
  PLIMSOLL_FIELDS(beta2, epsilon, weight_decay, clipped, clip_value, average_blend, rounding, coded)
};

// Lion (Chen et al., 2023, arXiv 2302.06675). The first beta, of the direction, is a scalar.
struct LionAttributes {
  double beta2 = 0.99, weight_decay = 0;
  bool clipped = true;
  double clip_value = 0, average_blend = 0;
  NoiseKey rounding{};
  bool coded = false;
  std::size_t states() const { return 1; }
  UpdateOperands operands() const { return UpdateOperands(*this); }
  PLIMSOLL_FIELDS(beta2, weight_decay, clipped, clip_value, average_blend, rounding, coded)
};

struct SgdAttributes {
  bool momentum = false;  // there is a buffer
  double weight_decay = 0;
  bool nesterov = false, clipped = true;
  double clip_value = 0, average_blend = 0;
  NoiseKey rounding{};
  bool coded = false;
  std::size_t states() const { return momentum ? 1 : 0; }
  UpdateOperands operands() const { return UpdateOperands(*this); }
  PLIMSOLL_FIELDS(momentum, weight_decay, nesterov, clipped, clip_value, average_blend, rounding, coded)
};

// Scalars that change from update to update, fed as f64 [kUpdateScalars]. Updates are counted from 1. Momentum is AdamW's first
// beta, too.
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
