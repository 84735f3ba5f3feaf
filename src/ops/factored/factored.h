// Adafactor (Shazeer and Stern, 2018), with PyTorch's semantics. The second moment of a matrix is kept as its means over rows and
// over columns, that of a vector in full. A tensor of more axes counts as one matrix whose rows are the last axis (PyTorch keeps
// separate columns for each leading index). Steps are relative to the size of the parameter and limit the root mean square of an
// update to 1. There is no first moment. Each op is one pass over the gradient in ranges, so that values of another tier can
// stream.
#pragma once

#include <cstdint>

#include "graph/builder.h"

namespace plimsoll::ops {

// Attributes of all three ops. A factored parameter [..., c] of r c elements has the states [r] and [c]; any other has one state
// of its own shape.
struct FactoredAttributes {
  bool factored = true;
  double weight_decay = 0;
  bool clipped = true;    // there is a clip coefficient
  double clip_value = 0;  // limit of the magnitude of a gradient's element; 0: none
  double average_blend = 0;
  NoiseKey rounding{};  // for a bf16 parameter
  std::size_t states() const { return factored ? 2 : 1; }
  PLIMSOLL_FIELDS(factored, weight_decay, clipped, clip_value, average_blend, rounding)
};

// Positions of the operands of the three ops; no other code depends on their order. A changed operand has the same number among
// inputs and outputs. A missing operand is kAbsent.
struct FactoredOperands {
  static constexpr std::size_t kAbsent = ~std::size_t{0};

  std::size_t parameter = kAbsent, average = kAbsent, first_state, states;
  std::size_t gradient, sizes = kAbsent, scalars = kAbsent, coefficient = kAbsent, inputs;
  std::size_t changed = 0;  // number of changed operands, which come first

  static FactoredOperands of_variance(const FactoredAttributes& a) { return {a, Op::variance}; }
  static FactoredOperands of_size(const FactoredAttributes& a) { return {a, Op::size}; }
  static FactoredOperands of_update(const FactoredAttributes& a) { return {a, Op::update}; }

  std::size_t state(std::size_t number) const { return first_state + number; }
  // States of a matrix.
  std::size_t rows() const { return state(0); }
  std::size_t columns() const { return state(1); }
  // Outputs of update_size and of adafactor.
  static std::size_t sizes_made() { return 0; }
  std::size_t change() const { return changed; }

 private:
  enum class Op : std::uint8_t { variance, size, update };

  FactoredOperands(const FactoredAttributes& a, Op op) : states(a.states()) {
    std::size_t next = 0;
    if (op != Op::variance) parameter = next++;
    if (op == Op::update && a.average_blend != 0) average = next++;
    if (op == Op::update) changed = next;
    first_state = next;
    next += states;
    if (op == Op::variance) changed = next;
    gradient = next++;
    if (op == Op::update) sizes = next++;
    if (op != Op::size) scalars = next++;
    if (a.clipped) coefficient = next++;
    inputs = next;
  }
};

// update_variance: (states..., gradient, scalars, [coefficient]) -> states...: each moves by t^-0.8 towards the mean of squares,
// at update t. update_size: (p, states..., gradient, [coefficient]) -> f64[2]: the sums of squares of p and of u = gradient /
// sqrt(variance). adafactor: (p, [average], states..., gradient, those sums, scalars, [coefficient]) -> p, [average], change
// f64[2]: p -= max(1e-3, rms(p)) min(lr, 1 / sqrt(t)) u / max(1, rms(u)), after p *= 1 - lr weight_decay. The change is like
// that of other optimizers (ops/update), but without the decay.
extern const OpDef kUpdateVariance, kUpdateSize, kAdafactor;

}  // namespace plimsoll::ops
