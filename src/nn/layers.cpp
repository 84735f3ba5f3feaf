#include "nn/layers.h"

#include <utility>
#include <vector>

#include "ops/matmul/matmul.h"
#include "ops/norm/norm.h"

namespace plimsoll::nn {

Linear::Linear(GraphBuilder& builder, const std::string& name, std::int64_t inputs, std::int64_t outputs, double std)
    : weight(builder.add_parameter(name + ".weight", {inputs, outputs}, {Initializer::Kind::normal, std})),
      bias(builder.add_parameter(name + ".bias", {outputs}, {Initializer::Kind::zeros, 0})) {}

ValueId Linear::operator()(GraphBuilder& builder, ValueId x, const std::string& name) const {
  const GraphBuilder::Scope scope(builder, name);
  return ops::linear(builder, x, weight, bias, "");
}

Projection::Projection(GraphBuilder& builder, const std::string& block, std::string name, std::int64_t inputs,
                       std::int64_t outputs, bool has_bias, double std)
    : name(std::move(name)),
      weight(builder.add_parameter(block + this->name + ".weight", {outputs, inputs}, {Initializer::Kind::normal, std})) {
  if (has_bias) bias = builder.add_parameter(block + this->name + ".bias", {outputs}, {Initializer::Kind::zeros, 0});
}

ValueId Projection::operator()(GraphBuilder& builder, ValueId x) const {
  const GraphBuilder::Scope scope(builder, name);
  std::vector<ValueId> inputs{x, weight};
  if (bias.valid()) inputs.push_back(bias);
  return builder.add1(ops::kMatmul, ops::MatmulAttributes{.transpose_b = true, .bias = bias.valid()}, std::move(inputs), "");
}

LayerNorm::LayerNorm(GraphBuilder& builder, const std::string& name, std::int64_t width, double epsilon)
    : weight(builder.add_parameter(name + ".weight", {width}, {Initializer::Kind::ones, 0})),
      bias(builder.add_parameter(name + ".bias", {width}, {Initializer::Kind::zeros, 0})),
      epsilon(epsilon) {}

ValueId LayerNorm::operator()(GraphBuilder& builder, ValueId x) const {
  return ops::layer_norm(builder, x, weight, bias, epsilon);
}

}  // namespace plimsoll::nn
