#include <fmt/core.h>

#include "ops/families.h"
#include "ops/rules.h"
#include "ops/shape/shape_ops.h"

namespace plimsoll::ops {
namespace {

std::vector<ValueType> infer_reshape(const Attributes& any, TypeSpan inputs) {
  require_inputs(inputs, 1, "reshape");
  const Shape& to = any.as<ReshapeAttributes>().shape;
  require(to.elements() == inputs[0].shape.elements(), "reshape",
          fmt::format("{} has {} elements, {} has {}", to_text(inputs[0].shape), inputs[0].shape.elements(), to_text(to),
                      to.elements()),
          "a reshape keeps the number of elements");
  return {{inputs[0].dtype, to}};
}

Cost no_cost(const Attributes&, TypeSpan, TypeSpan) { return {}; }

void gradient_of_reshape(GradientContext& context) {
  if (!context.wants(0)) return;
  context.contribute(0, reshape(context.builder(), context.gradient(0), context.builder().shape(context.input(0)), "grad"));
}

std::vector<Alias> view_of_first(const Attributes&) { return {{0, 0, AliasKind::view}}; }

std::vector<ValueType> infer_transpose(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 1, "transpose");
  require_dtype(inputs, DType::f32, "transpose");
  Shape shape = inputs[0].shape;
  require(shape.rank() >= 2, "transpose", "the input is " + to_text(shape), "it needs two axes");
  std::swap(shape[shape.rank() - 1], shape[shape.rank() - 2]);
  return {{DType::f32, shape}};
}

void gradient_of_transpose(GradientContext& context) {
  if (context.wants(0)) context.contribute(0, transpose(context.builder(), context.gradient(0), "grad"));
}

}  // namespace

const OpDef kReshape{.name = "reshape",
                     .infer = infer_reshape,
                     .cost = no_cost,
                     .gradient = gradient_of_reshape,
                     .aliases = view_of_first,
                     .view = true};
const OpDef kTranspose{
    .name = "transpose", .infer = infer_transpose, .cost = cost_per_element<0>, .gradient = gradient_of_transpose};

OpList shape_ops() { return {{&kReshape}, {&kTranspose}}; }

ValueId reshape(GraphBuilder& builder, ValueId x, Shape shape, std::string name) {
  return builder.add1(kReshape, ReshapeAttributes{std::move(shape)}, {x}, std::move(name));
}

ValueId transpose(GraphBuilder& builder, ValueId x, std::string name) {
  return builder.add1(kTranspose, NoAttributes{}, {x}, std::move(name));
}

}  // namespace plimsoll::ops
