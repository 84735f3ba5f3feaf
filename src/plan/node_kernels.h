// The kernels of a graph's nodes. Planning simulates many rewrites of one graph, and clones run the kernels of their
// originals. So each form of a node is requested once. Only chunked losses are requested each time, since their kernels
// depend on the chunks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "graph/graph.h"
#include "graph/kernel_catalogue.h"

namespace plimsoll {

// The kernels of one step: `add` adds to accumulators, `write` writes them. They are equal unless the node starts a window.
struct StepKernel {
  KernelChoice add, write;

  const KernelChoice& of(bool window_start) const { return window_start ? write : add; }
  Bytes scratch() const { return std::max(add.scratch, write.scratch); }
};

// The request for the kernel of a node; spans point into `inputs` and `outputs`.
struct NodeRequest {
  std::vector<ValueType> inputs, outputs;
  KernelRequest request;
};
NodeRequest request_for(const Graph& graph, const Node& node, int threads, int loss_chunks, bool overwrite);

class NodeKernels {
 public:
  // The catalogue outlives this.
  NodeKernels(int threads, KernelCatalogue& catalogue) : threads_(threads), catalogue_(catalogue) {}

  // `graph`: always the same one, or a rewrite that keeps its ids. Transfers have no kernel. Thread-safe.
  StepKernel of(const Graph& graph, NodeId node, int loss_chunks);
  // True if the kernels of the micro-step accept ranges for every input that could come in ranges.
  bool take_ranges(const Graph& graph) const;

 private:
  StepKernel choose(const Graph& graph, const Node& node, int loss_chunks);

  int threads_;
  KernelCatalogue& catalogue_;
  std::mutex mutex_;
  std::deque<StepKernel> known_;
  std::vector<std::int32_t> place_;  // index into `known_`; four per node: whole or in ranges, within a window or at its start
};

}  // namespace plimsoll
