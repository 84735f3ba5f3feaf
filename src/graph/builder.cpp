#include "graph/builder.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/philox.h"

namespace plimsoll {

GraphBuilder::Scope::Scope(GraphBuilder& builder, std::string_view part) : builder_(builder), outer_(builder.line_) {
  builder_.line_ += (builder_.line_.empty() ? "" : ".") + std::string(part);
}

GraphBuilder::Scope::~Scope() { builder_.line_ = std::move(outer_); }

ValueId GraphBuilder::add_persistent(std::string name, ValueType type, Role role) {
  Value value;
  value.name = std::move(name);
  value.type = std::move(type);
  value.role = role;
  return graph_.values.push_back(std::move(value));
}

ValueId GraphBuilder::add_parameter(std::string name, ParameterSpec spec) {
  const bool matrix = spec.shape.rank() >= 2;
  const Role role = spec.kind == ParameterKind::statistic ? Role::statistic : Role::parameter;
  const ValueId id = add_persistent(std::move(name), {spec.storage, std::move(spec.shape)}, role);
  graph_.values[id].parameter = ParameterInfo{spec.initializer, spec.kind, /*decay=*/matrix};
  graph_.values[id].parameter->in_files = std::move(spec.in_files);
  if (spec.blocks) store_in_blocks(graph_.values[id], *spec.blocks);
  return id;
}

// The pass's name must differ from those of phases, sections and passes.
Section GraphBuilder::begin_forward(ForwardPass pass) {
  constexpr std::string_view kTaken[] = {"load", "first", "steady", "save", "micro", "update", "train"};
  constexpr std::size_t kMost = 128;  // a section is a byte
  ensure(std::ranges::find(kTaken, pass.name) == std::end(kTaken) && !graph_.find_forward(pass.name), "graph",
         "a forward pass needs a name of its own");
  ensure(graph_.forward.size() < kMost, "graph", "too many forward passes");
  graph_.forward.push_back(std::move(pass));
  set_section(forward_section(graph_.forward.size() - 1));
  return section_;
}

ValueId GraphBuilder::add_parameter(std::string name, Shape shape, Initializer initializer) {
  return add_parameter(std::move(name), {.shape = std::move(shape), .initializer = initializer});
}

ValueId GraphBuilder::add_input(std::string name, ValueType type) {
  const ValueId id = add_persistent(std::move(name), std::move(type), Role::input);
  graph_.values[id].section = section_;
  return id;
}

std::string GraphBuilder::full_name(const std::string& name) const {
  if (line_.empty()) return name;
  return name.empty() ? line_ : line_ + "." + name;
}

std::vector<ValueId> GraphBuilder::add(const OpDef& op, Attributes attributes, std::vector<ValueId> inputs,
                                       std::vector<std::string> names) {
  return add_random(op, std::move(attributes), std::move(inputs), std::move(names), 0);
}

std::vector<ValueId> GraphBuilder::replace(NodeId node, const OpDef& op, Attributes attributes, std::vector<ValueId> inputs,
                                           std::vector<std::string> names) {
  return set(node, op, std::move(attributes), std::move(inputs), std::move(names), 0);
}

ValueId GraphBuilder::add1(const OpDef& op, Attributes attributes, std::vector<ValueId> inputs, std::string name) {
  return add(op, std::move(attributes), std::move(inputs), {std::move(name)}).front();
}

std::vector<ValueId> GraphBuilder::add_random(const OpDef& op, Attributes attributes, std::vector<ValueId> inputs,
                                              std::vector<std::string> names, std::uint64_t site) {
  return set({}, op, std::move(attributes), std::move(inputs), std::move(names), site);
}

std::vector<ValueId> GraphBuilder::set(NodeId id, const OpDef& op, Attributes attributes, std::vector<ValueId> inputs,
                                       const std::vector<std::string>& names, std::uint64_t site) {
  const std::vector<ValueType> types = op.infer(attributes, types_of(graph_, inputs));
  ensure(types.size() == names.size(), "builder", "an op's outputs and their names differ in number");
  if (id.valid()) std::erase(graph_.order, id);
  if (!id.valid()) id = graph_.nodes.push_back({});
  Node node{.op = &op,
            .attributes = std::move(attributes),
            .inputs = std::move(inputs),
            .outputs = std::move(graph_.nodes[id].outputs),
            .section = section_,
            .backward = backward_,
            .line = line_,
            .site = site,
            .gradient_of = backward_ ? gradient_of_ : NodeId{}};
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (i == node.outputs.size()) node.outputs.push_back(graph_.values.push_back({}));
    Value& value = graph_.values[node.outputs[i]];
    value.name = full_name(names[i]);
    value.type = types[i];
    value.role = role_;
    value.section = section_;
    value.producer = id;
  }
  for (const NodeAlias& alias : aliases_of(graph_, node)) {
    if (!in_place(alias.kind)) continue;
    const Value& updated = graph_.values[alias.input];
    graph_.values[alias.output].role = updated.role;
    graph_.values[alias.output].version_of = updated.persistent() ? alias.input : updated.version_of;
  }
  graph_.nodes[id] = std::move(node);
  graph_.order.push_back(id);
  return graph_.nodes[id].outputs;
}

std::uint64_t random_site(std::string_view name) {
  std::uint64_t site = 0;
  for (const char letter : name) site = mix64(site ^ static_cast<unsigned char>(letter));
  return site;
}

}  // namespace plimsoll
