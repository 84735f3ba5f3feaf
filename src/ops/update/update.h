// The update of a window: sums of squares of the gradients, the global norm and its clip coefficient, and the optimizers. Sums
// and optimizers work on ranges of a parameter, so that parameters of another tier can be updated in pieces.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/builder.h"
#include "ops/attributes.h"

namespace plimsoll::ops {

struct ClipAttributes {
  double limit = 0;     // largest global norm; 0: no clip, the norm is still computed
  bool scaled = false;  // gradients are those of the scaled loss; the scalars follow the sums as an input
  PLIMSOLL_FIELDS(limit, scaled)
};

// Positions of the operands of a clip. Inputs: sums and, if scaled, scalars. Outputs: norm and coefficient.
struct ClipOperands {
  std::size_t sums, inputs;

  static constexpr ClipOperands of(const ClipAttributes& a, std::size_t inputs) { return {inputs - (a.scaled ? 1 : 0), inputs}; }
  constexpr std::size_t scalars() const { return sums; }
  static constexpr std::size_t norm = 0, coefficient = 1, outputs = 2;
};

// The attributes of an update determine its inputs. `first` is the element of the tensor with which the operands begin, a
// multiple of kNormTile; present only where a part of it draws noise. An update changes the first ones: the parameter, its states
// and, if average_blend is not 0, an average of the parameter. The average begins as the parameter; each update moves it by
// average_blend towards the parameter. States are fp32, bf16 or `coded`: 8 bits, each state with its scales, one fp32 for
// kCodedBlock elements. Numbers other than fp32 are rounded at random to one of their two neighbours (by `rounding` and the
// number of the update), so that nothing is lost on average. Without a key (zeros), an explicit setting, they are rounded to the
// nearest. All arithmetic is fp32.

inline constexpr std::int64_t kCodedBlock = 256;

// Positions of the operands of an update; no other code depends on their order. A changed operand has the same number among
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
  double clip_value = 0;  // limit of the magnitude of a gradient's element; 0: none
  double average_blend = 0;
  NoiseKey rounding{};
  bool coded = false;
  std::optional<std::int64_t> first = {};
  std::size_t states() const { return 2; }
  UpdateOperands operands() const { return UpdateOperands(*this); }
  PLIMSOLL_FIELDS(beta2, epsilon, weight_decay, clipped, clip_value, average_blend, rounding, coded, first)
};

// Lion (Chen et al., 2023, arXiv 2302.06675). The first beta, of the direction, is a scalar.
struct LionAttributes {
  double beta2 = 0.99, weight_decay = 0;
  bool clipped = true;
  double clip_value = 0, average_blend = 0;
  NoiseKey rounding{};
  bool coded = false;
  std::optional<std::int64_t> first = {};
  std::size_t states() const { return 1; }
  UpdateOperands operands() const { return UpdateOperands(*this); }
  PLIMSOLL_FIELDS(beta2, weight_decay, clipped, clip_value, average_blend, rounding, coded, first)
};

struct SgdAttributes {
  bool momentum = false;  // there is a buffer
  double weight_decay = 0;
  bool nesterov = false, clipped = true;
  double clip_value = 0, average_blend = 0;
  NoiseKey rounding{};
  bool coded = false;
  std::optional<std::int64_t> first = {};
  std::size_t states() const { return momentum ? 1 : 0; }
  UpdateOperands operands() const { return UpdateOperands(*this); }
  PLIMSOLL_FIELDS(momentum, weight_decay, nesterov, clipped, clip_value, average_blend, rounding, coded, first)
};

// Scalars that change from update to update, fed as f64 [kUpdateScalars]. Updates count from 1. kMomentum is also the first beta
// of AdamW and Lion.
enum UpdateScalar : std::size_t {
  kLearningRate,
  kBiasCorrection1,
  kBiasCorrection2,
  kUpdate,
  kMomentum,
  kInverseScale,  // 1 / loss scale
  kUpdateScalars
};

// sum_of_squares: (gradient) -> f64[1].
// clip: (sums..., [scalars]) -> norm f64[1], coefficient f32[1]. The norm is that of the unscaled loss. The coefficient is the
// factor that
//   removes the loss scale from gradients and limits their norm.
// An update: (p, states..., [average], gradient, scalars, [coefficient]) -> p, states..., [average], change f64[2]: the sums of
// squares of
//   p before the update and of its change. States are m and v of adamw, m of lion, and the buffer of sgd with momentum. Without
//   clipping by the norm and without a scale there is no coefficient, and no update waits for it. If the coefficient is not
//   finite, an update changes nothing.
// report: (f64[..]...) -> f64[all], the concatenation.
extern const OpDef kSumOfSquares, kClip, kReport, kAdamW, kLion, kSgd;

}  // namespace plimsoll::ops
