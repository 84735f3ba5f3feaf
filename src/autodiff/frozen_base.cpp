#include "autodiff/frozen_base.h"

#include <algorithm>
#include <utility>

namespace plimsoll {
namespace {

struct Reader {
  NodeId node;
  std::size_t input = 0;
};

PerValue<std::vector<Reader>> readers_of(const Graph& graph) {
  PerValue<std::vector<Reader>> readers(graph.values.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[NodeId{i}];
    for (std::size_t input = 0; input < node.inputs.size(); ++input) readers[node.inputs[input]].push_back({NodeId{i}, input});
  }
  return readers;
}

std::optional<StoredReader> stored_reader(const Node& node, std::size_t input, const std::optional<BlockMatrix>& blocks) {
  return node.op->reads_stored == nullptr ? std::nullopt : node.op->reads_stored(node.attributes, input, blocks);
}

bool is_weight(const Node& node, std::size_t input) {
  const auto linear = node.op->linear == nullptr ? std::nullopt : node.op->linear(node.attributes);
  return linear && linear->weight == input;
}

bool is_matrix(const Value& value) {
  return value.parameter && !value.parameter->adapter && !value.parameter->in_files && value.type.dtype == DType::f32 &&
         value.type.shape.rank() == 2;
}

bool is_frozen(const Value& value) { return value.parameter->kind == ParameterKind::frozen; }

StoredForm form_of(const FrozenBase& base) {
  switch (base.format) {
    case BaseFormat::int8: return BlockFormat::int8;
    case BaseFormat::nf4: return base.nested ? BlockFormat::nf4_nested : BlockFormat::nf4;
    case BaseFormat::none:
    case BaseFormat::bf16:
    case BaseFormat::file: break;
  }
  return {};
}

// The parameters that the base stores in another form, with that form.
std::vector<std::pair<ValueId, StoredForm>> forms(const Graph& graph, const FrozenBase& base) {
  std::vector<std::pair<ValueId, StoredForm>> result;
  if (base.format == BaseFormat::none) return result;
  if (base.format != BaseFormat::file) {
    for (const ValueId id : linear_matrices(graph)) result.emplace_back(id, form_of(base));
    return result;
  }
  for (const ValueId id : graph.parameters()) {
    const auto found = base.file.find(graph.values[id].name.text());
    if (is_matrix(graph.values[id]) && found != base.file.end()) result.emplace_back(id, found->second);
  }
  return result;
}

bool store_read(Graph& graph, const std::vector<Reader>& readers, ValueId parameter, StoredForm form) {
  Value value = graph.values[parameter];
  if (form) {
    store_in_blocks(value, *form);
  } else {
    value.type.dtype = DType::bf16;
  }
  std::vector<StoredReader> replaced;
  for (const Reader& reader : readers) {
    auto stored = stored_reader(graph.nodes[reader.node], reader.input, value.parameter->blocks);
    if (!stored) return false;
    replaced.push_back(std::move(*stored));
  }
  graph.values[parameter] = std::move(value);
  for (std::size_t i = 0; i < readers.size(); ++i) {
    Node& node = graph.nodes[readers[i].node];
    node.op = replaced[i].op;
    node.attributes = std::move(replaced[i].attributes);
  }
  return true;
}

}  // namespace

std::vector<ValueId> linear_matrices(const Graph& graph) {
  const PerValue<std::vector<Reader>> readers = readers_of(graph);
  std::vector<ValueId> found;
  for (const ValueId id : graph.parameters()) {
    if (!is_matrix(graph.values[id]) || graph.values[id].parameter->table) continue;
    const auto is_linear = [&](const Reader& reader) { return is_weight(graph.nodes[reader.node], reader.input); };
    const auto may = [&](const Reader& reader) { return stored_reader(graph.nodes[reader.node], reader.input, {}).has_value(); };
    if (std::ranges::any_of(readers[id], is_linear) && std::ranges::all_of(readers[id], may)) found.push_back(id);
  }
  return found;
}

std::size_t store_base(Graph& graph, const FrozenBase& base) {
  const PerValue<std::vector<Reader>> readers = readers_of(graph);
  std::size_t count = 0;
  for (const auto& [id, form] : forms(graph, base)) {
    if (is_frozen(graph.values[id]) && store_read(graph, readers[id], id, form)) ++count;
  }
  if (count > 0) verify(graph);
  return count;
}

void freeze_base(Graph& graph, const FrozenBase& base) {
  for (const auto& [id, form] : forms(graph, base)) graph.values[id].parameter->kind = ParameterKind::frozen;
  store_base(graph, base);
}

bool store_frozen(Graph& graph, ValueId parameter, StoredForm form) {
  if (!store_read(graph, readers_of(graph)[parameter], parameter, form)) return false;
  verify(graph);
  return true;
}

}  // namespace plimsoll
