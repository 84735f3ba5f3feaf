// The seconds of a timer's instructions, added up by op and section, and by kind of instruction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/roofline.h"
#include "program/program.h"
#include "run/instruction_timer.h"

namespace plimsoll {

struct OpSeconds {
  std::string op;       // "matmul", "matmul backward", "matmul again" of a recomputation
  std::string section;  // of the graph
  std::int64_t runs = 0;
  double seconds = 0;
  Cost cost;         // of all runs
  double bound = 0;  // seconds at the rates of a roofline
};

struct SecondsByKind {
  std::vector<OpSeconds> ops;      // slowest first
  double kernels = 0, update = 0;  // kernels of micro-steps and passes; those of the update, wherever they run
  double copies = 0;               // starts of copies between tiers, and waits for them
  double exchanges = 0;            // the same with other ranks
  double feed = 0;                 // feeding of inputs, with the waits for data; fetching of results
  double all() const { return kernels + update + copies + exchanges + feed; }
};

// The name of a node's op. `shapes`: with the shapes of matrix products.
std::string op_name(const Graph& graph, const Node& node, bool shapes = false);
// The cost of one run; of a range, its share of the node.
Cost cost_of(const Graph& graph, const RunKernel& run);

// The seconds of all sections that ran. `rates` for bounds, without the cost of a call.
SecondsByKind seconds_by_kind(const Graph& graph, const Program& program, const InstructionTimer& timer, Roofline rates,
                              bool shapes = false);

}  // namespace plimsoll
