#include <fmt/core.h>

#include <utility>

#include "ops/class_token/class_token.h"
#include "ops/families.h"
#include "ops/reduce/reduce.h"
#include "ops/rules.h"
#include "ops/shape/shape_ops.h"

namespace plimsoll::ops {
namespace {

void require_tokens(const ValueType& x, std::string_view where) {
  require(x.dtype == DType::f32 && x.shape.rank() == 3, where, fmt::format("x is {} {}", name(x.dtype), to_text(x.shape)),
          "fp32 of (batch, tokens, width)");
}

std::vector<ValueType> infer_place(const Attributes&, TypeSpan inputs) {
  constexpr const char* kWhere = "place_tokens";
  require_inputs(inputs, 3, kWhere);
  require_tokens(inputs[0], kWhere);
  const Shape& x = inputs[0].shape;
  require_type(inputs[1], {DType::f32, {1, 1, x[2]}}, kWhere, "the token");
  require_type(inputs[2], {DType::f32, {1, x[1] + 1, x[2]}}, kWhere, "the positions");
  return {{DType::f32, {x[0], x[1] + 1, x[2]}}};
}

std::vector<ValueType> infer_first(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 1, "class_token");
  require_tokens(inputs[0], "class_token");
  return {{DType::f32, {inputs[0].shape[0], inputs[0].shape[2]}}};
}

std::vector<ValueType> infer_first_backward(const Attributes& any, TypeSpan inputs) {
  constexpr const char* kWhere = "class_token_backward";
  require_inputs(inputs, 1, kWhere);
  require_dtype(inputs, DType::f32, kWhere);
  const Shape& d = inputs[0].shape;
  const std::int64_t tokens = any.as<ClassTokenBackwardAttributes>().tokens;
  require(d.rank() == 2 && tokens > 0, kWhere, fmt::format("the gradient is {} for {} tokens", to_text(d), tokens),
          "(batch, width) for at least one token");
  return {{DType::f32, {d[0], tokens, d[1]}}};
}

std::vector<ValueType> infer_others(const Attributes&, TypeSpan inputs) {
  require_inputs(inputs, 1, "other_tokens");
  require_tokens(inputs[0], "other_tokens");
  const Shape& x = inputs[0].shape;
  require(x[1] > 1, "other_tokens", "x is " + to_text(x), "two tokens or more");
  return {{DType::f32, {x[0], x[1] - 1, x[2]}}};
}

// As many bytes are read as written.
Cost cost_of_copy(const Attributes&, TypeSpan, TypeSpan outputs) { return {0, bytes_touched(outputs, outputs)}; }

// The sum of rows [b, n] as the gradient of a parameter of n elements.
void contribute_sum(GradientContext& context, std::size_t input, ValueId rows, const char* name) {
  GraphBuilder& builder = context.builder();
  const ValueId sum = builder.add1(kSumRows, AccumulateAttributes{}, {rows}, std::string(name) + ".sum");
  context.contribute(input, reshape(builder, sum, builder.shape(context.input(input)), name));
}

void gradient_of_place(GradientContext& context) {
  GraphBuilder& builder = context.builder();
  const ValueId d = context.gradient(0);
  const Shape y = builder.shape(d);
  if (context.wants(0)) context.contribute(0, builder.add1(kOtherTokens, NoAttributes{}, {d}, "grad"));
  if (context.wants(1)) contribute_sum(context, 1, class_token(builder, d, "token.rows"), "token.grad");
  if (context.wants(2)) {
    contribute_sum(context, 2, reshape(builder, d, {y[0], y[1] * y[2]}, "positions.rows"), "positions.grad");
  }
}

void gradient_of_first(GradientContext& context) {
  const ClassTokenBackwardAttributes attributes{context.builder().shape(context.input(0))[1]};
  context.contribute_if_wanted(0, kClassTokenBackward, attributes, {context.gradient(0)});
}

}  // namespace

const OpDef kPlaceTokens{
    .name = "place_tokens", .infer = infer_place, .cost = cost_per_element<1>, .gradient = gradient_of_place};
const OpDef kClassToken{.name = "class_token", .infer = infer_first, .cost = cost_of_copy, .gradient = gradient_of_first};
const OpDef kClassTokenBackward{.name = "class_token_backward",
                                .infer = infer_first_backward,
                                .cost = cost_per_element<0>,
                                .not_differentiable = kFirstOrderOnly};
const OpDef kOtherTokens{
    .name = "other_tokens", .infer = infer_others, .cost = cost_of_copy, .not_differentiable = kFirstOrderOnly};

OpList class_token_ops() { return {{&kPlaceTokens}, {&kClassToken}, {&kClassTokenBackward}, {&kOtherTokens}}; }

ValueId place_tokens(GraphBuilder& builder, ValueId x, ValueId token, ValueId positions, std::string name) {
  return builder.add1(kPlaceTokens, NoAttributes{}, {x, token, positions}, std::move(name));
}

ValueId class_token(GraphBuilder& builder, ValueId x, std::string name) {
  return builder.add1(kClassToken, NoAttributes{}, {x}, std::move(name));
}

}  // namespace plimsoll::ops
