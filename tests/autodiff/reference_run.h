// Runs a section of a graph in fp64 by the references of the op cases. The kernels of a whole model are compared with it, and
// central differences differentiate it.
#pragma once

#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "ops/cases/cases.h"

namespace plimsoll::test {

class ReferenceRun {
 public:
  explicit ReferenceRun(const Graph& graph) : graph_(graph), values_(graph.values.size()) {}

  Numbers& operator[](ValueId value) { return values_[value]; }

  void run(Section section) {
    for (const NodeId id : graph_.section_order(section)) run(graph_.nodes[id]);
  }

 private:
  void run(const Node& node) {
    const OpCases* cases = find_cases(*node.op);
    ensure(cases != nullptr, "reference", "an op has no cases");
    const std::vector<ValueType> inputs = types_of(graph_, node.inputs), outputs = types_of(graph_, node.outputs);
    std::vector<Numbers> values;
    for (const ValueId input : node.inputs) values.push_back(values_[input]);
    std::vector<Numbers> results = cases->reference({node.attributes, inputs, outputs, values});
    for (std::size_t i = 0; i < results.size(); ++i) values_[node.outputs[i]] = std::move(results[i]);
    // An updated version replaces the persistent value.
    for (const ValueId output : node.outputs) {
      if (const ValueId origin = graph_.values[output].version_of; origin.valid()) values_[origin] = values_[output];
    }
  }

  const Graph& graph_;
  PerValue<Numbers> values_;
};

}  // namespace plimsoll::test
