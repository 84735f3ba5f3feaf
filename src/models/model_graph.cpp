#include "models/model_graph.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll {

ValueId Pass::input(std::string_view name) const {
  const auto found = std::ranges::find(inputs, name, &Field::name);
  ensure(found != inputs.end(), "model", "the pass has no such field");
  return found->value;
}

const Pass* ModelGraph::find(std::string_view name) const {
  const std::optional<Section> section = name == "train" ? Section::micro : graph.find_forward(name);
  const auto found = section ? std::ranges::find(passes, *section, &Pass::section) : passes.end();
  return found == passes.end() ? nullptr : &*found;
}

const Pass& ModelGraph::pass(std::string_view name) const {
  const Pass* found = find(name);
  ensure(found != nullptr, "model", "the model has no such pass");
  return *found;
}

std::int64_t parameter_count(const Graph& graph) {
  std::int64_t count = 0;
  for (const ValueId id : graph.parameters()) count += tensor_shape(graph.values[id]).elements();
  return count;
}

}  // namespace plimsoll
