#include <algorithm>

#include "ops/attributes.h"
#include "ops/check.h"
#include "ops/factored/cuda.h"
#include "ops/factored/factored.h"
#include "ops/families.h"
#include "ops/update/update.h"

namespace plimsoll::ops {
namespace {

const ValueType kSizes{DType::f64, Shape{2}}, kChange{DType::f64, Shape{2}};
const ValueType kCoefficient{DType::f32, Shape{1}};
const ValueType kScalars{DType::f64, Shape{kUpdateScalars}};

const FactoredAttributes& of(const Attributes& any) { return any.as<FactoredAttributes>(); }

// The states from `first` on, and the gradient behind them.
void check_states(const FactoredAttributes& a, TypeSpan inputs, std::size_t first, const char* where) {
  const ValueType& gradient = inputs[first + a.states()];
  require(gradient.dtype == DType::f32 || gradient.dtype == DType::bf16, where, "the gradient is " + to_text(gradient),
          "fp32 or bf16");
  if (!a.factored) return require_type(inputs[first], {DType::f32, gradient.shape}, where, "the variance");
  require(gradient.shape.rank() >= 2, where, "the gradient is " + to_text(gradient), "two or more axes");
  require_type(inputs[first], {DType::f32, Shape{rows_of(gradient.shape)}}, where, "the variance of the rows");
  require_type(inputs[first + 1], {DType::f32, Shape{gradient.shape.last()}}, where, "the variance of the columns");
}

void check_behind(const FactoredAttributes& a, TypeSpan inputs, std::size_t next, bool scalars, const char* where) {
  if (scalars) require_type(inputs[next++], kScalars, where, "the scalars");
  if (a.clipped) require_type(inputs[next], kCoefficient, where, "the clip coefficient");
}

void check_parameter(const ValueType& parameter, const Shape& shape, const char* where) {
  const DType dtype = parameter.dtype == DType::bf16 ? DType::bf16 : DType::f32;
  require_type(parameter, {dtype, shape}, where, "the parameter");
}

std::vector<ValueType> infer_variance(const Attributes& any, TypeSpan inputs) {
  const FactoredAttributes& a = of(any);
  require_inputs(inputs, a.states() + (a.clipped ? 3 : 2), "update_variance");
  check_states(a, inputs, 0, "update_variance");
  check_behind(a, inputs, a.states() + 1, true, "update_variance");
  return {inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(a.states())};
}

std::vector<ValueType> infer_size(const Attributes& any, TypeSpan inputs) {
  const FactoredAttributes& a = of(any);
  require_inputs(inputs, a.states() + (a.clipped ? 3 : 2), "update_size");
  check_states(a, inputs, 1, "update_size");
  check_parameter(inputs[0], inputs[a.states() + 1].shape, "update_size");
  check_behind(a, inputs, a.states() + 2, false, "update_size");
  return {kSizes};
}

std::vector<ValueType> infer_update(const Attributes& any, TypeSpan inputs) {
  const FactoredAttributes& a = of(any);
  const std::size_t changes = a.changes(), behind = changes + a.states() + 1;
  require_inputs(inputs, behind + (a.clipped ? 3 : 2), "adafactor");
  check_states(a, inputs, changes, "adafactor");
  const ValueType updated{DType::f32, inputs[behind - 1].shape};
  check_parameter(inputs[0], updated.shape, "adafactor");
  if (changes > 1) require_type(inputs[1], updated, "adafactor", "the average");
  require_type(inputs[behind], kSizes, "adafactor", "the sums of squares");
  check_behind(a, inputs, behind + 1, true, "adafactor");
  std::vector<ValueType> outputs(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(changes));
  outputs.push_back(kChange);
  return outputs;
}

std::vector<Alias> updates_first(std::size_t count) {
  std::vector<Alias> aliases;
  for (std::size_t i = 0; i < count; ++i) aliases.push_back({i, i, AliasKind::updates});
  return aliases;
}
std::vector<Alias> aliases_of_variance(const Attributes& any) { return updates_first(of(any).states()); }
std::vector<Alias> aliases_of_update(const Attributes& any) { return updates_first(of(any).changes()); }

// What has an element for each of the parameter's. Sums run in tiles of kNormTile.
RangeRule ranges_from(const FactoredAttributes& a, std::size_t before) {
  RangeRule rule{.step = kNormTile};
  for (std::size_t i = 0; i < before; ++i) rule.inputs.push_back(i);
  if (!a.factored) rule.inputs.push_back(before);
  rule.inputs.push_back(before + a.states());
  return rule;
}
RangeRule ranges_of_variance(const Attributes& any, TypeSpan) { return ranges_from(of(any), 0); }
RangeRule ranges_of_size(const Attributes& any, TypeSpan) { return ranges_from(of(any), 1); }
RangeRule ranges_of_update(const Attributes& any, TypeSpan) { return ranges_from(of(any), of(any).changes()); }

template <int kFlops>
Cost cost(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  double elements = 0;
  for (const ValueType& input : inputs) elements = std::max(elements, static_cast<double>(input.shape.elements()));
  return {kFlops * elements, bytes_touched(inputs, outputs)};
}

}  // namespace

const OpDef kUpdateVariance{.name = "update_variance",
                            .infer = infer_variance,
                            .cost = cost<4>,
                            .not_differentiable = kUpdateOnly,
                            .aliases = aliases_of_variance,
                            .ranges = ranges_of_variance};
const OpDef kUpdateSize{
    .name = "update_size", .infer = infer_size, .cost = cost<5>, .not_differentiable = kUpdateOnly, .ranges = ranges_of_size};
const OpDef kAdafactor{.name = "adafactor",
                       .infer = infer_update,
                       .cost = cost<7>,
                       .not_differentiable = kUpdateOnly,
                       .aliases = aliases_of_update,
                       .ranges = ranges_of_update};

OpList factored_ops() {
  return {{&kUpdateVariance, {cuda_update_variance_scratch}},
          {&kUpdateSize, {cuda_update_size_scratch}},
          {&kAdafactor, {cuda_adafactor_scratch}}};
}

}  // namespace plimsoll::ops
