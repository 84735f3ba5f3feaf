// Appends nodes to a graph: types are inferred, names and model lines come from the builder's current scope.
// Layers (nn/), gradients (autodiff/) and rewriting passes (plan/) all write through it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace plimsoll {

class GraphBuilder {
 public:
  explicit GraphBuilder(Graph& graph) : graph_(graph) {}

  Graph& graph() { return graph_; }
  const Value& value(ValueId id) const { return graph_.values[id]; }
  const ValueType& type(ValueId id) const { return graph_.values[id].type; }
  const Shape& shape(ValueId id) const { return graph_.values[id].type.shape; }
  // The storage of a parameter in blocks; absent for any other value.
  std::optional<BlockMatrix> blocks_of(ValueId id) const {
    const Value& value = graph_.values[id];
    return value.parameter ? value.parameter->blocks : std::nullopt;
  }

  // The section of the nodes and values added from now on.
  void set_section(Section section, bool backward = false) { section_ = section, backward_ = backward; }
  // Begins a forward pass of the graph for the nodes and values added from now on.
  Section begin_forward(ForwardPass pass);
  Section section() const { return section_; }
  void set_role(Role role) { role_ = role; }
  // The model line of the nodes added from now on, for example "h.3.attn"; the destructor restores the previous one.
  class Scope {
   public:
    Scope(GraphBuilder& builder, std::string_view part);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    GraphBuilder& builder_;
    std::string outer_;
  };
  const std::string& line() const { return line_; }
  void set_line(std::string line) { line_ = std::move(line); }
  // The forward node whose gradient the nodes added from now on compute.
  void set_gradient_of(NodeId node) { gradient_of_ = node; }

  ValueId add_persistent(std::string name, ValueType type, Role role);
  ValueId add_parameter(std::string name, ParameterSpec spec);
  // A trained parameter.
  ValueId add_parameter(std::string name, Shape shape, Initializer initializer);
  // A value written from outside before each run of the current section.
  ValueId add_input(std::string name, ValueType type);

  // Adds a node. Its outputs are named by the model line and `names` ("out", "mean", ...; "" is the line itself).
  std::vector<ValueId> add(const OpDef& op, Attributes attributes, std::vector<ValueId> inputs, std::vector<std::string> names);
  // Turns a node into another one, which runs after all present nodes. Its first outputs are those of the old node.
  std::vector<ValueId> replace(NodeId node, const OpDef& op, Attributes attributes, std::vector<ValueId> inputs,
                               std::vector<std::string> names);
  ValueId add1(const OpDef& op, Attributes attributes, std::vector<ValueId> inputs, std::string name);
  // Marks a parameter as a table whose rows are looked up.
  void mark_table(ValueId parameter) { graph_.values[parameter].parameter->table = true; }
  // Marks a parameter of the last layer of a model of classes; see ParameterInfo.
  void mark_head(ValueId parameter, bool fresh) {
    ParameterInfo& info = *graph_.values[parameter].parameter;
    info.head = true, info.fresh = fresh;
  }
  // Gives a value a name other than that of its line.
  void rename(ValueId value, std::string name) { graph_.values[value].name = std::move(name); }
  // Like add, for an op that draws noise at a site of the model: random_site(full_name(name of its first output)).
  std::vector<ValueId> add_random(const OpDef& op, Attributes attributes, std::vector<ValueId> inputs,
                                  std::vector<std::string> names, std::uint64_t site);

  // The name of an output on the present line.
  std::string full_name(const std::string& name) const;

 private:
  // An invalid id stands for a new node.
  std::vector<ValueId> set(NodeId id, const OpDef& op, Attributes attributes, std::vector<ValueId> inputs,
                           const std::vector<std::string>& names, std::uint64_t site);

  Graph& graph_;
  std::string line_;
  NodeId gradient_of_;
  Section section_ = Section::micro;
  bool backward_ = false;
  Role role_ = Role::activation;
};

// The site of a random op: a hash of the full name of its first output. It does not depend on ids, batch size or plan, and no two
// ops of a section share it. The initial values of a parameter have a site by its name.
std::uint64_t random_site(std::string_view name);

}  // namespace plimsoll
