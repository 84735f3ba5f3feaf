#include "autodiff/frozen_base.h"

#include <optional>
#include <utility>

#include "ops/block_matmul/block_matmul.h"
#include "ops/lookup/lookup.h"
#include "ops/loss/loss.h"
#include "ops/matmul/matmul.h"
#include "ops/score/score.h"

namespace plimsoll {
namespace {

// Whether the node is a linear layer with that input as its matrix, which ops/block_matmul can take over.
bool is_linear(const Node& node, std::size_t input) {
  if (node.op != &ops::kMatmul) return false;
  const std::optional<LinearOperands> operands = node.op->linear(node.attributes);
  return operands && operands->weight == input && node.inputs[operands->x] != node.inputs[input];
}

BlockFormat blocks_of(const FrozenBase& base) {
  if (base.format == BaseFormat::int8) return BlockFormat::int8;
  return base.nested ? BlockFormat::nf4_nested : BlockFormat::nf4;
}

void multiply_stored(Node& node, const Value& parameter) {
  const auto& attributes = node.attributes.as<ops::MatmulAttributes>();
  node.attributes = ops::BlockMatmulAttributes{.blocks = parameter.parameter->blocks,
                                               .transposed = attributes.transpose_b,
                                               .bias = attributes.bias,
                                               .output = attributes.output};
  node.op = &ops::kBlockMatmul;
}

template <class A>
void set_blocks(Node& node, const std::optional<BlockMatrix>& blocks) {
  A attributes = node.attributes.as<A>();
  attributes.blocks = blocks;
  node.attributes = std::move(attributes);
}

// Whether the node may read that input as it is stored.
bool takes_blocks(const Node& node, std::size_t input) {
  const bool table = node.op == &ops::kLookup || node.op == &ops::kScore || node.op == &ops::kLinearCrossEntropy;
  return is_linear(node, input) || (table && input == 1);
}

// Of a node that may.
void read_stored(Node& node, const Value& parameter) {
  const std::optional<BlockMatrix>& blocks = parameter.parameter->blocks;
  if (node.op == &ops::kMatmul) return multiply_stored(node, parameter);
  if (node.op == &ops::kLookup) return set_blocks<ops::LookupAttributes>(node, blocks);
  if (node.op == &ops::kScore) return set_blocks<ops::ScoreAttributes>(node, blocks);
  set_blocks<ops::LossAttributes>(node, blocks);
}

}  // namespace

std::vector<ValueId> linear_matrices(const Graph& graph) {
  PerValue<int> products(graph.values.size(), 0), others = products;
  for (const Node& node : graph.nodes) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) ++(is_linear(node, i) ? products : others)[node.inputs[i]];
  }
  std::vector<ValueId> found;
  for (const ValueId id : graph.parameters()) {
    const ValueType& type = graph.values[id].type;
    const bool matrix = type.dtype == DType::f32 && type.shape.rank() == 2;
    const bool model = !graph.values[id].parameter->adapter;
    if (matrix && model && products[id] > 0 && others[id] == 0) found.push_back(id);
  }
  return found;
}

std::size_t store_base(Graph& graph, const FrozenBase& base) {
  if (base.format == BaseFormat::none) return 0;
  std::size_t count = 0;
  PerValue<char> stored(graph.values.size(), 0);
  for (const ValueId id : linear_matrices(graph)) {
    Value& value = graph.values[id];
    if (value.parameter->kind != ParameterKind::frozen) continue;
    if (base.format == BaseFormat::bf16) {
      value.type.dtype = DType::bf16;
    } else {
      store_in_blocks(value, blocks_of(base));
    }
    stored[id] = 1;
    ++count;
  }
  for (Node& node : graph.nodes) {
    if (node.inputs.size() > 1 && stored[node.inputs[1]] != 0) multiply_stored(node, graph.values[node.inputs[1]]);
  }
  verify(graph);
  return count;
}

void freeze_base(Graph& graph, const FrozenBase& base) {
  if (base.format == BaseFormat::none) return;
  for (const ValueId id : linear_matrices(graph)) graph.values[id].parameter->kind = ParameterKind::frozen;
  store_base(graph, base);
}

bool store_blocks(Graph& graph, ValueId parameter, BlockFormat format) {
  std::vector<Node*> readers;
  for (Node& node : graph.nodes) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != parameter) continue;
      if (!takes_blocks(node, i)) return false;
      readers.push_back(&node);
    }
  }
  Value& value = graph.values[parameter];
  store_in_blocks(value, format);
  for (Node* node : readers) read_stored(*node, value);
  verify(graph);
  return true;
}

}  // namespace plimsoll
