#include "base/ceil_div.h"
#include "ops/check.h"
#include "ops/families.h"
#include "ops/update/cuda.h"
#include "ops/update/update.h"

namespace plimsoll::ops {
namespace {

const ValueType kSum{DType::f64, Shape{1}};
const ValueType kCoefficient{DType::f32, Shape{1}};
const ValueType kChange{DType::f64, Shape{2}};
const ValueType kScalars{DType::f64, Shape{kUpdateScalars}};

std::vector<ValueType> infer_sum(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 1, "sum_of_squares");
  const DType dtype = inputs[0].dtype;
  require(dtype == DType::f32 || dtype == DType::bf16, "sum_of_squares", "the input is " + to_text(inputs[0]), "fp32 or bf16");
  return {kSum};
}

Cost cost_of_sum(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  return {2.0 * static_cast<double>(inputs[0].shape.elements()), bytes_touched(inputs, outputs)};
}

std::vector<ValueType> infer_clip(const Attributes& any, TypeSpan inputs) {
  if (any.as<ClipAttributes>().scaled) {
    require(!inputs.empty(), "clip", "got no inputs", "the scalars");
    require_type(inputs.back(), kScalars, "clip", "the scalars");
    inputs = inputs.first(inputs.size() - 1);
  }
  for (const ValueType& input : inputs) require_type(input, kSum, "clip", "a sum of squares");
  return {kSum, kCoefficient};
}

Cost cost_of_few(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  return {static_cast<double>(inputs.size()), bytes_touched(inputs, outputs)};
}

// States are all fp32, all bf16 or all coded. Behind what is changed come the gradient, which is fp32 or bf16 as the
// parameter is, the scalars and, with clipping, the clip
// coefficient.
template <class A>
std::vector<ValueType> infer_update(const Attributes& any, TypeSpan inputs) {
  constexpr const char* kWhere = "an update";
  const A& attributes = any.as<A>();
  const std::size_t changes = attributes.changes();
  require_inputs(inputs, changes + (attributes.clipped ? 3 : 2), kWhere);
  const Shape& shape = inputs[0].shape;
  const std::size_t states = attributes.states() * (attributes.coded ? 2 : 1);
  const bool narrow = states > 0 && inputs[1].dtype == DType::bf16;
  const ValueType state{attributes.coded ? DType::u8 : narrow ? DType::bf16 : DType::f32, shape};
  const ValueType scales{DType::f32, Shape{ceil_div(shape.elements(), kCodedBlock)}};
  for (std::size_t i = 0; i <= changes; ++i) {
    if ((i == 0 || i == changes) && inputs[i].dtype == DType::bf16) {
      require_type(inputs[i], {DType::bf16, shape}, kWhere, "the parameter, or its gradient,");
      continue;
    }
    const bool of_state = i >= 1 && i <= states, scale = of_state && attributes.coded && i % 2 == 0;
    require_type(inputs[i],
                 scale      ? scales
                 : of_state ? state
                            : ValueType{DType::f32, shape},
                 kWhere, "what has an element for each of the parameter's");
  }
  require_type(inputs[changes + 1], kScalars, kWhere, "the scalars");
  if (attributes.clipped) require_type(inputs[changes + 2], kCoefficient, kWhere, "the clip coefficient");
  std::vector<ValueType> outputs(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(changes));
  outputs.push_back(kChange);
  return outputs;
}

std::vector<ValueType> infer_report(const Attributes&, TypeSpan inputs) {
  std::int64_t elements = 0;
  for (const ValueType& input : inputs) {
    require(input.dtype == DType::f64, "report", "an input is " + to_text(input), "fp64");
    elements += input.shape.elements();
  }
  return {{DType::f64, Shape{elements}}};
}

template <class A>
std::vector<Alias> aliases_of_update(const Attributes& any) {
  std::vector<Alias> aliases;
  for (std::size_t i = 0; i < any.as<A>().changes(); ++i) aliases.push_back({i, i, AliasKind::updates});
  return aliases;
}

RangeRule ranges_of_sum(const Attributes&, TypeSpan) { return {kNormTile, {0}}; }

// The parameter, its states and the gradient, but no scales. A range begins with a tile of the kernels' sums, and so with a block
// of coded states and a group of noise.
RangeRule ranges_of_update(const Attributes&, TypeSpan inputs) {
  static_assert(kNormTile % kCodedBlock == 0);
  RangeRule rule{.step = kNormTile};
  for (std::size_t i = 0; i < inputs.size() && inputs[i].dtype != DType::f64; ++i) {
    if (i == 0 || inputs[i - 1].dtype != DType::u8) rule.inputs.push_back(i);
  }
  return rule;
}

template <int kFlops>
Cost cost_of_update(const Attributes&, TypeSpan inputs, TypeSpan outputs) {
  return {kFlops * static_cast<double>(inputs[0].shape.elements()), bytes_touched(inputs, outputs)};
}

template <class A, int kFlops>
constexpr OpDef update_op(const char* name) {
  return {.name = name,
          .infer = infer_update<A>,
          .cost = cost_of_update<kFlops>,
          .not_differentiable = kUpdateOnly,
          .aliases = aliases_of_update<A>,
          .ranges = ranges_of_update};
}

}  // namespace

const OpDef kSumOfSquares{.name = "sum_of_squares",
                          .infer = infer_sum,
                          .cost = cost_of_sum,
                          .not_differentiable = kUpdateOnly,
                          .ranges = ranges_of_sum};
const OpDef kReport{.name = "report", .infer = infer_report, .cost = cost_of_few, .not_differentiable = kUpdateOnly};
const OpDef kClip{.name = "clip", .infer = infer_clip, .cost = cost_of_few, .not_differentiable = kUpdateOnly};
constinit const OpDef kAdamW = update_op<AdamWAttributes, 15>("adamw");
constinit const OpDef kLion = update_op<LionAttributes, 9>("lion");
constinit const OpDef kSgd = update_op<SgdAttributes, 6>("sgd");

OpList update_ops() {
  return {{&kSumOfSquares, {cuda_sum_of_squares_scratch}},
          {&kClip},
          {&kReport},
          {&kAdamW, {cuda_update_scratch}},
          {&kLion, {cuda_update_scratch}},
          {&kSgd, {cuda_update_scratch}}};
}

}  // namespace plimsoll::ops
