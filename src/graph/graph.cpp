#include "graph/graph.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/hash.h"

namespace plimsoll {

namespace {

std::size_t pass_of(Section section) { return static_cast<std::size_t>(section) - static_cast<std::size_t>(Section::forward); }

}  // namespace

std::vector<Section> Graph::sections() const {
  std::vector<Section> all{Section::micro, Section::update};
  for (std::size_t pass = 0; pass < forward.size(); ++pass) all.push_back(forward_section(pass));
  return all;
}

std::string_view Graph::name(Section section) const {
  if (section == Section::micro) return "micro";
  if (section == Section::update) return "update";
  ensure(pass_of(section) < forward.size(), "graph", "there is no such section");
  return forward[pass_of(section)].name;
}

bool Graph::sums(Section section) const {
  if (section == Section::micro) return true;
  return section != Section::update && forward.at(pass_of(section)).sums;
}

std::optional<Section> Graph::find_forward(std::string_view name) const {
  const auto found = std::ranges::find(forward, name, &ForwardPass::name);
  if (found == forward.end()) return {};
  return forward_section(static_cast<std::size_t>(found - forward.begin()));
}

std::string_view name(Role role) {
  switch (role) {
    case Role::parameter: return "parameters";
    case Role::accumulator: return "gradient accumulators";
    case Role::optimizer_state: return "optimizer state";
    case Role::staging: return "data staging";
    case Role::pages: return "pages";
    case Role::input: return "batch";
    case Role::activation: return "activations";
    case Role::gradient: return "activation gradients";
    case Role::recomputed: return "recomputed activations";
    case Role::output: return "results";
    case Role::cache: return "cache";
    case Role::statistic: return "statistics";
  }
  return "?";
}

Shape tensor_shape(const Value& parameter) {
  const std::optional<BlockMatrix> blocks = parameter.parameter ? parameter.parameter->blocks : std::nullopt;
  if (blocks) return Shape{blocks->rows, blocks->columns};
  return parameter.shard ? parameter.shard->whole : parameter.type.shape;
}

void store_in_blocks(Value& parameter, BlockFormat format) {
  const Shape& shape = parameter.type.shape;
  ensure(parameter.parameter && parameter.parameter->kind == ParameterKind::frozen && shape.rank() == 2, "graph",
         "what is stored in blocks is no frozen matrix");
  parameter.parameter->blocks = BlockMatrix{format, shape[0], shape[1]};
  parameter.type = {DType::u8, Shape{stored_bytes(*parameter.parameter->blocks).n}};
}

std::vector<NodeId> Graph::section_order(Section section) const {
  std::vector<NodeId> result;
  std::copy_if(order.begin(), order.end(), std::back_inserter(result), [&](NodeId id) { return nodes[id].section == section; });
  return result;
}

std::vector<ValueId> Graph::parameters() const {
  std::vector<ValueId> result;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[ValueId{i}].parameter) result.push_back(ValueId{i});
  }
  return result;
}

ValueId Graph::find(std::string_view name) const {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[ValueId{i}].name.text() == name) return ValueId{i};
  }
  return {};
}

void sort_sections(Graph& graph) {
  std::stable_sort(graph.order.begin(), graph.order.end(),
                   [&](NodeId a, NodeId b) { return graph.nodes[a].section < graph.nodes[b].section; });
}

std::vector<NodeAlias> aliases_of(const Graph&, const Node& node) {
  std::vector<NodeAlias> result;
  const std::vector<Alias> aliases = aliases_of(*node.op, node.attributes);
  result.reserve(aliases.size());
  for (const Alias& alias : aliases) {
    const ValueId input = node.inputs.at(alias.input);
    const auto pairs = std::count_if(aliases.begin(), aliases.end(), [&](const Alias& other) {
      return other.kind == alias.kind && other.output == alias.output && node.inputs.at(other.input) == input;
    });
    const bool read_besides = std::count(node.inputs.begin(), node.inputs.end(), input) > pairs;
    if (alias.kind == AliasKind::may_overwrite && read_besides) continue;
    result.push_back({input, node.outputs.at(alias.output), alias.kind});
  }
  return result;
}

ValueId without_views(const Graph& graph, ValueId value) {
  while (graph.values[value].producer.valid() && graph.nodes[graph.values[value].producer].op->view) {
    value = graph.nodes[graph.values[value].producer].inputs[0];
  }
  return value;
}

ValueId origin_of(const Graph& graph, ValueId value) {
  while (true) {
    const Value& what = graph.values[value];
    if (what.version_of.valid()) {
      value = what.version_of;
    } else if (what.copy_of.valid()) {
      value = what.copy_of;
    } else if (what.producer.valid() && graph.nodes[what.producer].op->view) {
      value = graph.nodes[what.producer].inputs[0];
    } else {
      return value;
    }
  }
}

Bytes offset_in_origin(const Graph& graph, ValueId value) {
  Bytes offset;
  while (true) {
    const NodeId producer = graph.values[value].producer;
    if (!producer.valid()) return offset;
    const Node& node = graph.nodes[producer];
    if (node.op->view) {
      if (node.op->view_begin != nullptr)
        offset += Bytes{node.op->view_begin(node.attributes) * size_of(graph.values[value].type.dtype)};
      value = node.inputs[0];
      continue;
    }
    const std::vector<NodeAlias> aliases = aliases_of(graph, node);
    const auto same =
        std::ranges::find_if(aliases, [&](const NodeAlias& each) { return in_place(each.kind) && each.output == value; });
    if (same == aliases.end()) return offset;
    value = same->input;
  }
}

std::vector<ValueType> types_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<ValueType> types;
  types.reserve(values.size());
  for (const ValueId value : values) types.push_back(graph.values[value].type);
  return types;
}

std::string to_text(const Graph& graph) {
  std::string text;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[ValueId{i}];
    if (value.producer.valid()) continue;
    text += fmt::format("%{} {}{} {} : {}{}{}\n", i, name(value.type.dtype), to_text(value.type.shape), value.name.text(),
                        name(value.role), value.persistent() ? "" : fmt::format(" of {}", graph.name(*value.section)),
                        value.tier == 0 ? "" : fmt::format(" on tier {}", value.tier));
  }
  for (const NodeId id : graph.order) {
    const Node& node = graph.nodes[id];
    std::string outputs, inputs;
    for (const ValueId output : node.outputs) {
      const Value& value = graph.values[output];
      outputs += fmt::format("{}%{} {}{} {}", outputs.empty() ? "" : ", ", output.index, name(value.type.dtype),
                             to_text(value.type.shape), value.name.text());
    }
    for (const ValueId input : node.inputs) inputs += fmt::format("{}%{}", inputs.empty() ? "" : ", ", input.index);
    text += fmt::format("{}: {} = {}[{}]({}) @{:x}\n", graph.name(node.section), outputs, node.op->name, node.attributes.text(),
                        inputs, node.site);
  }
  return text;
}

std::string graph_hash(const Graph& graph) { return hash_hex(to_text(graph)); }

}  // namespace plimsoll
