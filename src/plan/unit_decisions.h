// What a plan's replays come to, told by the units of the model.
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
  keep,       // nothing of it runs again
  cheap,      // some of its nodes do
  recompute,  // all that its backward pass needs but what crosses its cuts
};
std::string_view name(UnitMode mode);

struct UnitDecision {
  std::string unit;  // its name: "h.3"
  UnitMode mode = UnitMode::keep;
  bool pieces = false;              // some of its nodes run again more than once
  bool joined = false;              // what comes into it is made again with the unit before it
  std::vector<std::string> values;  // made again where not all are; without the name of the unit
};

// The blocks in the order of the model. What runs again outside of them stands behind them, by its lines.
std::vector<UnitDecision> describe_units(const Graph& graph, const std::vector<Unit>& units,
                                         const std::vector<NodeReplay>& replays);

}  // namespace plimsoll
