// The training graph that keeps everything as an instance states it: values and nodes numbered in the order in which they run,
// feeding and fetching as nodes, equal kernels as one kind. Each value is made once; persistent ones are there before.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/simulation.h"

namespace plimsoll {

struct InstanceValue {
  std::string name;  // empty: it is an updated version of another value
  Bytes bytes;
  std::string_view role, lasts;  // "transient", "window" or "run"
};

struct InstanceNode {
  int kind = 0;
  std::string name;
  std::vector<int> inputs, outputs;
  int of = -1;                         // of a backward node: the node whose gradient it computes; -1: no single one
  std::vector<std::size_t> positions;  // of `inputs` among those of the graph's node
  std::vector<ValueId> reads, writes;  // of a node that feeds or fetches
};

struct InstanceProblem {
  std::vector<InstanceValue> values;
  std::vector<int> roots;          // per value: what it is a view of, itself for others
  std::vector<std::string> kinds;  // each as a JSON object
  std::vector<InstanceNode> nodes;
  double update_seconds = 0;  // of all nodes once, the micro-step's as often as a window has micro-steps

  PerValue<int> value_of;                                 // of persistent values and of those that nodes make; -1 for others
  PerNode<int> node_of;                                   // -1 for those of other sections
  std::map<std::pair<Step::Kind, Section>, int> special;  // feeding and fetching
};

// `simulation` keeps everything and has no steps but those of a window and of loading.
InstanceProblem instance_problem(const Simulation& simulation);

std::vector<nlohmann::ordered_json> value_rows(const InstanceProblem& problem);
std::vector<nlohmann::ordered_json> kind_rows(const InstanceProblem& problem);
std::vector<nlohmann::ordered_json> node_rows(const InstanceProblem& problem);

}  // namespace plimsoll
