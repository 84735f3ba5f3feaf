#include "ops/gated/gated.h"

#include <cmath>

#include "ops/cases/cases.h"

namespace plimsoll::test {
namespace {

using ops::Activation;

struct Curve {
  double value, derivative;
};

// x Phi(x) has the derivative Phi(x) + x Phi'(x), for each Phi.
Curve curve(Activation activation, double x) {
  const double pi = std::acos(-1.0);
  double phi = 0, slope = 0;
  switch (activation) {
    case Activation::silu:
      phi = 1 / (1 + std::exp(-x));
      slope = phi * (1 - phi);
      break;
    case Activation::gelu_tanh: {
      const double t = std::tanh(std::sqrt(2 / pi) * (x + 0.044715 * x * x * x));
      phi = (1 + t) / 2;
      slope = (1 - t * t) / 2 * std::sqrt(2 / pi) * (1 + 3 * 0.044715 * x * x);
      break;
    }
    case Activation::gelu_erf:
      phi = std::erfc(-x / std::sqrt(2.0)) / 2;
      slope = std::exp(-x * x / 2) / std::sqrt(2 * pi);
      break;
  }
  return {x * phi, phi + x * slope};
}

std::vector<Numbers> gated(const ReferenceCall& call) {
  const Activation activation = call.attributes.as<ops::GatedAttributes>().activation;
  Numbers out = call.values[1];
  for (std::size_t i = 0; i < out.size(); ++i) out[i] *= curve(activation, call.values[0][i]).value;
  return {out};
}

std::vector<Numbers> gated_backward(const ReferenceCall& call) {
  const auto& made = call.attributes.as<ops::GatedBackwardAttributes>();
  Numbers d_gate = call.values[0], d_up = call.values[0];
  for (std::size_t i = 0; i < d_up.size(); ++i) {
    const Curve at = curve(made.activation, call.values[1][i]);
    d_gate[i] *= call.values[2][i] * at.derivative;
    d_up[i] *= at.value;
  }
  std::vector<Numbers> outputs;
  if (made.gate) outputs.push_back(d_gate);
  if (made.up) outputs.push_back(d_up);
  return outputs;
}

}  // namespace

std::vector<OpCases> gated_cases() {
  std::vector<OpCase> forwards, backwards;
  const Fill wide{-6, 6};
  const Shape large{2048, 1536};
  const auto add = [](std::vector<OpCase>& cases, const OpCase& each, const std::vector<std::size_t>& all) {
    cases.push_back(each);
    for (const DType dtype : {DType::bf16, DType::f16}) cases.push_back(with_inputs_of(dtype, all, each));
  };
  for (const Activation activation : {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf}) {
    const auto forward = [&](const Shape& shape) {
      return OpCase{ops::GatedAttributes{activation}, {wanted(shape, wide), wanted(shape)}};
    };
    const auto backward = [&](const Shape& shape, bool gate, bool up) {
      return OpCase{ops::GatedBackwardAttributes{activation, gate, up}, {f32(shape), f32(shape, wide), f32(shape)}};
    };
    for (const Shape& shape : {Shape{1}, Shape{7}, Shape{65, 3}, Shape{2, 7, 65}, Shape{12}, Shape{3, 40}, Shape{16411}}) {
      add(forwards, forward(shape), {0, 1});
      add(backwards, backward(shape, true, true), {0, 1, 2});
    }
    // Inputs for which a sigmoid or an exponential vanishes.
    for (const Fill fill : {Fill{-30, -5}, Fill{-120, 120}}) {
      OpCase far = with_inputs_of(DType::f32, {}, forward({300}));
      OpCase far_back = backward({300}, true, true);
      far.inputs[0].fill = far_back.inputs[1].fill = fill;
      forwards.push_back(far);
      backwards.push_back(far_back);
    }
    add(backwards, backward({3, 65}, true, false), {0, 1, 2});
    add(backwards, backward({3, 65}, false, true), {0, 1, 2});
    add(forwards, timed(forward(large)), {0, 1});
    add(backwards, timed(backward(large, true, true)), {0, 1, 2});
  }
  return {{&ops::kGated, gated, forwards, {}}, {&ops::kGatedBackward, gated_backward, backwards, {}}};
}

}  // namespace plimsoll::test
