#include "prepare/leaving.h"

namespace plimsoll {

Leaving leaving_of(const Config& config, const PlanningInput& input) {
  const Graph graph = build_training_graph(config, input.facts, input.request.row_step).graph;
  Residency residency{.pages = {kStoredAlignment.n, 2}, .optimizer_state = kBeyond};
  const Bytes state = stored_layout(apply_paging(graph, {}, residency)).total();
  Bytes all = state;
  // Parameters and accumulators may rest on other tiers as well.
  for (const Value& value : graph.values) {
    if (value.persistent() && (value.role == Role::parameter || value.role == Role::accumulator)) all += value.bytes();
  }
  return {all, state};
}

}  // namespace plimsoll
