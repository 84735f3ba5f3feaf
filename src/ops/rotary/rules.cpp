#include <fmt/core.h>

#include <algorithm>

#include "ops/families.h"
#include "ops/rotary/rotary.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

void require_scaling(const RotaryAttributes& a) {
  constexpr const char* kWhere = "rotary";
  const bool from_contexts = (a.scaling == RotaryScaling::yarn || a.scaling == RotaryScaling::longrope) && a.factor <= 0;
  const auto needs = [&](bool ok, const char* what) {
    require(ok, kWhere, fmt::format("the scaling {} has no usable {}", attribute_text(a.scaling), what), "a positive one");
  };
  if (a.scaling == RotaryScaling::none) return;
  needs(a.factor > 0 || (from_contexts && a.most > 0), "factor");
  if (a.scaling == RotaryScaling::dynamic) needs(a.most > 0 && a.rotated > 2, "context");
  if (a.scaling == RotaryScaling::by_bands) needs(a.low > 0 && a.high >= a.low, "low and high factors");
  if (a.scaling == RotaryScaling::yarn) needs(a.beta_fast > 0 && a.beta_slow > 0 && a.theta > 1, "beta");
  if (a.scaling == RotaryScaling::linear || a.scaling == RotaryScaling::dynamic) return;
  needs(a.original > 1, "original context");
  if (a.scaling != RotaryScaling::longrope) return;
  const auto pairs = static_cast<std::size_t>(a.rotated / 2);
  for (const std::vector<double>* factors : {&a.short_factor, &a.long_factor}) {
    const bool positive = std::ranges::all_of(*factors, [](double each) { return each > 0; });
    require(factors->size() == pairs && positive, kWhere,
            fmt::format("longrope has {} factors for {} pairs", factors->size(), pairs), "a positive factor for each pair");
  }
}

std::vector<ValueType> infer(const Attributes& any, TypeSpan inputs) {
  constexpr const char* kWhere = "rotary";
  const auto& a = any.as<RotaryAttributes>();
  require_inputs(inputs, a.positions ? 2 : 1, kWhere);
  require_computable(inputs[0], kWhere);
  const Shape& x = inputs[0].shape;
  require(a.head_size > 0 && a.rotated > 0 && a.rotated % 2 == 0 && a.rotated <= a.head_size, kWhere,
          fmt::format("{} of {} numbers of a head are rotated", a.rotated, a.head_size), "an even number, at most all");
  require(x.rank() == 3 && x.last() % a.head_size == 0, kWhere,
          fmt::format("x is {} and a head has {} numbers", to_text(inputs[0]), a.head_size),
          "pass (batch, tokens, heads * size)");
  require(a.theta > 0, kWhere, fmt::format("theta is {}", a.theta), "a positive number");
  require_scaling(a);
  if (a.positions) require_type(inputs[1], {DType::i32, {x[0], x[1]}}, kWhere, "the positions");
  return {inputs[0]};
}

void gradient(GradientContext& context) {
  if (!context.wants(0)) return;
  RotaryAttributes attributes = context.node().attributes.as<RotaryAttributes>();
  attributes.inverse = !attributes.inverse;
  std::vector<ValueId> inputs{context.gradient(0)};
  if (attributes.positions) inputs.push_back(context.input(1));
  context.contribute(0, context.builder().add1(kRotary, attributes, std::move(inputs), "grad"));
}

}  // namespace

std::string attribute_text(RotaryScaling scaling) {
  switch (scaling) {
    case RotaryScaling::none: return "none";
    case RotaryScaling::linear: return "linear";
    case RotaryScaling::dynamic: return "dynamic";
    case RotaryScaling::by_bands: return "by_bands";
    case RotaryScaling::yarn: return "yarn";
    case RotaryScaling::longrope: break;
  }
  return "longrope";
}

const OpDef kRotary{.name = "rotary",
                    .infer = infer,
                    .cost = cost_per_element<6>,
                    .gradient = gradient,
                    .aliases = over<0>,
                    .either = inputs_at<0>,
                    .alike = true};

OpList rotary_ops() { return {{&kRotary}}; }

ValueId rotary(GraphBuilder& builder, ValueId x, ValueId positions, RotaryAttributes attributes, std::string name) {
  attributes.positions = positions.valid();
  std::vector<ValueId> inputs{x};
  if (positions.valid()) inputs.push_back(positions);
  return builder.add1(kRotary, attributes, std::move(inputs), std::move(name));
}

}  // namespace plimsoll::ops
