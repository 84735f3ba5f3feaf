#include "ops/factored/factored.h"

#include <algorithm>
#include <cmath>

#include "ops/cases/cases.h"
#include "ops/update/update.h"

namespace plimsoll::test {
namespace {

using ops::FactoredAttributes;

constexpr double kLeast = 0x1p-23;

using At = ops::FactoredOperands;

// The arithmetic that the three ops share.
struct Factored {
  const FactoredAttributes& a;
  const Numbers& g;
  std::size_t rows = 1, columns;
  double coefficient;
  const Numbers *of_rows, *of_columns;

  Factored(const ReferenceCall& call, const At& at)
      : a(call.attributes.as<FactoredAttributes>()),
        g(call.values[at.gradient]),
        columns(g.size()),
        coefficient(a.clipped ? call.values[at.coefficient][0] : 1),
        of_rows(&call.values[at.state(0)]),
        of_columns(&call.values[at.state(at.states - 1)]) {
    if (!a.factored) return;
    rows = of_rows->size();
    columns = of_columns->size();
  }
  double taken(std::size_t i) const {
    const double scaled = g[i] * coefficient;
    return a.clip_value == 0 ? scaled : std::clamp(scaled, -a.clip_value, a.clip_value);
  }
  double step(std::size_t i) const {
    if (!a.factored) return taken(i) / std::sqrt(std::max((*of_columns)[i], kLeast * kLeast));
    double mean = 0;
    for (const double row : *of_rows) mean += row / static_cast<double>(rows);
    const double variance = (*of_rows)[i / columns] * (*of_columns)[i % columns] / std::max(mean, kLeast);
    return taken(i) / std::sqrt(std::max(variance, kLeast * kLeast));
  }
};

std::vector<Numbers> variance(const ReferenceCall& call) {
  const At at = At::of_variance(call.attributes.as<FactoredAttributes>());
  const Factored f(call, at);
  const double blend = std::pow(call.values[at.scalars][ops::kUpdate], -0.8);
  Numbers rows(f.rows), columns(f.columns);
  for (std::size_t i = 0; i < f.g.size(); ++i) {
    const double square = f.taken(i) * f.taken(i);
    rows[i / f.columns] += square / static_cast<double>(f.columns);
    columns[i % f.columns] += square / static_cast<double>(f.rows);
  }
  const auto moved = [&](const Numbers& before, Numbers means) {
    for (std::size_t i = 0; i < means.size(); ++i) means[i] = before[i] + blend * (means[i] - before[i]);
    return means;
  };
  if (!f.a.factored) return {moved(*f.of_columns, columns)};
  return {moved(*f.of_rows, rows), moved(*f.of_columns, columns)};
}

std::vector<Numbers> size(const ReferenceCall& call) {
  const At at = At::of_size(call.attributes.as<FactoredAttributes>());
  const Factored f(call, at);
  Numbers sums(2);
  for (std::size_t i = 0; i < f.g.size(); ++i) {
    sums[0] += call.values[at.parameter][i] * call.values[at.parameter][i];
    sums[1] += f.step(i) * f.step(i);
  }
  return {sums};
}

std::vector<Numbers> adafactor(const ReferenceCall& call) {
  const auto& a = call.attributes.as<FactoredAttributes>();
  const At at = At::of_update(a);
  const Factored f(call, at);
  const Numbers &scalars = call.values[at.scalars], &sizes = call.values[at.sizes];
  const double n = static_cast<double>(f.g.size()), lr = scalars[ops::kLearningRate], update = scalars[ops::kUpdate];
  const double size = std::max(1e-3, std::sqrt(sizes[0] / n)) * std::min(lr, 1 / std::sqrt(update));
  const double held = std::max(1.0, std::sqrt(sizes[1] / n));
  std::vector<Numbers> changed(call.values.begin(), call.values.begin() + static_cast<std::ptrdiff_t>(at.changed));
  for (std::size_t i = 0; i < f.g.size(); ++i) {
    double& p = changed[at.parameter][i];
    p = p * (1 - lr * a.weight_decay) - size / held * f.step(i);
    if (at.average != At::kAbsent) changed[at.average][i] += a.average_blend * (p - changed[at.average][i]);
  }
  const double step = size / held;
  changed.push_back({sizes[0], step * step * sizes[1]});
  return changed;
}

struct Parts {
  std::vector<OpCase> variances, sizes, updates;
};

void add(Parts& parts, const Shape& shape, const FactoredAttributes& a) {
  const Fill positive{0.01, 1};
  std::vector<CaseInput> states{f32(shape, positive)}, coefficient;
  if (a.factored) states = {f32({shape.elements() / shape.last()}, positive), f32({shape.last()}, positive)};
  if (a.clipped) coefficient = {f32({1}, {0.1, 1})};
  const auto make = [&](std::vector<CaseInput> before, std::vector<CaseInput> behind, std::size_t scalars) {
    OpCase made{a, std::move(before)};
    made.inputs.insert(made.inputs.end(), states.begin(), states.end());
    made.inputs.push_back(f32(shape));
    made.inputs.insert(made.inputs.end(), behind.begin(), behind.end());
    made.inputs.insert(made.inputs.end(), coefficient.begin(), coefficient.end());
    if (scalars > 0) made.derive = [scalars](std::vector<Numbers>& values) { values[scalars] = {1e-2, 1, 1, 3, 0.9, 1}; };
    return made;
  };
  const CaseInput scalars = f64({ops::kUpdateScalars}), sums = f64({2}, {0.1, 4 * static_cast<double>(shape.elements())});
  const At variance = At::of_variance(a), size = At::of_size(a), update = At::of_update(a);
  parts.variances.push_back(make({}, {scalars}, variance.scalars));
  parts.sizes.push_back(make({f32(shape)}, {}, 0));
  parts.sizes.back().rounds_within = DType::f32;
  parts.updates.push_back(make(std::vector<CaseInput>(update.changed, f32(shape)), {sums, scalars}, update.scalars));
  for (std::vector<OpCase>* cases : {&parts.sizes, &parts.updates}) {
    OpCase narrow = with_inputs_of(DType::bf16, {0}, cases->back());
    FactoredAttributes rounded = a;
    rounded.rounding = {0x243F6A88, 0x85A308D3};
    narrow.attributes = rounded;
    narrow.rounds_at_random = true;
    cases->push_back(std::move(narrow));
  }
  // The same with gradients of bf16.
  for (const auto& [cases, gradient] : {std::pair{&parts.variances, variance.gradient}, std::pair{&parts.sizes, size.gradient},
                                        std::pair{&parts.updates, update.gradient}}) {
    cases->push_back(with_inputs_of(DType::bf16, {gradient}, cases->back()));
  }
}

Parts parts() {
  Parts all;
  for (const Shape& shape :
       {Shape{1, 1}, Shape{65, 33}, Shape{3, 40001}, Shape{130, 1024}, Shape{65, 1540}, Shape{3, 5, 33}, Shape{2, 1, 70, 1024}}) {
    add(all, shape, {});
    add(all, shape, {.weight_decay = 0.1, .clipped = false, .clip_value = 0.3, .average_blend = 0.25});
  }
  for (const Shape& shape : {Shape{7}, Shape{40001}}) {
    add(all, shape, {.factored = false});
    add(all, shape, {.factored = false, .weight_decay = 0.1, .clipped = false, .average_blend = 0.25});
  }
  Parts large;
  add(large, {8192, 768}, {});
  for (auto [to, from] :
       {std::pair{&all.variances, &large.variances}, {&all.sizes, &large.sizes}, {&all.updates, &large.updates}}) {
    to->push_back(timed(from->front()));
  }
  return all;
}

}  // namespace

std::vector<OpCases> factored_cases() {
  const Parts all = parts();
  return {{&ops::kUpdateVariance, variance, all.variances, {}},
          {&ops::kUpdateSize, size, all.sizes, {}},
          {&ops::kAdafactor, adafactor, all.updates, {}}};
}

}  // namespace plimsoll::test
