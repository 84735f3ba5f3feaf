#include "plan/node_kernels.h"

#include <algorithm>

#include "plan/lifetimes.h"

namespace plimsoll {

NodeRequest request_for(const Graph& graph, const Node& node, int threads, int loss_chunks, bool overwrite) {
  NodeRequest result{types_of(graph, node.inputs), types_of(graph, node.outputs), {}};
  result.request = {node.op,
                    &node.attributes,
                    result.inputs,
                    result.outputs,
                    threads,
                    node.op->chunked ? loss_chunks : 1,
                    overwrite && starts_window(graph, node),
                    node.pages.valid()};
  return result;
}

StepKernel NodeKernels::of(const Graph& graph, NodeId node, int loss_chunks) {
  const Node& asked = graph.nodes[node];
  if (asked.op->transfer != Transfer::none) return {};
  const bool starts = starts_window(graph, asked);
  const std::lock_guard lock(mutex_);
  if (asked.op->chunked) return choose(graph, asked, loss_chunks);
  constexpr std::int32_t kUnknown = -1;
  const NodeId same = asked.clone_of.valid() ? asked.clone_of : asked.replica_of.valid() ? asked.replica_of : node;
  const std::size_t place = 4 * same.index + (asked.pages.valid() ? 1 : 0) + (starts ? 2 : 0);
  if (place >= place_.size()) place_.resize(4 * graph.nodes.size(), kUnknown);
  if (place_[place] == kUnknown) {
    known_.push_back(choose(graph, asked, loss_chunks));
    place_[place] = static_cast<std::int32_t>(known_.size() - 1);
  }
  return known_[static_cast<std::size_t>(place_[place])];
}

bool NodeKernels::take_ranges(const Graph& graph) const {
  const std::vector<NodeId> micro = graph.section_order(Section::micro);
  return std::ranges::all_of(micro, [&](NodeId node) {
    const OpDef& op = *graph.nodes[node].op;
    return op.ranges == nullptr || catalogue_.takes_ranges(op);
  });
}

StepKernel NodeKernels::choose(const Graph& graph, const Node& node, int loss_chunks) {
  StepKernel kernel;
  const auto chosen = [&](bool overwrite) {
    return catalogue_.choose(request_for(graph, node, threads_, loss_chunks, overwrite).request);
  };
  kernel.add = chosen(starts_round(graph, node));
  kernel.write = starts_window(graph, node) ? chosen(true) : kernel.add;
  return kernel;
}

}  // namespace plimsoll
