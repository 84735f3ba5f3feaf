#include "ops/elementwise/elementwise.h"

#include <cmath>

#include "ops/cases/cases.h"

namespace plimsoll::test {
namespace {

using ops::NoAttributes;

template <double (*kFunction)(double)>
std::vector<Numbers> unary(const ReferenceCall& call) {
  Numbers out = call.values[0];
  for (double& x : out) x = kFunction(x);
  return {out};
}

template <double (*kFunction)(double, double)>
std::vector<Numbers> binary(const ReferenceCall& call) {
  Numbers out = call.values[0];
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = kFunction(out[i], call.values[1][i]);
  return {out};
}

std::vector<Numbers> scale(const ReferenceCall& call) {
  Numbers out = call.values[0];
  for (double& x : out) x *= call.attributes.as<ops::ScaleAttributes>().factor;
  return {out};
}

double add(double a, double b) { return a + b; }
double multiply(double a, double b) { return a * b; }
double relu(double x) { return x > 0 ? x : 0; }
double relu_backward(double dy, double x) { return x > 0 ? dy : 0; }

double relu6(double x) { return x > 6 ? 6 : relu(x); }
double relu6_backward(double dy, double x) { return x > 0 && x < 6 ? dy : 0; }

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x * sigmoid(x); }
double silu_backward(double dy, double x) { return dy * sigmoid(x) * (1 + x * sigmoid(-x)); }

double normal(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }
double gelu_erf(double x) { return x * normal(x); }
double gelu_erf_backward(double dy, double x) {
  return dy * (normal(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0)));
}

const double kRoot = std::sqrt(2 / std::acos(-1.0));
double inner(double x) { return std::tanh(kRoot * (x + 0.044715 * x * x * x)); }
double gelu(double x) { return x / 2 * (1 + inner(x)); }
double gelu_backward(double dy, double x) {
  const double t = inner(x);
  return dy * ((1 + t) / 2 + x / 2 * (1 - t * t) * kRoot * (1 + 3 * 0.044715 * x * x));
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> list{{1}, {7}, {65, 3}, {2, 7, 65}, {16411}};
  return list;
}
const Shape kLarge{4096, 1536};

std::vector<OpCase> cases_of(Attributes attributes, std::size_t inputs, bool differentiable, Fill fill = {}) {
  std::vector<OpCase> cases;
  const auto add_case = [&](const Shape& shape) {
    cases.push_back({attributes, std::vector<CaseInput>(inputs, {{DType::f32, shape}, fill, differentiable})});
  };
  for (const Shape& shape : shapes()) add_case(shape);
  add_case(kLarge);
  cases.back().benchmark = true;
  return cases;
}

std::vector<OpCase> scale_cases() {
  std::vector<OpCase> cases = cases_of(ops::ScaleAttributes{-2.5}, 1, true);
  cases.push_back({ops::ScaleAttributes{0}, {wanted({65})}});
  return cases;
}

std::vector<Numbers> add_rounded(const ReferenceCall& call) {
  Numbers sum = call.values[2];
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += call.values[0][i];
  return {sum};
}

std::vector<OpCase> rounded_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : shapes()) {
    const CaseInput step{{DType::u32, Shape{2}}, {1, 1000}, false}, into{{DType::bf16, shape}, {}, false};
    OpCase rounded{ops::RoundingAttributes{{0x243F6A88, 0x85A308D3}}, {f32(shape), step, into}};
    rounded.rounds_at_random = true;
    cases.push_back(rounded);
    cases.push_back(in_window(rounded));
  }
  return cases;
}

std::vector<OpCase> accumulate_cases() {
  std::vector<OpCase> cases = cases_of(NoAttributes{}, 2, false);
  for (const Shape& shape : shapes()) cases.push_back(in_window({NoAttributes{}, {f32(shape), f32(shape)}}));
  return cases;
}

// In all widths.
std::vector<OpCase> activation_cases(std::size_t inputs, bool differentiable, const Fill& fill) {
  std::vector<OpCase> cases = cases_of(NoAttributes{}, inputs, differentiable, fill);
  const std::vector<OpCase> wide = cases;
  const std::vector<std::size_t> all = inputs == 1 ? std::vector<std::size_t>{0} : std::vector<std::size_t>{0, 1};
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const OpCase& each : wide) cases.push_back(with_inputs_of(dtype, all, each));
  }
  return cases;
}

// Inputs away from both kinks: magnitudes from 0.01 on, and moved out of a narrow band around 6.
std::vector<OpCase> relu6_cases(std::size_t inputs) {
  std::vector<OpCase> cases = activation_cases(inputs, inputs == 1, {-9, 9, 0.01});
  for (OpCase& each : cases) {
    each.derive = [x = inputs - 1](std::vector<Numbers>& values) {
      for (double& number : values[x]) number = std::abs(number - 6) < 0.01 ? 6.05 : number;
    };
  }
  return cases;
}

}  // namespace

std::vector<OpCases> elementwise_cases() {
  const Fill wide{-6, 6}, kinked{-3, 3, 0.01};
  return {{&ops::kAdd, binary<add>, cases_of(NoAttributes{}, 2, true), {}},
          {&ops::kMultiply, binary<multiply>, cases_of(NoAttributes{}, 2, true), {}},
          {&ops::kScale, scale, scale_cases(), {}},
          {&ops::kGelu, unary<gelu>, activation_cases(1, true, wide), {}},
          {&ops::kGeluBackward, binary<gelu_backward>, activation_cases(2, false, wide), {}},
          {&ops::kRelu, unary<relu>, activation_cases(1, true, kinked), {}},
          {&ops::kReluBackward, binary<relu_backward>, activation_cases(2, false, kinked), {}},
          {&ops::kRelu6, unary<relu6>, relu6_cases(1), {}},
          {&ops::kRelu6Backward, binary<relu6_backward>, relu6_cases(2), {}},
          {&ops::kSilu, unary<silu>, activation_cases(1, true, wide), {}},
          {&ops::kSiluBackward, binary<silu_backward>, activation_cases(2, false, wide), {}},
          {&ops::kGeluErf, unary<gelu_erf>, activation_cases(1, true, wide), {}},
          {&ops::kGeluErfBackward, binary<gelu_erf_backward>, activation_cases(2, false, wide), {}},
          {&ops::kAccumulate, binary<add>, accumulate_cases(), {}},
          {&ops::kAccumulateRounded, add_rounded, rounded_cases(), {}}};
}

}  // namespace plimsoll::test
