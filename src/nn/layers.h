// Layers as graph builders: each makes its parameters under the names of Hugging Face and applies them. A layer is independent of
// memory, precision and batch size.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "graph/builder.h"

namespace plimsoll::nn {

struct Linear {
  ValueId weight;  // [inputs, outputs], like GPT-2's Conv1D
  ValueId bias;    // [outputs]

  Linear(GraphBuilder& builder, const std::string& name, std::int64_t inputs, std::int64_t outputs, double std);
  ValueId operator()(GraphBuilder& builder, ValueId x, const std::string& name) const;
};

// y = x W^T + b for a matrix [outputs, inputs].
struct Projection {
  std::string name;  // name within the block
  ValueId weight, bias;

  Projection(std::string name, ValueId weight) : name(std::move(name)), weight(weight) {}
  // `block`: "model.layers.0.", before the names of parameters.
  Projection(GraphBuilder& builder, const std::string& block, std::string name, std::int64_t inputs, std::int64_t outputs,
             bool has_bias, double std);
  ValueId operator()(GraphBuilder& builder, ValueId x) const;
};

struct LayerNorm {
  ValueId weight, bias;  // [width]
  double epsilon;

  LayerNorm(GraphBuilder& builder, const std::string& name, std::int64_t width, double epsilon);
  ValueId operator()(GraphBuilder& builder, ValueId x) const;
};

}  // namespace plimsoll::nn
