#include <fmt/core.h>

#include "ops/cast/cast.h"
#include "ops/families.h"
#include "ops/rules.h"

namespace plimsoll::ops {
namespace {

bool supported(DType from, DType to) {
  const auto half = [](DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; };
  return (from == DType::f32 && half(to)) || (half(from) && to == DType::f32);
}

std::vector<ValueType> infer(const Attributes& any, TypeSpan inputs) {
  require_inputs(inputs, 1, "cast");
  const DType to = any.as<CastAttributes>().to;
  require(supported(inputs[0].dtype, to), "cast", fmt::format("{} to {}", name(inputs[0].dtype), name(to)),
          "f32 to bf16 or f16 and back");
  return {{to, inputs[0].shape}};
}

void gradient(GradientContext& context) {
  if (!context.wants(0)) return;
  const DType from = context.builder().type(context.input(0)).dtype;
  context.contribute(0, cast(context.builder(), context.gradient(0), from, "grad"));
}

}  // namespace

const OpDef kCast{.name = "cast", .infer = infer, .cost = cost_per_element<1>, .gradient = gradient};

OpList cast_ops() { return {{&kCast}}; }

ValueId cast(GraphBuilder& builder, ValueId x, DType to, std::string name) {
  return builder.add1(kCast, CastAttributes{to}, {x}, std::move(name));
}

}  // namespace plimsoll::ops
