#include "ops/update/update.h"

#include <algorithm>
#include <cmath>

#include "ops/cases/cases.h"

namespace plimsoll::test {
namespace {

std::vector<Numbers> sum_of_squares(const ReferenceCall& call) {
  double sum = 0;
  for (const double x : call.values[0]) sum += x * x;
  return {{sum}};
}

std::vector<Numbers> clip(const ReferenceCall& call) {
  const auto& a = call.attributes.as<ops::ClipAttributes>();
  const auto at = ops::ClipOperands::of(a, call.values.size());
  const double inverse_scale = a.scaled ? call.values[at.scalars()][ops::kInverseScale] : 1;
  double sum = 0;
  for (std::size_t i = 0; i < at.sums; ++i) sum += call.values[i][0];
  const double norm = std::sqrt(sum) * inverse_scale;
  return {{norm}, {inverse_scale * (a.limit == 0 ? 1 : std::min(1.0, a.limit / (norm + 1e-6)))}};
}

// The gradient after scaling and clipping.
double taken(double gradient, double coefficient, double clip_value) {
  const double scaled = gradient * coefficient;
  return clip_value == 0 ? scaled : std::clamp(scaled, -clip_value, clip_value);
}

// Appends the average, the last operand that an update changes, if it keeps one.
template <class A>
void add_average(const A& a, const ReferenceCall& call, std::vector<Numbers>& changed) {
  const ops::UpdateOperands at = a.operands();
  if (!at.averaged()) return;
  Numbers average = call.values[at.average()];
  for (std::size_t i = 0; i < average.size(); ++i) average[i] += a.average_blend * (changed[0][i] - average[i]);
  const bool first = call.values[at.scalars()][ops::kUpdate] == 1;
  changed.push_back(first ? changed[0] : average);
}

// Appends the sums of squares after all operands that an update changes.
void add_change(const ReferenceCall& call, std::vector<Numbers>& changed) {
  Numbers change(2);
  for (std::size_t i = 0; i < changed[0].size(); ++i) {
    const double before = call.values[0][i], step = changed[0][i] - before;
    change[0] += before * before;
    change[1] += step * step;
  }
  changed.push_back(change);
}

std::vector<Numbers> adamw(const ReferenceCall& call) {
  const auto& a = call.attributes.as<ops::AdamWAttributes>();
  const ops::UpdateOperands at = a.operands();
  const Numbers &g = call.values[at.gradient()], &scalars = call.values[at.scalars()];
  Numbers p = call.values[at.parameter()], m = call.values[at.state(0)], v = call.values[at.state(1)];
  const double lr = scalars[ops::kLearningRate], beta1 = scalars[ops::kMomentum];
  const double coefficient = a.clipped ? call.values[at.coefficient()][0] : 1;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double gradient = taken(g[i], coefficient, a.clip_value);
    p[i] -= lr * a.weight_decay * p[i];
    m[i] = beta1 * m[i] + (1 - beta1) * gradient;
    v[i] = a.beta2 * v[i] + (1 - a.beta2) * gradient * gradient;
    const double root = std::sqrt(v[i] / scalars[ops::kBiasCorrection2]);
    p[i] -= lr * (m[i] / scalars[ops::kBiasCorrection1]) / (root + a.epsilon);
  }
  std::vector<Numbers> changed{p, m, v};
  add_average(a, call, changed);
  add_change(call, changed);
  return changed;
}

std::vector<Numbers> lion(const ReferenceCall& call) {
  const auto& a = call.attributes.as<ops::LionAttributes>();
  const ops::UpdateOperands at = a.operands();
  const Numbers &g = call.values[at.gradient()], &scalars = call.values[at.scalars()];
  Numbers p = call.values[at.parameter()], m = call.values[at.state(0)];
  const double lr = scalars[ops::kLearningRate], beta1 = scalars[ops::kMomentum],
               coefficient = a.clipped ? call.values[at.coefficient()][0] : 1;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double gradient = taken(g[i], coefficient, a.clip_value), direction = beta1 * m[i] + (1 - beta1) * gradient;
    p[i] = (1 - lr * a.weight_decay) * p[i] - lr * (direction > 0 ? 1 : direction < 0 ? -1 : 0);
    m[i] = a.beta2 * m[i] + (1 - a.beta2) * gradient;
  }
  std::vector<Numbers> changed{p, m};
  add_average(a, call, changed);
  add_change(call, changed);
  return changed;
}

std::vector<Numbers> sgd(const ReferenceCall& call) {
  const auto& a = call.attributes.as<ops::SgdAttributes>();
  const ops::UpdateOperands at = a.operands();
  const Numbers &g = call.values[at.gradient()], &scalars = call.values[at.scalars()];
  Numbers p = call.values[at.parameter()], buffer = a.momentum ? call.values[at.state(0)] : Numbers(p.size());
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double d = taken(g[i], a.clipped ? call.values[at.coefficient()][0] : 1, a.clip_value) + a.weight_decay * p[i];
    const double momentum = scalars[ops::kMomentum];
    buffer[i] = scalars[ops::kUpdate] == 1 ? d : momentum * buffer[i] + d;
    const double step = !a.momentum ? d : a.nesterov ? d + momentum * buffer[i] : buffer[i];
    p[i] -= scalars[ops::kLearningRate] * step;
  }
  std::vector<Numbers> changed{p};
  if (a.momentum) changed.push_back(buffer);
  add_average(a, call, changed);
  add_change(call, changed);
  return changed;
}

// The same update with an average of the parameter after its states.
template <class A>
OpCase averaged(OpCase a_case) {
  A attributes = a_case.attributes.as<A>();
  const auto at = static_cast<std::ptrdiff_t>(attributes.operands().average());
  attributes.average_blend = 0.25;
  a_case.attributes = attributes;
  a_case.inputs.insert(a_case.inputs.begin() + at, a_case.inputs[0]);
  a_case.derive = [derive = std::move(a_case.derive), at](std::vector<Numbers>& values) {
    Numbers average = std::move(values[static_cast<std::size_t>(at)]);
    values.erase(values.begin() + at);
    derive(values);
    values.insert(values.begin() + at, std::move(average));
  };
  return a_case;
}

// The same update with states of bf16.
template <class A>
OpCase narrow(OpCase a_case, std::size_t states) {
  A attributes = a_case.attributes.as<A>();
  attributes.rounding = {0x243F6A88, 0x85A308D3};
  a_case.attributes = attributes;
  for (std::size_t i = 1; i <= states; ++i) a_case.inputs[i].type.dtype = DType::bf16;
  a_case.rounds_at_random = true;
  return a_case;
}

// The same update of a parameter of bf16, whose gradient is bf16 as well.
template <class A>
OpCase narrow_parameter(OpCase a_case) {
  A attributes = a_case.attributes.as<A>();
  attributes.rounding = {0x243F6A88, 0x85A308D3};
  a_case.attributes = attributes;
  a_case.rounds_at_random = true;
  return with_inputs_of(DType::bf16, {attributes.operands().parameter(), attributes.operands().gradient()}, std::move(a_case));
}

// Learning rate, bias corrections, the number of the update, momentum.
OpCase with_scalars(OpCase a_case, std::size_t at, Numbers scalars) {
  a_case.derive = [at, scalars = std::move(scalars)](std::vector<Numbers>& values) { values[at] = scalars; };
  return a_case;
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> list{{1}, {7}, {65, 33}, {2, 3, 8209}};
  return list;
}
const Shape kLarge{8192, 768};

constexpr double kClipValue = 0.3;  // of gradients up to 1

OpCase adamw_case(const Shape& shape, double decay, bool clipped = true, double clip_value = 0) {
  OpCase result{ops::AdamWAttributes{0.95, 1e-8, decay, clipped, clip_value},
                {f32(shape), f32(shape), f32(shape, {0.01, 1}), f32(shape), f64({ops::kUpdateScalars})}};
  if (clipped) result.inputs.push_back(f32({1}, {0.1, 1}));
  return with_scalars(result, 4, {1e-2, 0.271, 0.142625, 3, 0.9, 1});
}

std::vector<OpCase> adamw_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : shapes()) {
    for (const double decay : {0.0, 0.1}) cases.push_back(adamw_case(shape, decay));
    cases.push_back(adamw_case(shape, 0.1, /*clipped=*/false));
    cases.push_back(adamw_case(shape, 0.1, /*clipped=*/false, kClipValue));
    cases.push_back(averaged<ops::AdamWAttributes>(adamw_case(shape, 0.1)));
    cases.push_back(narrow<ops::AdamWAttributes>(adamw_case(shape, 0.1), 2));
    cases.push_back(averaged<ops::AdamWAttributes>(narrow<ops::AdamWAttributes>(adamw_case(shape, 0.1, /*clipped=*/false), 2)));
    cases.push_back(narrow_parameter<ops::AdamWAttributes>(adamw_case(shape, 0.1)));
    cases.push_back(narrow_parameter<ops::AdamWAttributes>(narrow<ops::AdamWAttributes>(adamw_case(shape, 0.1), 2)));
  }
  cases.push_back(timed(adamw_case(kLarge, 0.1)));
  cases.push_back(timed(narrow<ops::AdamWAttributes>(adamw_case(kLarge, 0.1), 2)));
  return cases;
}

// If the direction is close to 0, a rounding decides about a whole step. So the numbers come from a grid on which the direction
// 0.9 m + 0.1 g is 0 or far from it.
OpCase lion_case(const Shape& shape, double decay, bool clipped, double clip_value = 0) {
  OpCase result{ops::LionAttributes{0.99, decay, clipped, clip_value},
                {f32(shape), f32(shape), f32(shape), f64({ops::kUpdateScalars})}};
  if (clipped) result.inputs.push_back(f32({1}, {0.1, 1}));
  result.derive = [clipped](std::vector<Numbers>& values) {
    for (double& m : values[1]) m = std::round(4 * m) / 4;
    for (double& g : values[2]) g = std::round(4 * g) / 4;
    values[3] = {1e-2, 1, 1, 3, 0.9, 1};
    if (clipped) values[4] = {0.5};
  };
  return result;
}

std::vector<OpCase> lion_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : shapes()) {
    for (const bool clipped : {false, true}) cases.push_back(lion_case(shape, 0.1, clipped));
    cases.push_back(lion_case(shape, 0, false, 0.25));
    cases.push_back(averaged<ops::LionAttributes>(lion_case(shape, 0.1, true)));
    cases.push_back(narrow<ops::LionAttributes>(lion_case(shape, 0.1, true), 1));
    cases.push_back(narrow_parameter<ops::LionAttributes>(lion_case(shape, 0.1, true)));
    cases.push_back(narrow_parameter<ops::LionAttributes>(narrow<ops::LionAttributes>(lion_case(shape, 0.1, true), 1)));
  }
  cases.push_back(timed(lion_case(kLarge, 0.1, true)));
  return cases;
}

OpCase sgd_case(const Shape& shape, ops::SgdAttributes attributes, bool first) {
  OpCase result{attributes, {f32(shape)}};
  if (attributes.momentum) result.inputs.push_back(f32(shape));
  result.inputs.insert(result.inputs.end(), {f32(shape), f64({ops::kUpdateScalars})});
  if (attributes.clipped) result.inputs.push_back(f32({1}, {0.1, 1}));
  return with_scalars(result, attributes.momentum ? 3 : 2, {1e-2, 1, 1, first ? 1.0 : 3.0, 0.9, 1});
}

std::vector<OpCase> sgd_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : shapes()) {
    cases.push_back(sgd_case(shape, {false, 0, false, true}, false));
    cases.push_back(sgd_case(shape, {false, 0.1, false, false}, true));
    for (const bool nesterov : {false, true}) {
      for (const bool first : {false, true}) cases.push_back(sgd_case(shape, {true, 0.1, nesterov, first}, first));
    }
    cases.push_back(sgd_case(shape, {true, 0.1, true, true, kClipValue}, false));
    for (const bool first : {false, true}) cases.push_back(averaged<ops::SgdAttributes>(sgd_case(shape, {true, 0.1}, first)));
    cases.push_back(averaged<ops::SgdAttributes>(sgd_case(shape, {false, 0.1}, false)));
    for (const bool first : {false, true}) cases.push_back(narrow<ops::SgdAttributes>(sgd_case(shape, {true, 0.1}, first), 1));
    cases.push_back(narrow_parameter<ops::SgdAttributes>(sgd_case(shape, {false, 0.1}, false)));
    cases.push_back(narrow_parameter<ops::SgdAttributes>(narrow<ops::SgdAttributes>(sgd_case(shape, {true, 0.1}, false), 1)));
  }
  cases.push_back(timed(sgd_case(kLarge, {true, 0.1, false, true}, false)));
  return cases;
}

std::vector<OpCase> sums() {
  std::vector<OpCase> cases;
  for (const Shape& shape : shapes()) cases.push_back({ops::NoAttributes{}, {f32(shape)}});
  cases.push_back({ops::NoAttributes{}, {f32({200003})}});
  cases.push_back(with_inputs_of(DType::bf16, {0}, cases.back()));
  cases.push_back(timed({ops::NoAttributes{}, {f32(kLarge)}}));
  return cases;
}

std::vector<OpCase> clips() {
  std::vector<OpCase> cases;
  for (const std::size_t count : {1, 7, 65, 900}) {
    for (const double limit : {0.0, 1.0, 1000.0}) {
      cases.push_back({ops::ClipAttributes{limit}, std::vector<CaseInput>(count, f64({1}, {0, 4}))});
      OpCase scaled{ops::ClipAttributes{limit, true}, cases.back().inputs};
      scaled.inputs.push_back(f64({ops::kUpdateScalars}, {0.1, 1}));
      cases.push_back(std::move(scaled));
    }
  }
  return cases;
}

std::vector<Numbers> report(const ReferenceCall& call) {
  Numbers all;
  for (const Numbers& each : call.values) all.insert(all.end(), each.begin(), each.end());
  return {all};
}

std::vector<OpCase> reports() {
  return {{ops::NoAttributes{}, {f64({1})}},
          {ops::NoAttributes{}, {f64({2}), f64({1})}},
          {ops::NoAttributes{}, {f64({1}), f64({2}), f64({1}), f64({65})}},
          {ops::NoAttributes{}, std::vector<CaseInput>(500, f64({2}))}};
}

// Sums of fp32 numbers are reported in fp64.
std::vector<OpCase> of_single(std::vector<OpCase> cases) {
  for (OpCase& each : cases) {
    each.rounds_within = DType::f32;
    each.sums_squares = true;
  }
  return cases;
}

}  // namespace

std::vector<OpCases> update_cases() {
  return {{&ops::kSumOfSquares, sum_of_squares, sums(), {}},   {&ops::kClip, clip, clips(), {}},
          {&ops::kAdamW, adamw, of_single(adamw_cases()), {}}, {&ops::kLion, lion, of_single(lion_cases()), {}},
          {&ops::kSgd, sgd, of_single(sgd_cases()), {}},       {&ops::kReport, report, reports(), {}}};
}

}  // namespace plimsoll::test
