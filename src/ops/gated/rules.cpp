#include "ops/rules.h"
#include "ops/families.h"
#include "ops/gated/gated.h"

namespace plimsoll::ops {
namespace {

// All inputs are of one type.
ValueType one_type(TypeSpan inputs, std::size_t count, const char* where) {
  require_inputs(inputs, count, where);
  require_computable(inputs[0], where);
  for (const ValueType& each : inputs.subspan(1)) require_same(inputs[0], each, where);
  return inputs[0];
}

std::vector<ValueType> infer(const Attributes& any, TypeSpan inputs) {
  any.as<GatedAttributes>();
  return {one_type(inputs, 2, "gated")};
}

std::vector<ValueType> infer_backward(const Attributes& any, TypeSpan inputs) {
  const auto& made = any.as<GatedBackwardAttributes>();
  require(made.gate || made.up, "gated_backward", "no gradient is requested", "that of the gate or of the other factor");
  const ValueType type = one_type(inputs, 3, "gated_backward");
  return std::vector<ValueType>(made.gate && made.up ? 2 : 1, type);
}

void gradient(GradientContext& context) {
  const GatedBackwardAttributes made{context.node().attributes.as<GatedAttributes>().activation, context.wants(0),
                                     context.wants(1)};
  std::vector<std::string> names;
  if (made.gate) names.emplace_back("gate.grad");
  if (made.up) names.emplace_back("up.grad");
  if (names.empty()) return;
  const auto outputs =
      context.builder().add(kGatedBackward, made, {context.gradient(0), context.input(0), context.input(1)}, std::move(names));
  if (made.gate) context.contribute(0, outputs.front());
  if (made.up) context.contribute(1, outputs.back());
}

// The kernel reads all inputs of an element before it writes the gradients.
std::vector<Alias> aliases_of_backward(const Attributes& any) {
  const auto& made = any.as<GatedBackwardAttributes>();
  std::vector<Alias> aliases;
  for (std::size_t output = 0; output < (made.gate && made.up ? 2U : 1U); ++output) {
    for (const std::size_t input : {0, 1, 2}) aliases.push_back({input, output, AliasKind::may_overwrite});
  }
  return aliases;
}

}  // namespace

std::string attribute_text(Activation activation) {
  switch (activation) {
    case Activation::silu: return "silu";
    case Activation::gelu_tanh: return "gelu_tanh";
    case Activation::gelu_erf: break;
  }
  return "gelu_erf";
}

const OpDef kGated{.name = "gated",
                   .infer = infer,
                   .cost = cost_per_element<20>,
                   .gradient = gradient,
                   .aliases = over<0, 1>,
                   .either = inputs_at<0, 1>,
                   .elementwise = true,
                   .alike = true};
const OpDef kGatedBackward{.name = "gated_backward",
                           .infer = infer_backward,
                           .cost = cost_per_element<30>,
                           .not_differentiable = kFirstOrderOnly,
                           .aliases = aliases_of_backward,
                           .either = inputs_at<0, 1, 2>,
                           .rounds = 2,
                           .elementwise = true,
                           .alike = true};

OpList gated_ops() { return {{&kGated}, {&kGatedBackward}}; }

ValueId gated(GraphBuilder& builder, ValueId gate, ValueId up, Activation activation, std::string name) {
  return builder.add1(kGated, GatedAttributes{activation}, {gate, up}, std::move(name));
}

}  // namespace plimsoll::ops
