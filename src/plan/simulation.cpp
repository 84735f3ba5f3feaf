#include "plan/simulation.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "plan/passes/fetching.h"
#include "plan/passes/offload.h"
#include "plan/passes/paging.h"
#include "tensor/block_encode.h"

namespace plimsoll {

Simulation simulate(Graph graph, std::int64_t rounds, int loss_chunks, bool saves, NodeKernels& kernels) {
  Simulation simulation;
  simulation.graph = std::move(graph);
  simulation.timeline = make_timeline(simulation.graph, rounds, saves);
  std::vector<Bytes> scratch;
  for (const Step& step : simulation.timeline.steps) {
    StepKernel kernel;
    if (step.kind == Step::Kind::node) kernel = kernels.of(simulation.graph, step.node, loss_chunks);
    scratch.push_back(kernel.scratch());
    simulation.kernels.push_back(std::move(kernel));
  }
  simulation.lifetimes = analyse(simulation.graph, simulation.timeline, scratch);
  return simulation;
}

Graph apply_choices(Graph paged, const std::vector<Unit>& units, const std::vector<NodeReplay>& replays,
                    const Residency& residency, const WindowOrder& window) {
  Graph result = apply_replays(std::move(paged), replays);
  result = apply_grouping(std::move(result), units, window.group, residency.by_matrix);
  if (residency.parameters.beyond || residency.accumulators.beyond) {
    result = apply_fetching(std::move(result), units, residency.by_matrix, window.rounds() > 1);
  }
  return apply_offload(std::move(result), units, static_cast<std::size_t>(residency.inputs), residency.near);
}

Graph apply_decisions(const Graph& graph, const std::vector<Unit>& units, const std::vector<NodeReplay>& replays,
                      const Residency& residency, const WindowOrder& window) {
  return apply_choices(apply_paging(graph, units, residency), units, replays, residency, window);
}

int count_primitives(const Simulation& simulation, int loss_chunks, int threads, bool loss) {
  std::map<std::string, int> distinct;
  for (std::size_t i = 0; i < simulation.kernels.size(); ++i) {
    const StepKernel& kernel = simulation.kernels[i];
    if (kernel.add.primitives + kernel.write.primitives == 0) continue;
    const Node& node = simulation.graph.nodes[simulation.timeline.steps[i].node];
    if (node.op->chunked && !loss) continue;
    const bool always_first = simulation.timeline.rounds == 1 && node.section == Section::micro;
    for (const bool overwrite : {false, true}) {
      const bool only_writes = starts_round(simulation.graph, node) || (always_first && starts_window(simulation.graph, node));
      if (!overwrite && only_writes) continue;
      const NodeRequest request = request_for(simulation.graph, node, threads, loss_chunks, overwrite);
      distinct[kernel_key(request.request)] = overwrite ? kernel.write.primitives : kernel.add.primitives;
    }
  }
  int count = 0;
  for (const auto& [key, primitives] : distinct) count += primitives;
  return count;
}

Bytes encoding_bytes(const Graph& graph) {
  Bytes most;
  for (const Value& value : graph.values) {
    if (!value.parameter || !value.parameter->blocks) continue;
    const BlockMatrix& matrix = *value.parameter->blocks;
    if (scales_apart(matrix.format)) most = std::max(most, encoding_bytes(matrix));
  }
  return most;
}

}  // namespace plimsoll
