// The training graph without recomputation, in the form of an instance: values and nodes numbered in the order of execution,
// feeding and fetching as nodes, equal kernels as one kind. Each value is made once; persistent values exist from the beginning.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "plan/simulation.h"

namespace plimsoll {

// The numbers of the format.
enum class InstanceRole : std::uint8_t { parameter, accumulator, state, input, activation, gradient, output };
enum class InstanceLasts : std::uint8_t { transient, window, run };

struct InstanceValue {
  std::string name;  // empty: an updated version of another value
  Bytes bytes;
  InstanceRole role;
  InstanceLasts lasts;
};

struct InstanceNode {
  int kind = 0;
  std::string name;
  std::vector<int> inputs, outputs;
  int of = -1;                         // the node whose gradient a backward node computes; -1: no single one
  std::vector<std::size_t> positions;  // positions of `inputs` among the inputs of the graph's node
  std::vector<ValueId> reads, writes;  // for nodes that feed or fetch
};

struct InstanceProblem {
  std::vector<InstanceValue> values;
  std::vector<int> roots;          // by value: the value that it is a view of, else itself
  std::vector<std::string> kinds;  // each as a JSON object
  std::vector<InstanceNode> nodes;
  double update_seconds = 0;  // seconds of the update's nodes and of all micro-steps of a window

  PerValue<int> value_of;                                 // number of persistent values and of results of nodes; -1: none
  PerNode<int> node_of;                                   // number of a node; -1: node of another section
  std::map<std::pair<Step::Kind, Section>, int> special;  // nodes that feed and fetch
};

// `simulation` recomputes nothing, and has only the steps of a window and of loading.
InstanceProblem instance_problem(const Simulation& simulation);

std::vector<nlohmann::ordered_json> value_rows(const InstanceProblem& problem);
std::vector<nlohmann::ordered_json> kind_rows(const InstanceProblem& problem);
std::vector<nlohmann::ordered_json> node_rows(const InstanceProblem& problem);

}  // namespace plimsoll
