// A plan's replays summarised by the units of the model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "plan/passes/replay.h"
#include "plan/units.h"

namespace plimsoll {

enum class UnitMode : std::uint8_t {
  keep,       // no node runs again
  cheap,      // some of its nodes run again
  recompute,  // all nodes that its backward pass needs run again, except those at its cuts
};
std::string_view name(UnitMode mode);

struct UnitDecision {
  std::string unit;  // its name: "h.3"
  UnitMode mode = UnitMode::keep;
  bool pieces = false;              // some of its nodes run again more than once
  bool joined = false;              // its input, the output of the block before it, is made again
  std::vector<std::string> values;  // the values made again, if not all are; without the name of the unit
};

// The decisions on blocks in the order of the model, then those on lines outside the blocks.
std::vector<UnitDecision> describe_units(const Graph& graph, const std::vector<Unit>& units,
                                         const std::vector<NodeReplay>& replays);

}  // namespace plimsoll
